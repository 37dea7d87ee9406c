"""Paths and files that an attacker, or bad luck, puts before the tools that read: a clear code, in time, in little memory."""

import contextlib
import os
import re
import socket
import stat
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest

from tests.tables import each_row
from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.safety.path_jail import tree_walk as ignore
from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.tools.read import _line_range as stretch
from toolbox_mcp.tools.read import _text as file_text
from toolbox_mcp.tools.search import block_search
from toolbox_mcp.tools.search import regex_search as backtracking
from toolbox_mcp.tools.search import ripgrep as rg_search
from toolbox_mcp.tools.search.scope import Scope
from toolbox_mcp.tools.settings import ToolSettings

TOOLS = {
    "read_file": {},
    "list_directory": {},
    "tree": {},
    "glob": {"pattern": "**"},
    "grep_files": {"pattern": "secret"},
    "file_info": {},
}
READS = [
    {},
    {"tail": 1},
    {"tail": 1, "numbered": True},
    {"end_line": 1},
    {"start_match": ["x"]},
    {"encoding": "binary"},
]


async def answer(call, tool, path, **more):
    name = "base" if tool == "glob" else "path"
    return await call(tool, **{name: path}, **TOOLS[tool], **more)


@pytest.fixture
def folder(project):
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    (project.parent / "project-sibling").mkdir()
    (project.parent / "project-sibling" / "f").write_text("secret")
    (project / "d").mkdir()
    (project / "to-file").symlink_to(outside / "f")
    (project / "to-folder").symlink_to(outside)
    (project / "to-nothing").symlink_to("nothing")
    (project / "dangling").symlink_to(outside / "none")
    (project / "loop").symlink_to("loop")
    (project / "loop1").symlink_to("loop2")
    (project / "loop2").symlink_to("loop1")
    os.mkfifo(project / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(project / "socket"))
    return project


OUTSIDE = [
    "a\x00b", "\x00", "..", "../outside", "../outside/f", "d/../../outside/f", "../project-sibling", "/etc", "//etc/passwd",
    "/proc/self/root/etc/passwd", "to-folder/f", "to-folder/new", "to-folder/../../outside/f", "dangling/x", "loop/x",
    "n" * 256, "n" * 300, "d/" + "é" * 128, "x/" * 2100 + "f", "\ud800",
]  # fmt: skip


@each_row("path", OUTSIDE)
@each_row("tool", TOOLS)
async def test_what_is_outside_or_malformed_is_denied(call, folder, tool, path):
    refused = await answer(call, tool, path)
    assert refused["code"] == "path_denied" or (path == "\ud800" and refused["code"] == "invalid_args")
    assert "secret" not in str(refused)
    assert str(folder.parent) not in refused["error"].replace(path, "")


@each_row("tool", TOOLS)
async def test_an_empty_path_is_absent(call, folder, tool):
    without = await call(tool, **TOOLS[tool])
    assert await answer(call, tool, "") == without
    if tool in ("read_file", "file_info"):
        assert without["code"] == "invalid_args"
    else:
        assert without == await answer(call, tool, ".")


@each_row("path", ["to-file", "to-folder", "dangling", "loop", "loop1"])
@each_row("tool", [tool for tool in TOOLS if tool != "file_info"])
async def test_no_link_is_followed_outside_or_round_and_round(call, folder, tool, path):
    assert (await answer(call, tool, path))["code"] == "path_denied"


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "file_info"])
async def test_where_links_are_blocked_none_is_followed(call, project, tool):
    (project / "d").mkdir()
    (project / "d" / "f").write_text("secret")
    (project / "to-d").symlink_to("d")
    (project / "to-f").symlink_to("d/f")
    call.jail = {"block_symlinks": True}
    for path in ("to-f", "to-d/f", "to-d"):
        assert (await answer(call, tool, path))["code"] == "path_denied"
    assert "secret" in await call("read_file", path="d/f")
    assert "symlink\t-\tto-d" in await call("list_directory")


