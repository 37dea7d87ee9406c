import os
import stat

import pytest

from toolbox_mcp.tools.edit import move_file


@pytest.fixture
def folder(project):
    (project / "a.txt").write_text("a")
    (project / "b.txt").write_text("b")
    (project / "sub").mkdir()
    (project / "sub" / "c.txt").write_text("c")
    (project / "empty").mkdir()
    (project / "link").symlink_to("a.txt")
    (project / "folder-link").symlink_to("sub")
    (project / "outside").symlink_to("/etc/passwd")
    os.mkfifo(project / "pipe")
    return project


@pytest.mark.parametrize(
    ("source", "destination", "arguments", "kind"),
    [
        ("a.txt", "z.txt", {}, "file"),
        ("a.txt", "new/deep/z.txt", {}, "file"),
        ("a.txt", "b.txt", {"overwrite": True}, "file"),
        ("sub", "moved", {}, "dir"),
        ("sub", "new/moved", {}, "dir"),
        ("empty", "sub/empty", {}, "dir"),
        ("link", "other", {}, "link"),
        ("outside", "still-outside", {}, "link"),
        ("folder-link", "other", {}, "link"),
        ("a.txt", "link", {"overwrite": True}, "file"),
        ("a.txt", "folder-link", {"overwrite": True}, "file"),
        ("pipe", "pipe2", {}, "pipe"),
        ("a.txt", "A.TXT", {}, "file"),
    ],
)
async def test_moves_the_entry_itself(call, folder, source, destination, arguments, kind):
    before = os.lstat(folder / source)
    moved = await call("move_file", source=source, destination=destination, **arguments)
    assert moved == f"Moved {source} to {destination}"
    assert source not in os.listdir(folder)
    after = os.lstat(folder / destination)
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    tests = {"file": stat.S_ISREG, "dir": stat.S_ISDIR, "link": stat.S_ISLNK, "pipe": stat.S_ISFIFO}
    assert tests[kind](after.st_mode)
    assert (folder / "sub/c.txt").exists() or source == "sub"


@pytest.mark.parametrize(
    ("source", "destination", "arguments", "code"),
    [
        ("missing", "z", {}, "not_found"),
        ("a.txt", "b.txt", {}, "exists"),
        ("a.txt", "link", {}, "exists"),
        ("a.txt", "sub", {}, "is_a_directory"),
        ("a.txt", "sub", {"overwrite": True}, "is_a_directory"),
        ("a.txt", "empty", {"overwrite": True}, "is_a_directory"),
        ("sub", "empty", {"overwrite": True}, "is_a_directory"),
        ("sub", "a.txt", {"overwrite": True}, "exists"),
        ("a.txt", "a.txt", {}, "no_change"),
        ("a.txt", "./a.txt", {"overwrite": True}, "no_change"),
        ("sub", "sub/below", {}, "refused"),
        ("sub", "folder-link/below", {}, "refused"),
        (".", "elsewhere", {}, "refused"),
        ("a.txt", ".", {}, "is_a_directory"),
        ("a.txt", "1/2/3/4/5/6/7/8/9/z", {}, "refused"),
        ("a.txt", "b.txt/z", {}, "not_a_directory"),
        ("a.txt", "../z", {}, "path_denied"),
        ("../x", "z", {}, "path_denied"),
        ("outside/x", "z", {}, "path_denied"),
        ("a.txt", ".git/config", {}, "protected_path"),
        (".git", "git", {}, "protected_path"),
        ("holder", "held", {}, "protected_path"),
        ("sub", ".vscode", {}, "protected_path"),
        ("a.txt", "x" * 300, {}, "path_denied"),
        ("a\x00", "z", {}, "path_denied"),
    ],
)
async def test_a_refused_move_changes_nothing(call, folder, source, destination, arguments, code):
    call.jail["protected"] = [".vscode/tasks.json"]
    (folder.parent / "x").write_text("x")
    (folder / ".git").mkdir()
    (folder / "holder" / ".git").mkdir(parents=True)
    before = sorted((str(p), os.lstat(p).st_ino) for p in folder.parent.rglob("*"))
    assert await call.code("move_file", source=source, destination=destination, **arguments) == code
    assert sorted((str(p), os.lstat(p).st_ino) for p in folder.parent.rglob("*")) == before


async def test_a_root_inside_another_is_not_moved_and_neither_is_what_holds_it(call, folder):
    call.roots.append(folder / "sub")
    assert await call.code("move_file", source="sub", destination="moved") == "refused"
    (folder / "outer").mkdir()
    call.roots.append(folder / "outer")


async def test_what_was_read_is_known_by_its_later_name(call, folder):
    await call("read_file", path="sub/c.txt")
    await call("move_file", source="sub", destination="moved")
    (folder / "moved/c.txt").write_text("someone else's")
    assert await call.code("write_file", path="moved/c.txt", content="x") == "file_changed"


async def test_a_file_that_was_replaced_is_not_taken_for_the_one_that_was_read(call, folder):
    await call("read_file", path="b.txt")
    await call("move_file", source="a.txt", destination="b.txt", overwrite=True)
    assert await call("write_file", path="b.txt", content="x") == "Overwrote b.txt (1 bytes)"
    await call("read_file", path="link")
    assert await call("write_file", path="a.txt", content="x") == "Created a.txt (1 bytes)"


@pytest.mark.parametrize("there", ["b.txt", "link", "new"])
async def test_what_is_written_to_the_destination_meanwhile_is_not_lost(call, folder, monkeypatch, there):
    look = move_file.current

    def meanwhile(*arguments):
        found = look(*arguments)
        (folder / there).unlink(missing_ok=True)
        (folder / there).write_text("theirs")
        return found

    monkeypatch.setattr(move_file, "current", meanwhile)
    code = await call.code("move_file", source="sub/c.txt", destination=there, overwrite=True)
    assert code == ("exists" if there == "new" else "file_changed")
    assert (folder / there).read_text() == "theirs"
    assert (folder / "sub/c.txt").read_text() == "c"
    assert not list(folder.rglob(".toolbox-*"))
