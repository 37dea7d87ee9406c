import errno
import os
from contextlib import nullcontext

import pytest

from tests.tables import each_row


@pytest.fixture
def folder(project):
    (project / "b.txt").write_text("12345")
    (project / "a").mkdir()
    (project / "a" / "deep.py").write_text("x")
    (project / ".hidden").write_text("")
    (project / "link").symlink_to("a")
    (project / "node_modules").mkdir()
    (project / "node_modules" / "x.js").write_text("")
    os.mkfifo(project / "pipe")
    return project


@each_row(
    ("arguments", "rows"),
    [
        ({}, ["dir\t-\ta", "file\t5\tb.txt", "symlink\t-\tlink", "dir\t-\tnode_modules", "other\t-\tpipe"]),
        ({"pattern": "*.txt"}, ["file\t5\tb.txt"]),
        ({"pattern": "{a,link}"}, ["dir\t-\ta", "symlink\t-\tlink"]),
        ({"path": "a"}, ["file\t1\tdeep.py"]),
        ({"path": "link"}, ["file\t1\tdeep.py"]),
        ({"path": "node_modules"}, ["file\t0\tx.js"]),
        ({"recursive": True, "pattern": "*.py"}, ["file\t1\ta/deep.py"]),
        ({"recursive": True, "pattern": "*.js"}, ["no matches for *.js; 7 entries, 1 hidden"]),
        ({"include_hidden": True, "pattern": ".*"}, ["file\t0\t.hidden"]),
        ({"pattern": ".*"}, ["file\t0\t.hidden"]),
        ({"pattern": "nothing"}, ["no matches for nothing; 6 entries, 1 hidden"]),
        ({"pattern": "*hidden"}, ["no matches for *hidden; 1 hidden: include_hidden=true"]),
        ({"pattern": "*.rs", "path": "a"}, ["no matches for *.rs; 1 entries"]),
    ],
)
async def test_lists_the_entries(call, folder, arguments, rows):
    assert (await call("list_directory", **arguments)).split("\n") == rows


async def test_what_hidden_folders_hold_is_listed_only_with_include_hidden(call, project):
    (project / ".a" / "b").mkdir(parents=True)
    for path in (".x", ".a/.x", ".a/b/.x", ".a/b/y"):
        (project / path).touch()
    assert await call("list_directory") == "(nothing but 2 hidden: include_hidden=true)"
    assert await call("list_directory", path=".a/b", pattern="y") == "file\t0\ty"
    assert await call("list_directory", pattern=".x", recursive=True) == "file\t0\t.x"
    rows = await call("list_directory", pattern="?x", recursive=True, include_hidden=True)
    assert rows == "file\t0\t.a/.x\nfile\t0\t.a/b/.x\nfile\t0\t.x"
    (project / "empty").mkdir()
    assert await call("list_directory", path="empty", pattern="*") == "(empty directory)"


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ({}, ["dir\ta", "file\tb.txt", "symlink\tlink", "dir\tnode_modules", "other\tpipe"]),
        ({"pattern": "*.txt"}, ["file\tb.txt"]),
        ({"path": "link"}, ["file\tdeep.py"]),
        ({"recursive": True, "pattern": "*.py"}, ["file\ta/deep.py"]),
        ({"include_hidden": True, "pattern": ".*"}, ["file\t.hidden"]),
        ({"pattern": "nothing"}, ["no matches for nothing; 6 entries, 1 hidden"]),
    ],
)
async def test_without_sizes_the_column_is_left_out(call, folder, arguments, rows):
    assert (await call("list_directory", **arguments, sizes=False)).split("\n") == rows


async def test_without_sizes_names_are_shown_on_one_line_too(call, folder):
    (folder / "a\nb").touch()
    assert (await call("list_directory", sizes=False)).startswith("dir\ta\nfile\ta<U+000A>b\n")


class Untold:
    """An entry of a file system that tells no kinds, in a folder where no entry can be looked up."""

    def __init__(self, entry):
        self.name = entry.name

    def is_file(self, follow_symlinks):
        raise PermissionError

    is_dir = is_symlink = is_file