@pytest.mark.parametrize("path", ["to-file", "to-folder", "dangling", "loop", "to-nothing"])
async def test_a_link_is_described_and_not_what_it_leads_to(call, folder, path):
    info = (await call.result("file_info", {"path": path})).structured_content
    assert (info["type"], info["is_symlink"], "etag" in info) == ("symlink", True, False)


CODES = {"read_file": "not_a_file", "grep_files": "not_a_file"}
MISSING = {"read_file": "not_a_file"}


@pytest.mark.parametrize("path", ["pipe", "socket", "device"])
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "file_info"])
async def test_what_is_neither_file_nor_folder_is_refused_at_once(call, folder, tool, path):
    if path == "device":
        if os.geteuid() != 0:
            pytest.skip("only root makes devices")
        os.mknod(folder / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    assert (await answer(call, tool, path))["code"] == CODES.get(tool, "not_a_directory")


@pytest.mark.parametrize("path", ["missing", "to-nothing", "d/missing/deep"])
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "file_info"])
async def test_what_is_missing_has_a_code(call, folder, tool, path):
    assert (await answer(call, tool, path))["code"] == MISSING.get(tool, "not_a_directory")


@pytest.mark.skipif(os.name == "nt", reason="folders of this system are not entered by a bit of their own")
def test_a_folder_that_may_be_read_and_not_entered_is_denied_to_a_search(project):
    (project / "d").mkdir()
    roots = Roots([project])
    me = os.geteuid()
    try:
        (project / "d").chmod(0o444)
        if me == 0:
            os.seteuid(65534)
        within = Scope.of(roots.place("d"), None, ToolSettings(), include_ignored=True).ripgrep()
        with pytest.raises(ToolError) as refused, within.opened():
            pass
    finally:
        os.seteuid(me)
        (project / "d").chmod(0o755)
        roots.close()
    assert refused.value.code is Code.PATH_DENIED


async def test_a_walk_passes_by_what_it_must_not_open(call, folder):
    (folder / "d" / "kept").write_text("secret inside\n")
    assert await call("grep_files", pattern="secret") == "d/kept:1: secret inside"
    assert await call("glob", pattern="**") == "d/kept"
    listed = await call("list_directory", recursive=True)
    assert listed.split("\n") == [
        "dir\t-\td", "file\t14\td/kept", "symlink\t-\tdangling", "symlink\t-\tloop", "symlink\t-\tloop1", "symlink\t-\tloop2",
        "other\t-\tpipe", "other\t-\tsocket", "symlink\t-\tto-file", "symlink\t-\tto-folder", "symlink\t-\tto-nothing",
    ]  # fmt: skip
    assert "secret" not in await call("tree")


def sparse(path, size):
    with path.open("wb") as file:
        file.truncate(size)


async def test_a_file_with_a_hole_of_a_terabyte_is_told_and_not_read(call, project):
    sparse(project / "hole", 2**40)
    for arguments in READS:
        assert await call.code("read_file", path="hole", **arguments) in ("too_large", "binary_file")
    info = (await call.result("file_info", {"path": "hole"})).structured_content
    assert (info["size"], "etag" in info) == (2**40, False)
    assert await call("grep_files", pattern="x") == "no matches for x"
    assert await call.code("grep_files", pattern="x", path="hole") == "binary_file"
    assert await call.code("grep_files", pattern="x(?!y)", path="hole") == "binary_file"
    assert await call("list_directory") == f"file\t{2**40}\thole"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"end_line": 1}, "line 1"),
        ({"start_line": 11_000_000, "end_line": 11_000_000}, "line 11000000"),
        ({"tail": 1}, "line 12000000"),
        ({"tail": 1, "numbered": True}, "12000000\tline 12000000"),
    ],
)
async def test_a_stretch_of_a_long_file_takes_little_memory(call, project, arguments, text):
    with (project / "long").open("wb") as file:
        for start in range(1, 12_000_001, 100_000):
            file.write("".join(f"line {n}\n" for n in range(start, start + 100_000)).encode())
    await call("list_directory")
    tracemalloc.start()
    try:
        assert await call("read_file", path="long", **arguments) == text
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "arguments", [{"start_line": 1}, {"end_line": 1}, {"tail": 1}, {"tail": 5}, {"tail": 1, "numbered": True}]
)
async def test_of_a_line_of_twenty_megabytes_a_part_is_shown_and_said_so(call, project, encoding, arguments):
    call.tokens = 10**9
    (project / "one").write_bytes(("é" * 10 * 2**20).encode(encoding))
    text = await call("read_file", path="one", **arguments)
    line, note = text.split("\n") if "tail" not in arguments else reversed(text.split("\n"))
    line = line.removeprefix("1\t")
    assert line.strip("é\ufffd") == ""
    assert 2_600_000 < len(line) < 2_700_000
    if "tail" in arguments:
        assert note == f"[lines 1-1 of 1; of the first only its last {len(line)} characters]"
    else:
        assert note == f"[line 1: characters 1-{len(line)}; of a line 5 MiB can be read]"


