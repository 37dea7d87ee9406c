import os
from pathlib import Path

import pytest

from toolbox_mcp.safety.writes.swap import Swap
from toolbox_mcp.safety.writes.temp_names import temporary_name
from toolbox_mcp.tools.progress import Progress
from toolbox_mcp.tools.undo.journal import Journal

SAME = "what replaces is the same there, as line ends stay those of the file"


@pytest.fixture
def folder(project):
    (project / "src").mkdir()
    (project / "src" / "a.py").write_bytes(b"old = 1\nprint(old)\n")
    (project / "b.txt").write_bytes(b"old\r\nOld\r\n")
    (project / ".hidden").write_bytes(b"old")
    (project / "binary").write_bytes(b"old\x00")
    (project / "node_modules").mkdir()
    (project / "node_modules" / "m.js").write_bytes(b"old")
    (project / "skipped.log").write_bytes(b"old")
    (project / ".gitignore").write_bytes(b"*.log\n")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_bytes(b"old")
    (project / "large").write_bytes(b"old" + b" " * 5 * 2**20)
    (project / "link").symlink_to("b.txt")
    (project / "out").symlink_to(project.parent / "outside")
    (project.parent / "outside").mkdir()
    (project.parent / "outside" / "f").write_bytes(b"old")
    os.mkfifo(project / "pipe")
    return project


def contents(folder):
    found = {}
    for top, folders, names in os.walk(folder):
        for name in names + folders:
            path = os.path.join(top, name)
            kept = os.path.isfile(path) and not os.path.islink(path)
            found[os.path.relpath(path, folder)] = Path(path).read_bytes() if kept else os.lstat(path).st_ino
    return found


