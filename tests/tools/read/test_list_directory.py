import os

import pytest


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


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ({}, ["dir\t-\ta", "file\t5\tb.txt", "symlink\t-\tlink", "dir\t-\tnode_modules", "other\t-\tpipe"]),
        ({"pattern": "*.txt"}, ["file\t5\tb.txt"]),
        ({"pattern": "{a,link}"}, ["dir\t-\ta", "symlink\t-\tlink"]),
        ({"path": "a"}, ["file\t1\tdeep.py"]),
        ({"path": "link"}, ["file\t1\tdeep.py"]),
        ({"path": "node_modules"}, ["file\t0\tx.js"]),
        ({"recursive": True, "pattern": "*.py"}, ["file\t1\ta/deep.py"]),
        ({"recursive": True, "pattern": "*.js"}, ["(empty directory)"]),
        ({"include_hidden": True, "pattern": ".*"}, ["file\t0\t.hidden"]),
        ({"pattern": "nothing"}, ["(empty directory)"]),
    ],
)
async def test_lists_the_entries(call, folder, arguments, rows):
    assert (await call("list_directory", **arguments)).split("\n") == rows


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


async def test_a_bad_glob_is_told(call, project):
    assert await call.code("list_directory", pattern="[a") == "bad_pattern"
    assert await call.code("list_directory", pattern="a/b") == "bad_pattern"