async def test_the_end_of_a_line_above_the_budget_says_that_it_is_no_whole_line(call, project):
    call.tokens = 200
    (project / "f").write_text("one\n" + "x y " * 1000 + "\nlast\n")
    for numbered in (False, True):
        note, line, last = (await call("read_file", path="f", tail=2, numbered=numbered)).split("\n")
        assert note == f"[lines 2-3 of 3; of the first only its last {len(line)} characters]"
        assert last == ("3\tlast" if numbered else "last")


async def test_what_can_be_read_of_a_line_of_six_megabytes_ends_with_the_next_line(call, project):
    (project / "f").write_bytes(b"one\n" + b"x" * 6 * 2**20 + b"\nlast\n")
    end = 5 * 2**20
    marker = "[line 2: characters {}-{}; of a line 5 MiB can be read; continue with start_line=3]"
    found = await call("read_file", path="f", start_line=2, start_char=end - 9)
    assert found == "x" * 10 + "\n" + marker.format(end - 9, end)


async def test_a_line_too_long_in_the_middle_is_shown_in_part_where_it_is_asked_for(call, project):
    call.tokens = 10**9
    (project / "f").write_bytes(b"one\n" + b"x" * 6 * 2**20 + b"\nlast\n")
    assert (await call("read_file", path="f", start_line=1)) == "one\n[lines 1-1 of 3; continue with start_line=2]"
    assert (await call("read_file", path="f", start_line=2)).endswith(
        f"xxx\n[line 2: characters 1-{5 * 2**20}; of a line 5 MiB can be read; continue with start_line=3]"
    )
    assert await call("read_file", path="f", start_line=3) == "last"
    assert await call("read_file", path="f", tail=1) == "last"
    assert await call("read_file", path="f", tail=2) == "[lines 3-3 of 3]\nlast"
    (project / "f").write_bytes(b"one\n" + b"x" * (5 * 2**20 + 10))
    assert (await call("read_file", path="f", tail=1)).startswith(
        f"[lines 2-2 of 2; of the first only its last {5 * 2**20} characters]\nxxx"
    )


def test_the_last_lines_are_those_of_the_whole_file(project, monkeypatch):
    monkeypatch.setattr(stretch, "CHUNK", 64)
    monkeypatch.setattr(stretch, "COLLECTED", 1000)
    go_on = lambda: False
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        feed = stretch.unit(encoding)
        for size in (0, 1, 7, 30, 200):
            for end in ("", "\n", "\n\n"):
                text = "\n".join(f"{n:x}\u0a0a" * (n % 4) for n in range(size)) + end
                (project / "f").write_bytes(text.encode(encoding))
                lines = text.split("\n")[: -1 if text.endswith("\n") or not text else None]
                with (project / "f").open("rb") as file:
                    for count in (1, 2, 5, 50, 1000):
                        found = stretch.last_lines(
                            file.fileno(), 0, os.fstat(file.fileno()).st_size, count, feed, go_on
                        )
                        shown = stretch.decoded(found, encoding)
                        want = lines[-count:]
                        assert shown == want[len(want) - len(shown) :]
                        assert found.cut == (len(shown) < len(want))
                        assert not found.cut or sum(map(len, found.lines)) > 700
                    assert stretch.count_lines(file.fileno(), 0, feed, go_on) == len(lines)