@pytest.mark.parametrize(
    ("arguments", "text", "changed"),
    [
        (
            {"pattern": "old", "replacement": "new"},
            "Replaced 4 occurrence(s) in 3 file(s)\n.hidden: 1\nb.txt: 1\nsrc/a.py: 2",
            {".hidden": b"new", "b.txt": b"new\r\nOld\r\n", "src/a.py": b"new = 1\nprint(new)\n"},
        ),
        (
            {"pattern": "old", "replacement": "new", "dry_run": True},
            "Would replace 4 occurrence(s) in 3 file(s)\n.hidden: 1\nb.txt: 1\nsrc/a.py: 2",
            {},
        ),
        (
            {"pattern": "old"},
            "Replaced 4 occurrence(s) in 3 file(s)\n.hidden: 1\nb.txt: 1\nsrc/a.py: 2",
            {".hidden": b"", "b.txt": b"\r\nOld\r\n", "src/a.py": b" = 1\nprint()\n"},
        ),
        (
            {"pattern": "old", "replacement": "new", "glob": "*.py"},
            "Replaced 2 occurrence(s) in 1 file(s)\nsrc/a.py: 2",
            {"src/a.py": b"new = 1\nprint(new)\n"},
        ),
        (
            {"pattern": "old", "replacement": "new", "glob": "src/**"},
            "Replaced 2 occurrence(s) in 1 file(s)\nsrc/a.py: 2",
            {"src/a.py": b"new = 1\nprint(new)\n"},
        ),
        (
            {"pattern": "old", "replacement": "new", "path": "src", "glob": "*.{py,rb}"},
            "Replaced 2 occurrence(s) in 1 file(s)\nsrc/a.py: 2",
            {"src/a.py": b"new = 1\nprint(new)\n"},
        ),
        (
            {"pattern": "old", "replacement": "new", "include_ignored": True, "glob": "*.{js,log}"},
            "Replaced 2 occurrence(s) in 2 file(s)\nnode_modules/m.js: 1\nskipped.log: 1",
            {"node_modules/m.js": b"new", "skipped.log": b"new"},
        ),
        (
            {"pattern": "old", "replacement": "new", "path": "node_modules"},
            "Replaced 1 occurrence(s) in 1 file(s)\nnode_modules/m.js: 1",
            {"node_modules/m.js": b"new"},
        ),
        (
            {"pattern": "OLD", "replacement": r"\1$&", "ignore_case": True, "glob": "*.txt"},
            "Replaced 2 occurrence(s) in 1 file(s)\nb.txt: 2",
            {"b.txt": b"\\1$&\r\n\\1$&\r\n"},
        ),
        (
            {"pattern": r"\1$&(", "replacement": "x"},
            r"no matches for \1$&(",
            {},
        ),
        (
            {"pattern": "old\nOld", "replacement": "1\n2\n3"},
            "Replaced 1 occurrence(s) in 1 file(s)\nb.txt: 1",
            {"b.txt": b"1\r\n2\r\n3\r\n"},
        ),
        (
            {"pattern": "old\r\nOld\r\n", "replacement": "x\n"},
            "Replaced 1 occurrence(s) in 1 file(s)\nb.txt: 1",
            {"b.txt": b"x\r\n"},
        ),
        (
            {"pattern": "old", "replacement": "old"},
            "Replaced 4 occurrence(s) in 3 file(s)\n.hidden: 1\nb.txt: 1\nsrc/a.py: 2",
            {},
        ),
        *(
            (
                {"pattern": pattern, "replacement": "\n", "regex": regex, "glob": "*.txt"},
                f"Replaced 2 occurrence(s) in 1 file(s)\nb.txt: 2\n... (1 file(s) left as they are: {SAME})",
                {},
            )
            for pattern, regex in (("\r\n", False), (r"\r\n", True))
        ),
        ({"pattern": "nowhere"}, "no matches for nowhere", {}),
        ({"pattern": "old", "glob": "*.rb"}, "no matches for old", {}),
        (
            {"pattern": r"(\w+) = (\d)", "replacement": r"\2 = \g<1> \\1", "regex": True},
            "Replaced 1 occurrence(s) in 1 file(s)\nsrc/a.py: 1",
            {"src/a.py": b"1 = old \\1\nprint(old)\n"},
        ),
        (
            {"pattern": r"^(?P<word>old)$", "replacement": r"<\g<word>>", "regex": True, "glob": "*.txt"},
            "Replaced 1 occurrence(s) in 1 file(s)\nb.txt: 1",
            {"b.txt": b"<old>\r\nOld\r\n"},
        ),
        (
            {"pattern": "^", "replacement": "> ", "regex": True, "glob": "*.txt"},
            "Replaced 2 occurrence(s) in 1 file(s)\nb.txt: 2",
            {"b.txt": b"> old\r\n> Old\r\n"},
        ),
        (
            {"pattern": "$", "replacement": ";", "regex": True, "glob": "a.py"},
            "Replaced 2 occurrence(s) in 1 file(s)\nsrc/a.py: 2",
            {"src/a.py": b"old = 1;\nprint(old);\n"},
        ),
        (
            {"pattern": r"\Z", "replacement": "end\n", "regex": True, "glob": "*.txt"},
            "Replaced 1 occurrence(s) in 1 file(s)\nb.txt: 1",
            {"b.txt": b"old\r\nOld\r\nend\r\n"},
        ),
        (
            {"pattern": "x*", "replacement": "-", "regex": True, "glob": ".hidden"},
            "Replaced 4 occurrence(s) in 1 file(s)\n.hidden: 4",
            {".hidden": b"-o-l-d-"},
        ),
        (
            {"pattern": "(old)(\r\n|\\r\\n)(?=Old)", "replacement": r"\2\1", "regex": True},
            "Replaced 1 occurrence(s) in 1 file(s)\nb.txt: 1",
            {"b.txt": b"\r\noldOld\r\n"},
        ),
        (
            {"pattern": "OLD", "replacement": "x", "regex": True, "ignore_case": True, "glob": "*.txt"},
            "Replaced 2 occurrence(s) in 1 file(s)\nb.txt: 2",
            {"b.txt": b"x\r\nx\r\n"},
        ),
        (
            {"pattern": "(o)|(z)", "replacement": r"[\1\2]", "regex": True, "glob": ".hidden"},
            "Replaced 1 occurrence(s) in 1 file(s)\n.hidden: 1",
            {".hidden": b"[o]ld"},
        ),
        (
            {"pattern": r"(?<=print\()old", "replacement": "$1 \\. \\", "regex": True},
            "Replaced 1 occurrence(s) in 1 file(s)\nsrc/a.py: 1",
            {"src/a.py": b"old = 1\nprint($1 \\. \\)\n"},
        ),
    ],
)
async def test_replaces_in_every_file_meant_and_in_no_other(call, folder, arguments, text, changed):
    before = contents(folder)
    above = "\n... (1 file(s) left as they are: above 5 MiB)" if not {"glob", "path"} & {*arguments} else ""
    assert await call("replace_in_files", **arguments) == text + above
    assert contents(folder) == before | changed
    assert (folder.parent / "outside" / "f").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"pattern": ""}, "empty_pattern"),
        ({"pattern": "", "regex": True}, "empty_pattern"),
        ({"pattern": "(", "regex": True}, "bad_pattern"),
        ({"pattern": "(", "regex": True, "glob": "*.none"}, "bad_pattern"),
        ({"pattern": "a{999999999999}", "regex": True}, "bad_pattern"),
        ({"pattern": "(?r)old", "regex": True}, "bad_pattern"),
        ({"pattern": "old", "replacement": r"\1", "regex": True}, "bad_pattern"),
        ({"pattern": "old", "replacement": r"\g<name>", "regex": True}, "bad_pattern"),
        ({"pattern": "old", "replacement": r"\n", "regex": True}, "bad_pattern"),
        ({"pattern": "\ud800"}, "bad_pattern"),
        ({"pattern": "old", "glob": "[a"}, "bad_pattern"),
        ({"pattern": "old", "glob": "../*"}, None),
        ({"pattern": "old", "path": "missing"}, "not_a_directory"),
        ({"pattern": "old", "path": "pipe"}, "not_a_file"),
        ({"pattern": "old", "path": ".."}, "path_denied"),
        ({"pattern": "old", "path": "out"}, "path_denied"),
        ({"pattern": "old", "path": ".git"}, "protected_path"),
        ({"pattern": "old", "replacement": "x" * 11 * 2**20}, "too_large"),
        ({"pattern": r"(x+x+)+y", "regex": True, "glob": "runaway"}, "regex_timeout"),
        ({"pattern": r"(?R)", "regex": True, "glob": "runaway"}, ("bad_pattern", "regex_timeout")),
    ],
)
async def test_a_refused_call_changes_nothing(call, folder, arguments, code):
    (folder / "runaway").write_bytes(b"x" * 5000)
    before = contents(folder)
    answer = await call("replace_in_files", **arguments)
    if code is None:
        assert answer == "no matches for old"
    else:
        assert answer["code"] in code
    assert contents(folder) == before


