import os
import re
import stat
from pathlib import Path

import pytest

from toolbox_mcp.safety.path_jail.protected import fold
from toolbox_mcp.safety.writes import fs_ops as entries
from toolbox_mcp.tools.settings import ToolSettings

STAMP = r"\d{8}T\d{6}Z\.[0-9a-f]{12}"


def gone(path: Path) -> bool:
    return not path.exists() and not path.is_symlink()


@pytest.fixture
def folder(project):
    (project / "a.txt").write_text("a")
    (project / "sub" / "deep").mkdir(parents=True)
    (project / "sub" / "deep" / "c.txt").write_text("c")
    (project / "empty").mkdir()
    (project / "link").symlink_to("a.txt")
    (project / "folder-link").symlink_to("sub")
    (project / "outside").symlink_to(project.parent / "x")
    (project.parent / "x").write_text("outside")
    os.mkfifo(project / "pipe")
    return project


@pytest.mark.parametrize(
    ("path", "arguments", "kind", "name"),
    [
        ("a.txt", {}, "file", rf"a\.{STAMP}\.txt"),
        ("empty", {}, "directory", rf"empty\.{STAMP}"),
        ("sub", {"recursive": True}, "directory", rf"sub\.{STAMP}"),
        ("link", {}, "link", rf"link\.{STAMP}"),
        ("folder-link", {}, "link", rf"folder-link\.{STAMP}"),
        ("outside", {}, "link", rf"outside\.{STAMP}"),
        ("pipe", {}, "file", rf"pipe\.{STAMP}"),
        (".env", {}, "file", rf"\.env\.{STAMP}"),
        ("x.tar.gz", {}, "file", rf"x\.tar\.{STAMP}\.gz"),
        ("sub/deep/c.txt", {"mode": "trash"}, "file", rf"c\.{STAMP}\.txt"),
    ],
)
async def test_moves_what_it_deletes_to_the_trash(call, folder, path, arguments, kind, name):
    for extra in (".env", "x.tar.gz"):
        (folder / extra).touch()
    before = os.lstat(folder / path)
    text = await call("delete_file", path=path, **arguments)
    found = re.fullmatch(rf"Moved {kind} {re.escape(path)} to trash: (\.trash/{name})", text)
    assert found, text
    assert gone(folder / path)
    assert os.lstat(folder / found[1]).st_ino == before.st_ino
    assert (folder / ".trash/.gitignore").read_text() == "*\n"
    assert stat.S_IMODE(os.stat(folder / ".trash").st_mode) == 0o700
    assert (folder.parent / "x").read_text() == "outside"
    assert path == "a.txt" or (folder / "a.txt").exists()


@pytest.mark.parametrize(
    ("path", "arguments", "text"),
    [
        ("a.txt", {}, "Deleted file a.txt"),
        ("empty", {}, "Deleted directory empty"),
        ("sub", {"recursive": True}, "Deleted directory sub"),
        ("link", {"recursive": True}, "Deleted link link"),
        ("folder-link", {"recursive": True}, "Deleted link folder-link"),
        ("outside", {}, "Deleted link outside"),
    ],
)
async def test_permanent_deletes_for_good_and_never_what_a_link_names(call, folder, path, arguments, text):
    assert await call("delete_file", path=path, mode="permanent", **arguments) == text
    assert gone(folder / path)
    assert not (folder / ".trash").exists()
    assert (folder.parent / "x").read_text() == "outside"
    assert (folder / "sub/deep/c.txt").exists() == (path != "sub")


@pytest.mark.parametrize("mode", ["trash", "permanent"])
@pytest.mark.parametrize(
    ("path", "arguments", "code"),
    [
        ("missing", {}, "not_found"),
        ("missing", {"recursive": True}, "not_found"),
        ("sub", {}, "not_empty"),
        (".", {"recursive": True}, "refused"),
        ("sub/..", {"recursive": True}, "refused"),
        ("../x", {}, "path_denied"),
        ("outside/y", {}, "path_denied"),
        (".git", {"recursive": True}, "protected_path"),
        (".git/config", {}, "protected_path"),
        ("holder", {"recursive": True}, "protected_path"),
        ("holder/.GIT", {"recursive": True}, "protected_path"),
        ("a.txt/x", {}, "not_found"),
        ("x" * 300, {}, "path_denied"),
        ("a\x00", {}, "path_denied"),
    ],
)
async def test_a_refused_call_deletes_nothing(call, folder, mode, path, arguments, code):
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("x")
    (folder / "holder/.GIT").mkdir(parents=True)
    before = sorted((str(p), os.lstat(p).st_ino) for p in folder.parent.rglob("*"))
    assert await call.code("delete_file", path=path, mode=mode, **arguments) == code
    assert sorted((str(p), os.lstat(p).st_ino) for p in folder.parent.rglob("*")) == before


@pytest.mark.parametrize("mode", ["trash", "permanent"])
async def test_a_root_inside_another_stays_and_so_does_what_holds_it(call, folder, mode):
    call.roots.append(folder / "sub/deep")
    for path in ("sub", "sub/deep", str(folder / "sub/deep")):
        assert await call.code("delete_file", path=path, recursive=True, mode=mode) == "refused"
    assert (folder / "sub/deep/c.txt").exists()