@pytest.mark.slow
async def test_of_very_many_empty_lines_as_many_as_fit_are_shown(call, project):
    (project / "f").write_bytes(b"\n" * (6 * 2**20))
    call.tokens = 10**9
    text = await call("read_file", path="f", start_line=1)
    assert text.strip("\n") == "[lines 1-5242881 of 6291456; continue with start_line=5242882]"
    assert text.startswith("\n" * 5242881 + "[")
    assert await call("read_file", path="f", start_line=5242882) == "\n" * (2**20 - 2)


async def test_on_the_way_to_a_line_each_piece_of_a_file_is_counted_once(call, project, monkeypatch):
    counted = []

    class Piece(bytes):
        def count(self, *arguments):
            counted.append(len(self))
            return super().count(*arguments)

    pread = os.pread
    monkeypatch.setattr(stretch.os, "pread", lambda *given: Piece(pread(*given)))
    (project / "f").write_bytes(b"\n" * 299_999 + b"here\n")
    assert await call("read_file", path="f", start_line=300_000) == "here"
    assert sum(counted) <= 300_004


async def test_the_numbers_of_the_last_lines_are_right_where_half_a_character_ends_the_file(call, project):
    (project / "f").write_bytes(b"\xff\xfe" + "a\nb".encode("utf-16-le") + b"\x0a\x0a\x00")
    whole = await call("read_file", path="f", numbered=True)
    note = "[not valid utf-16-le: what stands for no character is shown as U+FFFD]"
    assert whole == f"{note}\n1\ta\n2\tb\u0a0a\ufffd"
    assert await call("read_file", path="f", numbered=True, tail=2) == whole


@pytest.mark.slow
async def test_a_tail_of_very_many_lines_is_cut_to_what_fits(call, project):
    call.tokens = 10**9
    (project / "f").write_bytes(b"0123456\n" * 2**20)
    text = await call("read_file", path="f", tail=10**6)
    assert 5 * 2**20 // 8 <= text.count("0123456\n") <= 5 * 2**20 // 7
    assert re.match(rf"\[lines \d+-{2**20} of {2**20}\]\n0123456\n", text)


@pytest.mark.parametrize("arguments", READS)
async def test_a_file_that_grows_as_fast_as_it_is_read_is_answered(call, project, monkeypatch, arguments):
    (project / "log").write_bytes(b"a\n")
    real = {"read": os.read, "pread": os.pread}

    def growing(name):
        def read(fd, count, *at):
            data = real[name](fd, count, *at)
            if count >= 2**18 and os.fstat(fd).st_size < 2**26:
                with (project / "log").open("ab") as log:
                    log.write(b"y\n" * 2**18)
            return data

        return read

    for module in (file_text, stretch):
        monkeypatch.setattr(module.os, "read", growing("read"))
        monkeypatch.setattr(module.os, "pread", growing("pread"))
    found = await call("read_file", path="log", **arguments)
    assert os.stat(project / "log").st_size < 2**26
    if isinstance(found, dict):
        assert found["code"] == "too_large"
    else:
        assert found.split("\n")[0].split("\t")[-1] in ("a", "y")


class Entry:
    def __init__(self, name):
        self.name = name

    def is_dir(self, *, follow_symlinks):
        return False

    def is_file(self, *, follow_symlinks):
        return True

    def stat(self, *, follow_symlinks):
        raise FileNotFoundError(self.name)