async def test_what_is_protected_or_cannot_be_written_back_is_told_and_left(call, project):
    call.jail["protected"] = [".mcp.json"]
    (project / ".mcp.json").write_bytes(b"old")
    (project / "latin").write_bytes(b"old \xe9")
    (project / "odd").write_bytes("old".encode("utf-16") + b"x")
    (project / "wide").write_bytes("old".encode("utf-16"))
    (project / "plain").write_bytes(b"old")
    before = contents(project)
    assert await call("replace_in_files", pattern="old", replacement="\u4e2d") == (
        "Replaced 2 occurrence(s) in 2 file(s)\nplain: 1\nwide: 1\n"
        "... (2 file(s) left as they are: not valid UTF-8)\n... (1 file(s) left as they are: protected)"
    )
    assert contents(project) == before | {"plain": "\u4e2d".encode(), "wide": "\u4e2d".encode("utf-16")}
    assert (await call("replace_in_files", pattern="old", replacement="x")).startswith(
        "Replaced 1 occurrence(s) in 1 file(s)\nlatin: 1\n"
    )
    assert (project / "latin").read_bytes() == b"x \xe9"


@pytest.mark.parametrize("regex", [False, True])
async def test_a_hundred_files_are_named_and_the_others_counted(call, project, regex):
    call.tokens = 100_000
    for number in range(105):
        (project / f"{number:03}").write_text("a a")
    text = await call("replace_in_files", pattern="a", replacement="b", regex=regex)
    lines = text.split("\n")
    assert lines[0] == "Replaced 210 occurrence(s) in 105 file(s)"
    assert lines[1:101] == [f"{number:03}: 2" for number in range(100)]
    assert lines[101:] == ["... and 5 more files"]
    assert all((project / f"{number:03}").read_text() == "b b" for number in range(105))


async def test_modes_stay_and_a_link_is_not_written_through(call, folder):
    os.chmod(folder / "b.txt", 0o640)
    await call("replace_in_files", pattern="old", replacement="new")
    assert os.stat(folder / "b.txt").st_mode & 0o7777 == 0o640
    assert os.readlink(folder / "link") == "b.txt"


async def test_progress_grows_with_the_files(call, project):
    for number in range(300):
        (project / f"{number:03}").write_text("x" * 2_000)
    told = []

    async def report(done, total, message):
        told.append((done, message))

    call.client_options = {"mode": "legacy"}
    client = await call.client()
    await client.call_tool("replace_in_files", {"pattern": "(x+)y", "regex": True}, progress_callback=report)
    assert told
    assert [done for done, _ in told] == sorted({done for done, _ in told})


async def test_names_of_one_file_are_all_changed_and_brought_back(call, project):
    (project / "a").write_text("old")
    os.link(project / "a", project / "b")
    (project / "sub").mkdir()
    os.link(project / "a", project / "sub/c")
    done = await call("replace_in_files", pattern="old", replacement="new")
    assert done == "Replaced 3 occurrence(s) in 3 file(s)\na: 1\nb: 1\nsub/c: 1"
    assert [(project / name).read_text() for name in ("a", "b", "sub/c")] == ["new"] * 3
    await call("undo")
    assert [(project / name).read_text() for name in ("a", "b", "sub/c")] == ["old"] * 3


@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_what_a_regex_leaves_the_same_keeps_its_line_ends(call, project, end):
    data = f"a{end}b\na\r\nb{end}".encode()
    (project / "f").write_bytes(data)
    arguments = {"pattern": r"(a)\n|b\n", "replacement": r"\g<0>", "regex": True}
    assert (await call("replace_in_files", **arguments)).startswith("Replaced 4 occurrence(s)")
    assert (project / "f").read_bytes() == data