async def test_without_sizes_it_stops_at_a_thousand_rows_too(call, project):
    call.tokens = 10**6
    for n in range(1001):
        (project / f"{n:04}").touch()
    rows = (await call("list_directory", sizes=False)).split("\n")
    assert rows == [*(f"file\t{n:04}" for n in range(1000)), "... (first 1000 entries shown)"]


@pytest.mark.parametrize("path", ["b.txt", "missing", "pipe"])
async def test_what_is_no_folder_is_refused(call, folder, path):
    assert await call.code("list_directory", path=path) == "not_a_directory"


async def test_stops_at_a_thousand_rows(call, project):
    call.tokens = 10**6
    for n in range(1001):
        (project / f"{n:04}").touch()
    rows = (await call("list_directory")).split("\n")
    assert rows[-2:] == ["file\t0\t0999", "... (first 1000 entries shown)"]
    assert len(rows) == 1001


async def test_names_are_shown_on_one_line(call, project):
    (project / "a\nb").touch()
    os.close(os.open(os.fsencode(project) + b"/\xff", os.O_CREAT))
    assert (await call("list_directory")).split("\n") == ["file\t0\ta<U+000A>b", "file\t0\t\ufffd"]


async def test_what_gitignore_excludes_is_listed(call, folder):
    (folder / ".gitignore").write_text("a/\n*.txt\n")
    rows = ["dir\t-\ta", "file\t5\tb.txt", "symlink\t-\tlink", "dir\t-\tnode_modules", "other\t-\tpipe"]
    assert (await call("list_directory")).split("\n") == rows
    rows.insert(1, "file\t1\ta/deep.py")
    assert (await call("list_directory", recursive=True)).split("\n") == rows


async def test_a_bad_glob_is_told(call, project):
    assert await call.code("list_directory", pattern="[a") == "bad_pattern"
    assert await call.code("list_directory", pattern="a/b") == "bad_pattern"


async def test_a_thousand_rows_are_whole_and_tell_of_no_more(call, project):
    call.tokens = 10**6
    for n in range(1000):
        (project / f"{n:04}").write_text("x" * (n % 3))
    rows = (await call("list_directory")).split("\n")
    assert rows == [f"file\t{n % 3}\t{n:04}" for n in range(1000)]


async def test_what_is_hidden_or_not_matched_takes_no_row(call, project):
    call.tokens = 10**6
    for n in range(1500):
        (project / f".{n:04}").touch()
        (project / f"{n:04}.txt").touch()
    (project / "last.py").touch()
    assert await call("list_directory", pattern="*.py") == "file\t0\tlast.py"
    rows = (await call("list_directory", include_hidden=True, pattern=".*")).split("\n")
    assert rows[:1000] == [f"file\t0\t.{n:04}" for n in range(1000)]
    assert rows[1000:] == ["... (first 1000 entries shown)"]


async def test_an_entry_that_goes_away_meanwhile_has_no_size(call, project, monkeypatch):
    for name in ("a", "b", "c"):
        (project / name).write_text("12345")
    (project / "z").mkdir()
    rows = ["file\t5\ta", "file\t-\tb", "file\t-\tc", "dir\t-\tz"]
    scandir = os.scandir

    def scan_and_remove(where):
        if not isinstance(where, int):
            return scandir(where)
        found = [*scandir(where)]
        if len(found) == 4:
            (project / "b").unlink()
            (project / "c").unlink()
            (project / "c").mkdir()
        return nullcontext(iter(found))

    monkeypatch.setattr(os, "scandir", scan_and_remove)
    assert (await call("list_directory")).split("\n") == rows


async def test_hidden_names_are_left_out_wherever_they_sort(call, project):
    for name in (".x", "..x", ".ax", "-x", "!x", "0x"):
        (project / name).touch()
    assert (await call("list_directory")).split("\n") == ["file\t0\t!x", "file\t0\t-x", "file\t0\t0x"]
    assert (await call("list_directory", include_hidden=True)).count("\n") == 5


async def test_a_folder_that_cannot_be_read_is_no_empty_one(call, project, monkeypatch):
    scandir = os.scandir

    def broken(where):
        if not isinstance(where, int):
            return scandir(where)
        raise OSError(errno.EIO, "")

    monkeypatch.setattr(os, "scandir", broken)
    assert await call.code("list_directory") == "path_denied"