class Million:
    """A folder with a million entries, as the system would tell of it."""

    def __init__(self):
        self.told = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def __iter__(self):
        for number in range(10**6):
            self.told += 1
            yield Entry(f"{number:07}.txt")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "arguments", "last"),
    [
        ("list_directory", {"sizes": False}, "... (first 1000 entries shown)"),
        ("list_directory", {"pattern": "*.py", "sizes": False}, "... (stopped after 200000 entries)"),
        ("tree", {}, "... (truncated at 500 entries)"),
        ("glob", {"pattern": "*"}, "... (truncated at 1000 matches)"),
        ("glob", {"pattern": "*.py"}, "... (stopped after 200000 entries)"),
        ("glob", {"pattern": "0199999.*"}, "... (stopped after 200000 entries)"),
    ],
)
async def test_of_a_folder_with_a_million_entries_two_hundred_thousand_are_looked_at(
    call, project, monkeypatch, tool, arguments, last
):
    call.tokens = 10**6
    folder = Million()
    scandir = os.scandir
    monkeypatch.setattr(ignore.os, "scandir", lambda path: folder if isinstance(path, int) else scandir(path))
    text = await call(tool, **arguments)
    assert text.split("\n")[-1] == last
    assert folder.told == 200_001
    assert ("0199999.txt" in text) == (arguments.get("pattern") == "0199999.*")


CUT = [
    ("tree", {}),
    ("glob", {"pattern": "*.py"}),
    ("list_directory", {"recursive": True, "pattern": "*.py"}),
    ("grep_files", {"pattern": "x", "target": "path"}),
    ("grep_files", {"pattern": "(?=x)"}),
    ("replace_in_files", {"pattern": "x"}),
    ("replace_in_files", {"pattern": "x", "regex": True}),
]


@pytest.mark.parametrize(("tool", "arguments"), CUT)
async def test_a_walk_over_too_many_entries_says_so_in_its_last_line(call, project, monkeypatch, tool, arguments):
    for number in range(30):
        (project / f"{number}.txt").touch()
    monkeypatch.setitem(ignore.Walk.__init__.__kwdefaults__, "max_entries", 20)
    monkeypatch.setattr(rg_search, "MAX_ENTRIES", 20)
    assert (await call(tool, **arguments)).split("\n")[-1] == "... (stopped after 20 entries)"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [*CUT, ("grep_files", {"pattern": "x"}), ("grep_files", {"pattern": "x", "output": "count"}), ("grep_files", {"match": "block", "query": ["x"]})],
)  # fmt: skip
async def test_a_walk_that_takes_too_long_says_so_in_its_last_line(call, project, monkeypatch, tool, arguments):
    # More than anything reads before it looks at the time.
    (project / "0.txt").write_text("y\n" * 2**19)
    for number in range(1, 200):
        os.link(project / "0.txt", project / f"{number}.txt")
    monkeypatch.setitem(ignore.Walk.__init__.__kwdefaults__, "max_seconds", -1.0)
    for module in (rg_search, backtracking, block_search):
        monkeypatch.setattr(module, "WALK_SECONDS", 0.0)
    assert re.fullmatch(r"\.\.\. \(stopped after -?[01] s\)", (await call(tool, **arguments)).split("\n")[-1])