async def test_the_setting_decides_where_the_call_does_not(call, folder):
    call.settings = ToolSettings(delete_mode="permanent")
    assert await call("delete_file", path="a.txt") == "Deleted file a.txt"
    assert (await call("delete_file", path="empty", mode="trash")).startswith("Moved directory empty to trash: .trash/")
    assert (await call("delete_file", path="link", trash_dir="bin")).startswith("Moved link link to trash: bin/link.")
    assert await call.code("delete_file", path="sub", mode="permanent", trash_dir="bin") == "invalid_args"
    assert await call.code("delete_file", path="sub", mode="shred") == "invalid_args"


async def test_a_named_trash_is_made_inside_the_roots_only(call, folder):
    assert (await call("delete_file", path="a.txt", trash_dir="old/bin")).startswith(
        "Moved file a.txt to trash: old/bin/a."
    )
    assert not (folder / ".trash").exists()
    assert os.listdir(folder / "old/bin")[0].startswith("a.")
    for bad, code in (
        ("../bin", "path_denied"),
        (".git", "protected_path"),
        ("pipe", "exists"),
        ("sub/deep", "refused"),
    ):
        assert await call.code("delete_file", path="sub", recursive=True, trash_dir=bad) == code
    assert (folder / "sub/deep/c.txt").exists()


async def test_the_configured_trash_is_used(call, folder):
    call.settings = ToolSettings(trash_dir=folder / "bin")
    assert (await call("delete_file", path="a.txt")).startswith("Moved file a.txt to trash: bin/a.")


async def test_what_is_in_the_trash_goes_for_good_or_stays(call, folder):
    trashed = (await call("delete_file", path="a.txt")).rsplit(" ", 1)[1]
    assert await call.code("delete_file", path=trashed) == "refused"
    assert await call.code("delete_file", path=".trash", recursive=True) == "refused"
    assert await call("delete_file", path=trashed, mode="permanent") == f"Deleted file {trashed}"
    assert await call("delete_file", path=".trash", mode="permanent", recursive=True) == "Deleted directory .trash"


async def test_a_trash_that_leads_out_is_not_used(call, folder):
    (folder / ".trash").symlink_to(folder.parent)
    assert await call.code("delete_file", path="a.txt") == "path_denied"
    assert (folder / "a.txt").exists()


async def test_each_root_has_a_trash_of_its_own(call, folder):
    other = folder.parent / "other"
    other.mkdir()
    (other / "f").touch()
    call.roots.append(other)
    assert (await call("delete_file", path=str(other / "f"))).startswith(
        f"Moved file {other}/f to trash: {other}/.trash/f."
    )


async def test_a_name_too_long_for_the_trash_is_shortened(call, folder):
    for name in ("n" * 255, "é" * 127, "n" * 100 + "." + "e" * 150):
        (folder / name).touch()
        text = await call("delete_file", path=name)
        assert text.startswith("Moved file"), text
    assert all(len(os.fsencode(name)) <= 255 for name in os.listdir(folder / ".trash"))


async def test_the_trash_of_the_desktop_is_used_where_it_is_inside_a_root(call, folder):
    trash = folder / "home/.local/share/Trash"
    call.settings = ToolSettings(system_trash=trash)
    text = await call("delete_file", path="a.txt")
    name = text.removeprefix("Moved file a.txt to trash: home/.local/share/Trash/files/")
    assert re.fullmatch(rf"a\.{STAMP}\.txt", name)
    info = (trash / "info" / f"{name}.trashinfo").read_text()
    assert re.fullmatch(rf"\[Trash Info\]\nPath={folder}/a\.txt\nDeletionDate=\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\n", info)
    assert stat.S_IMODE(os.stat(trash / "files").st_mode) == 0o700
    assert (await call("undo")).endswith("restored a.txt")
    assert (folder / "a.txt").read_text() == "a"
    assert os.listdir(trash / "info") == os.listdir(trash / "files") == []


async def test_the_trash_of_the_desktop_is_not_used_outside_the_roots(call, folder):
    call.settings = ToolSettings(system_trash=folder.parent / "Trash")
    assert (await call("delete_file", path="a.txt")).startswith("Moved file a.txt to trash: .trash/a.")
    assert not (folder.parent / "Trash").exists()


async def test_a_failed_delete_leaves_no_trash_behind(call, folder, monkeypatch):
    from toolbox_mcp.safety.writes import fs_ops as entries

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(entries, "_rename", full)
    assert await call.code("delete_file", path="a.txt") == "refused"
    assert (folder / "a.txt").exists()
    assert not (folder / ".trash").exists()
    assert await call.code("undo") == "not_found"


async def test_a_deleted_file_is_no_longer_known(call, folder):
    await call("read_file", path="a.txt")
    await call("delete_file", path="a.txt")
    (folder / "a.txt").write_text("other")
    assert await call("write_file", path="a.txt", content="x") == "Overwrote a.txt (1 bytes)"


async def test_what_a_deletion_changes_is_locked_at_once(call, folder, monkeypatch):
    look = entries.removable
    free = []

    def others(place, **options):
        # A second lock taken later would wait for ever for a call that has taken the two the other way round.
        held = place.roots.locks._held
        free.append(fold(str(folder / ".trash/.gitignore")) not in held)
        return look(place, **options)

    monkeypatch.setattr(entries, "removable", others)
    assert (await call("delete_file", path="a.txt")).startswith("Moved file a.txt to trash: .trash/a.")
    assert free[0] is False