@pytest.fixture
def changed_meanwhile(monkeypatch, project):
    """Let somebody change a file so many times between the reading and the writing; count down what is left."""
    left = []
    really = Journal.change_all

    def change_all(self, *args):
        if left:
            (project / "a").write_text(f"old {left.pop()} and another length" + " " * len(left))
        return really(self, *args)

    monkeypatch.setattr(Journal, "change_all", change_all)
    return left


@pytest.mark.parametrize("regex", [False, True])
async def test_what_others_change_meanwhile_is_read_again(call, project, changed_meanwhile, regex):
    (project / "a").write_text("old")
    (project / "b").write_text("old")
    changed_meanwhile += ["last", "first"]
    done = await call("replace_in_files", pattern="old", replacement="new", regex=regex)
    assert done == "Replaced 2 occurrence(s) in 2 file(s)\na: 1\nb: 1"
    assert (project / "a").read_text() == "new last and another length"
    assert (project / "b").read_text() == "new"
    await call("undo")
    assert (project / "a").read_text() == "old last and another length"
    assert (project / "b").read_text() == "old"


async def test_what_others_change_all_the_time_is_left(call, project, changed_meanwhile):
    (project / "a").write_text("old")
    (project / "b").write_text("old")
    changed_meanwhile += ["never", "third", "second", "first"]
    assert await call.code("replace_in_files", pattern="old", replacement="new") == "file_changed"
    assert changed_meanwhile == ["never"]
    assert (project / "a").read_text().startswith("old third")
    assert (project / "b").read_text() == "old"


async def test_what_was_replaced_and_cannot_be_put_back_is_not_replaced_again(call, project, monkeypatch):
    for name in ("a", "b"):
        (project / name).write_text("x")
    really = Swap.run

    def run(swap, dir_fd):
        if swap.place.name == "b":
            monkeypatch.undo()
            with (project / "a").open("a") as written, (project / "b").open("a") as changed:
                written.write(", and more")
                changed.write(", and more")
        really(swap, dir_fd)

    monkeypatch.setattr(Swap, "run", run)
    refused = await call("replace_in_files", pattern="x", replacement="xx")
    assert refused["code"] == "refused"
    assert "a stays changed" in refused["error"]
    assert [(project / name).read_text() for name in ("a", "b")] == ["xx, and more", "x, and more"]


async def test_progress_goes_on_growing_when_all_is_read_again(call, project, changed_meanwhile, monkeypatch):
    for name in ("a", "b", "c"):
        (project / name).write_text("old")
    changed_meanwhile += ["once"]
    told = []
    really = Progress.__call__

    async def progress(self, done, total=None, message=None):
        told.append(done)
        await really(self, done, total, message)

    monkeypatch.setattr(Progress, "__call__", progress)
    await call("replace_in_files", pattern="old", replacement="new")
    assert told == [3, 6]


async def test_what_is_on_its_way_to_its_place_is_left_to_whom_it_belongs(call, project):
    (project / "a").write_text("old")
    coming, moving = project / temporary_name(), project / temporary_name() / "a"
    moving.parent.mkdir()
    for file in (coming, moving, project / ".toolbox-mine.tmp"):
        file.write_text("old")
    done = await call("replace_in_files", pattern="old", replacement="new")
    assert done == "Replaced 2 occurrence(s) in 2 file(s)\n.toolbox-mine.tmp: 1\na: 1"
    assert coming.read_text() == moving.read_text() == "old"


async def test_a_path_may_be_one_file(call, project):
    for name in ("a.txt", "b.txt", "d/a.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("old\n")
    (project / ".gitignore").write_text("b.txt\n")
    answer = await call("replace_in_files", pattern="old", replacement="new", path="b.txt")
    assert answer.startswith("Replaced 1 occurrence(s) in 1 file(s)\nb.txt: 1")
    assert [(project / name).read_text() for name in ("a.txt", "b.txt", "d/a.txt")] == ["old\n", "new\n", "old\n"]
    (project / "vendor").mkdir()
    (project / "vendor" / "a.txt").write_text("old\n")
    assert "vendor/a.txt: 1" in await call("replace_in_files", pattern="old", replacement="new", path="vendor/a.txt")


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (r"\bold\b", True),
        ("o.*d", True),
        ("(?i)old", True),
        ("a|b", True),
        ("old(x)", False),
        ("a.b", False),
        ("C:\\new", False),
    ],
)
async def test_a_literal_that_looks_like_an_expression_and_is_nowhere_is_told(call, project, pattern, meant):
    (project / "a.txt").write_text("x\n")
    answer = await call("replace_in_files", pattern=pattern, replacement="new")
    assert answer == f"no matches for {pattern}" + ("; regex=true reads it as an expression" if meant else "")