SWAPS = (
    ("read_file", "top/d/f", {}),
    ("list_directory", "top/d", {}),
    ("list_directory", "top", {"recursive": True}),
    ("tree", "top", {"max_depth": 9}),
    ("glob", "top", {}),
    ("grep_files", "top", {}),
    ("file_info", "top/d/f", {}),
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names in one step")
@pytest.mark.parametrize(("tool", "path", "more"), SWAPS)
async def test_a_folder_swapped_for_a_link_during_the_call_shows_nothing_outside(call, project, tool, path, more):
    from toolbox_mcp.safety.writes.renameat2 import exchange

    outside = project.parent / "outside"
    (outside / "deep").mkdir(parents=True)
    (project / "top" / "d" / "deep").mkdir(parents=True)
    for at, word in ((outside, "secret"), (project / "top" / "d", "inside")):
        for name in (word, f"deep/{word}"):
            (at / name).write_text(f"secret {word}\n")
        (at / "f").write_text(f"{word}\n")
    os.symlink(outside, project / "link")
    stop = threading.Event()
    fd = os.open(project, os.O_RDONLY)

    def swap():
        while not stop.is_set():
            exchange(fd, "top/d", "link")

    thread = threading.Thread(target=swap)
    seen = []
    try:
        thread.start()
        for _ in range(60):
            seen.append(str(await answer(call, tool, path, **more)))
    finally:
        stop.set()
        thread.join()
        os.close(fd)
    assert not [text for text in seen if "secret secret" in text or "/secret" in text or text == "secret"]
    assert [text for text in seen if "inside" in text or "f" in text]


@pytest.mark.slow
async def test_a_long_block_that_nearly_repeats_half_a_million_times_is_answered(call, project):
    (project / "f").write_bytes(b"x\n" * 500_000)
    block = ["x"] * 5_000 + ["y"]
    assert await call.code("read_file", path="f", start_match=block) == "no_match"
    found = await call("grep_files", match="block", query=block, path="f")
    assert found.startswith("no matches for x / x")
    answer = await call("read_file", path="f", end_match=["x"] * 5_000)
    assert answer["error"].startswith("end_match occurs 100000 times, at lines 1, 2, 3")


@pytest.mark.attack
async def test_a_search_takes_no_more_memory_than_it_may_whatever_the_ignore_files_and_sizes(call, project):
    """The resident memory of ripgrep is looked at all the while."""
    (project / "hit.txt").write_text("needle\n")
    (project / "large").mkdir()
    (project / "large" / ".gitignore").write_text("*a*b*c*d*\n" * 400_000)
    (project / "large" / "f").write_text("needle\n")
    with (project / "long").open("wb") as file:
        file.write(b"x")
        file.truncate(6 << 30)
    (project / "text").write_text("line\n" * (14 << 20))
    most, stop = [0], threading.Event()

    def watch():
        while not stop.wait(0.01):
            for status in Path("/proc").glob("[0-9]*/status"):
                with contextlib.suppress(OSError):
                    text = status.read_text()
                    if text.startswith("Name:\trg\n"):
                        most[0] = max(most[0], *map(int, re.findall(r"^RssAnon:\s+(\d+) kB$", text, re.MULTILINE)), 0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        below = await call("grep_files", pattern="needle")
        named = await call("grep_files", pattern="needle", path="long")
        over_lines = await call("grep_files", pattern=r"needle\n", path="text")
        within_lines = await call("grep_files", pattern="needle", path="text")
    finally:
        stop.set()
        watcher.join()
    assert most[0] < 512 * 1024
    assert "hit.txt:1: needle" in below or "ripgrep was killed" in below
    assert named["code"] == "binary_file"
    assert over_lines["code"] == "too_large"
    assert within_lines == "no matches for needle"


@pytest.mark.parametrize("between", ["", "--\n", "--\nz\n"])
@pytest.mark.parametrize("output", ["lines", "count", "files"])
async def test_no_name_forges_a_hit_in_another_file(call, project, output, between):
    """A folder is called like what ripgrep says of a binary file, and a file in it like the rest of another path."""
    (project / "src").mkdir()
    (project / "src" / "app.py").write_text("clean\n")
    folder = project / ('x: binary file matches (found "\\0" byte around offset 5)\n' + between + ".") / "src"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text("needle forged\n")
    answer = await call("grep_files", pattern="needle", output=output)
    assert isinstance(answer, dict) and answer["code"] == "refused"
    assert "x: binary file matches" in answer["error"]
    (folder / "app.py").write_text("")
    (project / "x").write_bytes(b"needle\n" + b"y" * 70_000 + b"\0")
    (project / "src" / "app.py").write_text("needle\n")
    found = await call("grep_files", pattern="needle", output=output)
    assert "src/app.py" in found
