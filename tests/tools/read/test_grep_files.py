import os
import sys

import pytest

from tests.tables import each_row
from toolbox_mcp.safety.writes.temp_names import temporary_name
from toolbox_mcp.sandbox.ripgrep import Ripgrep
from toolbox_mcp.tools.settings import ToolSettings

CODE = """import os

def alpha():
    return 1


def beta():
    return alpha()
"""


@pytest.fixture
def folder(project):
    (project / "src").mkdir()
    (project / "src" / "code.py").write_text(CODE)
    (project / "notes.txt").write_bytes(b"alpha beta\r\nALPHA\r\n")
    (project / ".env").write_text("alpha=1\n")
    (project / "bin").write_bytes(b"alpha\x00alpha\n")
    (project / "node_modules").mkdir()
    (project / "node_modules" / "m.js").write_text("alpha\n")
    (project / "skipped.log").write_text("alpha\n")
    (project / ".gitignore").write_text("*.log\n")
    (project / "link.txt").symlink_to("notes.txt")
    os.mkfifo(project / "pipe")
    return project


@each_row(
    ("arguments", "rows"),
    [
        (
            {"pattern": "alpha"},
            [".env:1: alpha=1", "notes.txt:1: alpha beta", "src/code.py:3: def alpha():", "src/code.py:8:     return alpha()"],
        ),
        ({"pattern": "^alpha beta$"}, ["notes.txt:1: alpha beta"]),
        ({"pattern": "ALPHA", "path": "notes.txt"}, ["notes.txt:2: ALPHA"]),
        ({"pattern": r"\r$"}, ["notes.txt:1: alpha beta", "notes.txt:2: ALPHA"]),
        ({"pattern": r"[\r]$", "output": "count"}, ["notes.txt: 2"]),
        ({"pattern": "A\r", "match": "literal"}, ["notes.txt:2: ALPHA"]),
        ({"pattern": r"beta\r\n"}, ["notes.txt:1: alpha beta"]),
        ({"pattern": "alpha", "ignore_case": True, "glob": "*.txt"}, ["notes.txt:1: alpha beta", "notes.txt:2: ALPHA"]),
        ({"pattern": "alpha()", "match": "literal"}, ["src/code.py:3: def alpha():", "src/code.py:8:     return alpha()"]),
        ({"pattern": "alpha", "glob": "*.{py,rb}", "output": "files"}, ["src/code.py"]),
        ({"pattern": "alpha", "glob": "src/**"}, ["src/code.py:3: def alpha():", "src/code.py:8:     return alpha()"]),
        ({"pattern": "alpha", "glob": "!*.py", "output": "files"}, [".env", "notes.txt"]),
        ({"pattern": "alpha", "output": "count"}, [".env: 1", "notes.txt: 1", "src/code.py: 2"]),
        ({"pattern": "alpha", "path": "node_modules"}, ["node_modules/m.js:1: alpha"]),
        (
            {"pattern": "alpha", "include_ignored": True, "output": "files"},
            [".env", "node_modules/m.js", "notes.txt", "skipped.log", "src/code.py"],
        ),
        ({"pattern": "alpha", "path": "skipped.log"}, ["skipped.log:1: alpha"]),
        (
            {"pattern": "def", "context": 1},
            [
                "src/code.py-2- ", "src/code.py:3: def alpha():", "src/code.py-4-     return 1", "--",
                "src/code.py-6- ", "src/code.py:7: def beta():", "src/code.py-8-     return alpha()",
            ],
        ),
        (
            {"pattern": "def", "before": 2, "after": 2, "path": "src"},
            [f"src/code.py{m}{n}{m} {line}" for n, m, line in zip(
                range(1, 9), ["-", "-", ":", "-", "-", "-", ":", "-"], CODE.split("\n"), strict=False)],
        ),
        ({"pattern": "(?<=def )alpha"}, ["src/code.py:3: def alpha():"]),
        ({"pattern": r"(\w)\1"}, ["no matches for (\\w)\\1"]),
        ({"pattern": "def(?= beta)", "context": 0}, ["src/code.py:7: def beta():"]),
        ({"pattern": r"return 1\n\n\ndef", "path": "src"}, [
            "src/code.py:4:     return 1", "src/code.py:5: ", "src/code.py:6: ", "src/code.py:7: def beta():"]),
        ({"query": ["def alpha():", "return 1"], "match": "block"}, [
            "src/code.py:3-4:", "3\tdef alpha():", "4\t    return 1"]),
        ({"query": ["DEF alpha():\nreturn 1"], "match": "block", "ignore_case": True, "output": "count"}, ["src/code.py: 1"]),
        ({"pattern": "code", "target": "path"}, ["src/code.py"]),
        ({"pattern": "notes|beta", "target": "both", "output": "files"}, ["notes.txt", "notes.txt", "src/code.py"]),
        ({"pattern": "(?<=s)rc/", "target": "path"}, ["src/code.py"]),
        ({"pattern": "nowhere"}, ["no matches for nowhere"]),
        ({"pattern": "(a+)+$", "path": "notes.txt"}, ["notes.txt:1: alpha beta"]),
    ],
)  # fmt: skip
async def test_finds_what_is_asked_for(call, folder, arguments, rows):
    assert (await call("grep_files", **arguments)).split("\n") == rows


@each_row(
    ("arguments", "code"),
    [
        ({}, "invalid_args"),
        ({"match": "block"}, "invalid_args"),
        ({"pattern": "a", "query": ["b"]}, "invalid_args"),
        ({"pattern": "a", "query": ["b"], "match": "literal"}, "invalid_args"),
        ({"query": ["b"]}, "invalid_args"),
        ({"pattern": "a", "query": ["b"], "match": "block"}, "invalid_args"),
        ({"pattern": ""}, "invalid_args"),
        ({"query": [" "], "match": "block"}, "empty_pattern"),
        ({"pattern": "("}, "bad_pattern"),
        ({"pattern": "[a"}, "bad_pattern"),
        ({"pattern": "(?R)"}, "bad_pattern"),
        ({"pattern": "(?=("}, "bad_pattern"),
        ({"pattern": "a{1000000000}"}, "bad_pattern"),
        ({"pattern": "a", "glob": "[x"}, "bad_pattern"),
        ({"pattern": "a", "path": "missing"}, "not_a_directory"),
        ({"pattern": "a", "path": "pipe"}, "not_a_file"),
        ({"pattern": "a", "path": ".."}, "path_denied"),
        ({"pattern": "a", "limit": 0}, "invalid_args"),
    ],
)
async def test_refuses_what_cannot_be_searched(call, folder, arguments, code):
    assert await call.code("grep_files", **arguments) == code


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a\\", "it ends in a backslash that escapes nothing"),
        ("(a\\\\", "unclosed group"),
        ("*.py", "repetition operator missing expression"),
    ],
)
async def test_a_pattern_that_is_none_is_told_why(call, project, pattern, why):
    answer = await call("grep_files", pattern=pattern)
    assert (answer["code"], answer["error"]) == ("bad_pattern", f"{pattern} is not a regular expression: {why}")


async def test_a_place_that_is_missing_is_answered_with_what_is_like_it(call, project):
    (project / "source").mkdir()
    told = {"error": "there is no sorce", "code": "not_a_directory", "hint": "similar: source"}
    assert await call("grep_files", pattern="a", path="sorce") == told


async def test_a_pattern_that_backtracks_for_ever_is_stopped(call, project):
    call.settings = ToolSettings(regex_timeout=0.2)
    (project / "a").write_text("a" * 40 + "!\n")
    assert await call.code("grep_files", pattern=r"(?=a)(a|aa)+\d") == "regex_timeout"
    assert await call("grep_files", pattern="aaa!") == f"a:1: {'a' * 40}!"


async def test_above_the_limit_the_first_matches_by_path_are_told(call, project):
    for n in range(60):
        (project / f"{n:02}.txt").write_text("hit\n" * 3)
    rows = (await call("grep_files", pattern="hit", limit=4)).split("\n")
    assert rows == ["00.txt:1: hit", "00.txt:2: hit", "00.txt:3: hit", "01.txt:1: hit", "... (stopped at 4 matches)"]
    rows = (await call("grep_files", pattern="hit", limit=2, output="files")).split("\n")
    assert rows == ["00.txt", "01.txt", "... (stopped at 2 matches)"]
    rows = (await call("grep_files", pattern="(?<!x)hit", limit=2)).split("\n")
    assert rows == ["00.txt:1: hit", "00.txt:2: hit", "... (stopped at 2 matches)"]


@pytest.mark.parametrize(("limit", "first", "second"), [(20, "a/x", "a-b"), (200, "a-b", "a/x")])
async def test_what_is_cut_off_at_the_limit_comes_after_all_that_is_told(call, project, limit, first, second):
    # ripgrep, which ends a search of more than ten times the limit, goes name by name: "a" before "a-b".
    (project / "a").mkdir()
    for name, hits in (("a-b", 15), ("a/x", 15), *((f"b{n}", 98) for n in range(20))):
        (project / name).write_text("hit\n" * hits)
    rows = await grep(call, pattern="hit", limit=limit, before=1)
    told = [f"{first}:{n}: hit" for n in range(1, 16)] + ["--"] + [f"{second}:{n}: hit" for n in range(1, 16)]
    assert rows[:21] == told[:21]
    assert rows[-1] == f"... (stopped at {limit} matches)"


@pytest.mark.parametrize("kind", [{"pattern": "hit"}, {"pattern": "hit(?!x)"}, {"query": ["hit"], "match": "block"}])
async def test_files_are_in_the_order_of_their_paths(call, project, kind):
    (project / "a").mkdir()
    names = ["a-b", "a.txt", "a/x", "a0"]
    for name in names:
        (project / name).write_text("hit\n")
    assert await grep(call, output="files", **kind) == names
    assert await grep(call, output="files", limit=3, **kind) == [*names[:3], "... (stopped at 3 matches)"]


async def test_exactly_the_limit_is_not_stopped(call, project):
    (project / "a").write_text("hit\n" * 4)
    assert (await call("grep_files", pattern="hit", limit=4)).count("\n") == 3


async def test_a_long_line_is_cut_around_the_match(call, project):
    (project / "a").write_text("x" * 5000 + "needle" + "y" * 5000 + "\n")
    text = await call("grep_files", pattern="needle")
    assert len(text) < 520
    assert "xneedley" in text


async def test_a_twenty_megabyte_line_is_not_a_problem(call, project):
    (project / "a").write_bytes(b"x" * (20 << 20))
    told = await call("grep_files", pattern="x")
    assert told == "no matches for x in what was searched\n... (above 5 MiB, not searched: a)"


async def test_odd_names_and_bytes_are_shown(call, project):
    (project / "a\nb").write_bytes(b"hit \xff\x1b[0m\n")
    (project / "-e").write_bytes(b"hit\n")
    assert (await call("grep_files", pattern="hit")).split("\n") == ["-e:1: hit", "a<U+000A>b:1: hit \ufffd<U+001B>[0m"]


@pytest.mark.parametrize("pattern", ["-e", "--version", "-f/etc/passwd", "--pre=sh"])
async def test_a_pattern_is_never_an_option(call, project, pattern):
    (project / "a").write_text(f"{pattern} here\n")
    assert await call("grep_files", pattern=pattern) == f"a:1: {pattern} here"


async def grep(call, **arguments):
    answer = await call("grep_files", **arguments)
    assert isinstance(answer, str), answer
    return answer.split("\n")


async def test_context_that_looks_like_a_match_is_shown_as_it_is(call, project):
    (project / "a").write_text("1: one\n2:3: two\n--\nneedle\n")
    assert await grep(call, pattern="needle", context=3) == ["a-1- 1: one", "a-2- 2:3: two", "a-3- --", "a:4: needle"]


async def test_context_stays_with_its_matches_when_the_limit_cuts(call, project):
    (project / "a").write_text("".join(f"{n} {'hit' if n % 4 == 0 else ''}\n" for n in range(1, 20)))
    for pattern in ("hit", "(?<=\\d )hit"):
        assert await grep(call, pattern=pattern, limit=2, context=1) == [
            "a-3- 3 ", "a:4: 4 hit", "a-5- 5 ", "--", "a-7- 7 ", "a:8: 8 hit", "a-9- 9 ", "... (stopped at 2 matches)"
        ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["hit", "hit(?!x)"])
async def test_groups_that_touch_are_one(call, project, pattern):
    (project / "a").write_text("hit\n1\n2\nhit\n4\n5\n6\nhit\n")
    (project / "b").write_text("hit\n")
    assert await grep(call, pattern=pattern, context=1) == [
        "a:1: hit", "a-2- 1", "a-3- 2", "a:4: hit", "a-5- 4", "--", "a-7- 6", "a:8: hit", "--", "b:1: hit"
    ]  # fmt: skip


async def test_before_and_after_are_at_least_the_context(call, project):
    (project / "a").write_text("1\n2\nhit\n4\n5\n")
    assert await grep(call, pattern="hit", context=1, after=2) == ["a-2- 2", "a:3: hit", "a-4- 4", "a-5- 5"]
    assert await grep(call, pattern="hit", before=2) == ["a-1- 1", "a-2- 2", "a:3: hit"]


@each_row(
    ("pattern", "options", "lines"),
    [
        ("one\\n  two", {}, [1, 2]),
        ("one\\r?\\n  two", {}, [1, 2]),
        ("(?s)two.*four", {}, [2, 3, 4]),
        ("one\n  two", {"match": "literal"}, [1, 2]),
        ("one\r\n  two", {"match": "literal"}, [1, 2]),
        ("(one)\\n  two(?= )", {}, [1, 2]),
        ("one[\\s]+two", {}, []),
        ("two [^x]+four", {}, []),
        (r"C:\\new[^x]+four", {}, []),
        (r"C:\\new", {}, [2]),
        ("four$", {}, [4]),
        ("^four$", {}, [4]),
        ("(four)$(?!x)", {}, [4]),
    ],
)
@each_row("end", ["\n", "\r\n"])
async def test_matches_span_lines_where_asked_whatever_the_line_ends(call, project, pattern, options, lines, end):
    (project / "a").write_bytes(end.join(["one", "  two C:\\new", "three", "four", ""]).encode())
    rows = await grep(call, pattern=pattern, **options)
    assert [int(row.split(":")[1]) for row in rows if row.startswith("a:")] == lines
    assert not any("\r" in row for row in rows)


async def test_files_in_any_encoding_are_searched(call, project):
    for name, encoding in (("a", "utf-8"), ("b", "utf-8-sig"), ("c", "utf-16"), ("e", "latin-1")):
        (project / name).write_bytes("père Noël\r\nx\r\n".encode(encoding))
    (project / "d").write_bytes(b"\xfe\xff" + "père Noël\n".encode("utf-16-be"))
    for pattern in ("^p.re", "^p.re(?= )"):
        assert await grep(call, pattern=pattern) == [
            *(f"{name}:1: père Noël" for name in "abcd"),
            *(["e:1: p\ufffdre No\ufffdl"] if "(?=" in pattern else []),
        ]
    assert await grep(call, pattern="No", path="e") == ["e:1: p\ufffdre No\ufffdl"]
    assert await grep(call, query=["père Noël", "x"], match="block", output="files") == ["a", "b", "c"]


@pytest.mark.parametrize("engine", ["hit", "hit(?!x)"])
@pytest.mark.parametrize("output", ["lines", "files", "count"])
async def test_names_of_any_bytes_are_shown_in_every_output(call, project, engine, output):
    for name in (b"a\nb", b"./c\n./d", b"\xff\xfe", b"\x1b[31m"):
        path = project / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("hit\nhit\n")
    names = ["<U+001B>[31m", "a<U+000A>b", "c<U+000A>./d", "\ufffd\ufffd"]
    want = {
        "lines": [f"{name}:{n}: hit" for name in names for n in (1, 2)],
        "files": names,
        "count": [f"{name}: 2" for name in names],
    }
    assert await grep(call, pattern=engine, output=output) == want[output]
    assert await grep(call, pattern="31m|b$|/d$", target="path") == names[:3]
    assert await grep(call, pattern="(?<=3)1m|(?=b$)|(?=/d$)", target="path") == names[:3]


async def test_what_gitignore_says_above_the_folder_holds_up_to_the_root(call, project):
    (project.parent / ".gitignore").write_text("*.py\n")
    files = {
        ".gitignore": "*.log\n/a/b/out\n!keep.log\n**/deep.txt\na/*/odd?\n",
        "a/.gitignore": "*.tmp\n/b/c/x.txt\n!/b/odd2\nonly/\n\\#hash\n",
        "a/b/.gitignore": "!back.tmp\n",
    }
    for name in (
        *("1.py", "1.log", "keep.log", "out", "1.tmp", "back.tmp", "odd1", "odd2", "x.txt", "only", "#hash"),
        *("c/x.txt", "c/y.txt", "c/out", "c/deep.txt", "c/only/z", "c/1.log"),
    ):
        files[f"a/b/{name}"] = "hit\n"
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    want = ["1.py", "back.tmp", "c/out", "c/y.txt", "keep.log", "odd2", "only", "x.txt"]
    assert await grep(call, pattern="hit", path="a/b", output="files") == [f"a/b/{name}" for name in want]
    assert await grep(call, pattern="hit", output="files") == [f"a/b/{name}" for name in want]
    assert await grep(call, pattern="(?=hit)", path="a/b", output="files") == [f"a/b/{name}" for name in want]
    assert await grep(call, pattern="hit", path="a/b/c", output="count") == ["a/b/c/out: 1", "a/b/c/y.txt: 1"]
    globbed = await call("glob", pattern="**", base="a/b")
    assert globbed.split("\n") == [f"a/b/{name}" for name in want]


async def test_odd_folder_names_do_not_change_what_gitignore_says(call, project):
    for folder in ("a[b]", "a*", "!a", "#a", "a b ", "a\nb", "\\a", "{a}"):
        (project / folder / "sub").mkdir(parents=True)
        (project / folder / ".gitignore").write_text("*.log\n/sub/out\n")
        for name in ("x.log", "out", "in"):
            (project / folder / "sub" / name).write_text("hit\n")
        rows = await grep(call, pattern="hit", path=f"{folder}/sub", output="files")
        assert rows == [f"{folder}/sub/in".replace("\n", "<U+000A>")]


async def test_the_rules_of_a_root_around_a_root_do_not_hold_in_it(call, project):
    (project / ".gitignore").write_text("*.txt\n")
    inner = project / "inner"
    (inner / "sub").mkdir(parents=True)
    (inner / "sub" / "a.txt").write_text("hit\n")
    call.roots = [inner, project]
    assert await grep(call, pattern="hit", path="sub") == ["sub/a.txt:1: hit"]


async def test_files_of_other_roots_have_absolute_names(call, project, tmp_path):
    other = tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    (other / "sub" / "a").write_text("hit\n")
    call.roots = [project, other]
    shown = f"{other.resolve()}/sub/a"
    assert await grep(call, pattern="hit", path=str(other)) == [f"{shown}:1: hit"]
    assert await grep(call, pattern="hit", path=str(other / "sub" / "a"), output="count") == [f"{shown}: 1"]
    assert await grep(call, pattern="sub/a", path=str(other), target="path") == [shown]


@each_row(
    ("glob", "files"),
    [
        ("foo{,.txt}", ["foo", "foo.txt"]),
        ("*.{txt,py}", ["a.py", "foo.txt", "src/b.py", "src/lib/c.py"]),
        ("{a,b}.py", ["a.py", "src/b.py"]),
        ("{src,nowhere}/**/*.py", ["src/b.py", "src/lib/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("./src/*.py", ["src/b.py"]),
        ("/src/*.py", ["src/b.py"]),
        ("src/{lib/c,b}.py", ["src/b.py", "src/lib/c.py"]),
        ("!src/**", ["a.py", "foo", "foo.txt", "include:py"]),
        ("!*.py", ["foo", "foo.txt", "include:py"]),
        ("**/lib/**", ["src/lib/c.py"]),
        ("include:py", ["include:py"]),
        ("[!a].py", ["src/b.py", "src/lib/c.py"]),
        ("**", ["a.py", "foo", "foo.txt", "include:py", "src/b.py", "src/lib/c.py"]),
    ],
)
@each_row("pattern", ["hit", "(?=hit)"])
async def test_a_glob_says_which_files(call, project, glob, files, pattern):
    for name in ("a.py", "foo", "foo.txt", "include:py", "src/b.py", "src/lib/c.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("hit\n")
    assert await grep(call, pattern=pattern, glob=glob, output="files") == files
    if pattern == "hit":
        assert await grep(call, pattern="", query=["hit"], match="block", glob=glob, output="files") == files


@pytest.mark.parametrize("pattern", ["hit", "(?=hit)"])
async def test_in_a_glob_a_question_mark_is_a_character_and_no_byte(call, project, pattern):
    for name in ("é.py", "aé", "ab.py", "日"):
        (project / name).write_text("hit\n")
    assert await grep(call, pattern=pattern, glob="?.py", output="files") == ["é.py"]
    assert await grep(call, pattern=pattern, glob="?{.py,é}", output="files") == ["aé", "é.py"]
    assert await grep(call, pattern=pattern, glob="??*", output="files") == ["ab.py", "aé", "é.py"]
    assert await grep(call, pattern=pattern, glob="?", output="files") == ["日"]


@pytest.mark.parametrize("pattern", ["needle", "needle(?!x)"])
async def test_a_line_of_megabytes_is_cut_around_the_match(call, project, pattern):
    (project / "a").write_text("é" * 1_000_000 + "needle" + "ü" * 1_000_000 + "\n")
    [row] = await grep(call, pattern=pattern)
    assert len(row) <= 500 + len("a:1: ......")
    assert row.startswith("a:1: ...é")
    assert "éneedleü" in row
    assert row.endswith("ü...")


@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "a\0b"},
        {"pattern": "a\ud800b"},
        {"pattern": "x" * 70_000},
        {"pattern": "(?=a)\0"},
        {"pattern": "a\0b", "match": "literal"},
        {"pattern": "(" * 2000},
        {"pattern": "(?=" * 2000},
        {"query": ["a\0b"], "match": "block"},
        {"query": ["a\ud800b"], "match": "block"},
        {"pattern": "x" * 70_000, "target": "path"},
    ],
)
async def test_a_pattern_that_no_engine_takes_is_a_bad_pattern(call, project, arguments):
    (project / "a").write_text("a\n")
    assert await call.code("grep_files", **arguments) == "bad_pattern"


@pytest.mark.parametrize("name", [".git", ".Git", ".gIT", ".GIT"])
async def test_git_is_not_searched_however_it_is_written(call, project, name):
    (project / "sub" / name).mkdir(parents=True)
    (project / "sub" / name / "config").write_text("a rare word")
    assert await grep(call, pattern="a rare word") == ["no matches for a rare word"]


LATE_NUL = b"hit\n" + b"x\n" * 40_000 + b"\0hit\n"


@pytest.mark.parametrize("context", [{}, {"context": 0}])
async def test_a_file_with_a_nul_behind_its_hits_changes_nothing_of_the_next_one(call, project, context):
    divider = ["--"] if context else []
    for name in ("a", "a\nb", "z"):
        (project / name).write_bytes(LATE_NUL)
        (project / f"{name}x").write_text("hit\n")
    names = ["a", "a<U+000A>b", "a<U+000A>bx", "ax", "z", "zx"]
    rows = [row for name in names for row in (*divider, f"{name}:1: hit")]
    assert await grep(call, pattern="hit", **context) == rows[len(divider) :]


async def test_what_stands_before_the_nul_of_a_binary_file_is_not_shown(call, project):
    for name in ("a", "c"):
        (project / name).write_bytes(b"\n\nx\0")
        (project / f"{name}b").write_text("\n")
    for limit in (2, 200):
        assert await grep(call, pattern="^$", limit=limit) == ["ab:1: ", "cb:1: "]


async def test_a_file_named_by_itself_is_searched_behind_a_late_nul(call, project):
    (project / "a").write_bytes(LATE_NUL)
    for engine in ("hit", "hit(?!x)"):
        assert await grep(call, pattern=engine, path="a") == ["a:1: hit", "a:40002: <U+0000>hit"]
        assert await grep(call, pattern=engine, path="a", output="count") == ["a: 2"]


async def test_a_hole_in_what_has_to_be_decoded_is_not_held_in_memory(call, project, searches):
    with (project / "f").open("wb") as file:
        file.write("text\n".encode("utf-16") * 2000)
        file.truncate(2**24)
    assert await grep(call, pattern="hit", path="f") == ["no matches for hit"]
    assert "--text" not in searches[0]


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"pattern": "(?s)a.*py"}, ["src/a.py"]),
        ({"pattern": "(?s)(?=a)a.*py"}, ["src/a.py"]),
        ({"pattern": r"py\nsrc|b"}, ["src/b.py"]),
        ({"pattern": r"(?=p)py\nsrc"}, None),
        ({"pattern": "a.py\nsrc", "match": "literal"}, None),
        ({"pattern": "(?s)^s.*y$"}, ["src/a.py", "src/b.py"]),
    ],
)
async def test_no_match_lies_over_two_paths(call, project, arguments, paths):
    (project / "src").mkdir()
    for name in ("a.py", "b.py"):
        (project / "src" / name).touch()
    (project / "x.py").touch()
    told = await call("grep_files", target="path", **arguments)
    assert told == ("\n".join(paths) if paths else f"no matches for {arguments['pattern']}")


def left_out(name):
    return f"... (above 5 MiB, not searched: {name})"


LARGE = b"hit\n" + b"x\n" * (5 << 19)


async def test_large_files_are_not_searched_but_found_by_path(call, project):
    (project / "large").write_bytes(LARGE)
    for _ in range(2):
        assert await grep(call, pattern="hit") == ["no matches for hit in what was searched", left_out("large")]
    assert await grep(call, pattern="lar", target="path") == ["large"]
    assert await grep(call, pattern="hit", path="large") == ["large:1: hit"]


async def test_what_cannot_be_sought_in_a_large_file_is_told_where_that_is_named(call, project):
    (project / "large").write_bytes(LARGE)
    (project / "small").write_text("hit\nx\n")
    sought = ({"pattern": "hit(?!y)"}, {"match": "block", "query": ["hit", "x"]})
    for arguments in sought:
        assert await call.code("grep_files", path="large", **arguments) == "too_large"
        assert await grep(call, output="files", **arguments) == ["small", left_out("large")]
    assert await grep(call, path="large", pattern="hit") == ["large:1: hit"]


@pytest.fixture
def searches(monkeypatch):
    """Return the arguments that ripgrep was started with, of each search."""
    started: list[list[str]] = []
    start = Ripgrep.start

    def noted(self, arguments, **options):
        started.append(list(arguments))
        return start(self, arguments, **options)

    monkeypatch.setattr(Ripgrep, "start", noted)
    return started


HITS = {
    "lines": ["a:1: hit", "a:2: hit", "z/a:1: hit"],
    "count": ["a: 2", "z/a: 1"],
    "files": ["a", "z/a"],
}


@pytest.fixture
def mixed(project):
    """Return a project with hits in small files, and in one that is too large, between them."""
    (project / "z").mkdir()
    (project / "a").write_text("hit\nhit\n")
    (project / "m").write_bytes(LARGE)
    (project / "z" / "a").write_text("hit\n")
    return project


@pytest.mark.parametrize("output", ["lines", "count", "files"])
async def test_hits_of_large_files_are_left_out(call, mixed, output):
    assert await grep(call, pattern="hit", output=output) == [*HITS[output], left_out("m")]


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_a_large_file_counts_for_no_limit(call, mixed, limit):
    rows = HITS["lines"][:limit] + ([f"... (stopped at {limit} matches)"] if limit < 3 else [left_out("m")])
    assert await grep(call, pattern="hit", limit=limit) == rows


async def test_a_limit_is_not_reached_by_a_large_file_with_many_hits(call, project):
    (project / "a").write_bytes(b"hit\n" * (5 << 18 | 1))
    (project / "b").write_text("hit\n")
    assert await grep(call, pattern="hit", limit=1) == ["b:1: hit", left_out("a")]
    assert await grep(call, pattern="hit", limit=1, output="count") == ["b: 1", left_out("a")]


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("b", 2), ("b(?!x)", 2), ("b\\na", 2), ("(b)\\na(?!x)", 2), ("\\n[ab]", 4), ("\\n[ab](?!x)", 4)],
)
async def test_counts_are_the_same_from_both_engines(call, project, pattern, count):
    (project / "a").write_text("a\nb b\na\nb\na\n")
    assert await grep(call, pattern=pattern, output="count") == [f"a: {count}"]
    assert await grep(call, pattern=pattern, output="files") == ["a"]


async def test_the_end_of_a_file_is_no_line_of_a_block(call, project):
    (project / "a").write_text("x\nhit\n")
    (project / "b").write_text("hit\n\n")
    assert await grep(call, query=["hit", ""], match="block") == ["b:1-2:", "1\thit", "2\t"]


async def test_an_empty_file_has_no_lines(call, project):
    (project / "a").touch()
    for pattern in ("^", "(?=)", "$"):
        assert await grep(call, pattern=pattern) == [f"no matches for {pattern}"]


async def test_the_limit_holds_over_paths_and_contents(call, project):
    for name in ("hit1", "hit2"):
        (project / name).write_text("hit\n")
    assert await grep(call, pattern="hit", target="both", limit=3) == [
        "hit1", "hit2", "hit1:1: hit", "... (stopped at 3 matches)"
    ]  # fmt: skip
    assert await grep(call, pattern="hit", target="both", limit=2) == ["hit1", "hit2", "... (stopped at 2 matches)"]
    (project / "hit1").write_text("")
    (project / "hit2").write_text("")
    assert await grep(call, pattern="hit", target="both", limit=2) == ["hit1", "hit2"]


async def test_files_and_counts_stop_at_the_limit_by_path(call, project):
    for n in range(40):
        (project / f"{n:02}").write_text("hit\n" * (n + 1))
    for pattern in ("hit", "hit(?!x)"):
        rows = await grep(call, pattern=pattern, output="count", limit=3)
        assert rows == ["00: 1", "01: 2", "02: 3", "... (stopped at 3 matches)"]
    assert len(await grep(call, pattern="hit", output="files", limit=40)) == 40


@pytest.mark.skipif(sys.platform == "win32", reason="a folder that is open cannot be removed there")
@pytest.mark.parametrize("arguments", [{}, {"output": "count"}, {"target": "path"}, {"match": "block"}])
async def test_a_folder_that_is_removed_meanwhile_is_no_mistake_in_the_pattern(call, project, monkeypatch, arguments):
    (project / "d").mkdir()
    start = Ripgrep.start

    def removed(self, argv, **options):
        if (project / "d").exists():
            (project / "d").rmdir()
        return start(self, argv, **options)

    monkeypatch.setattr(Ripgrep, "start", removed)
    sought = {"query": ["hit"]} if "match" in arguments else {"pattern": "hit"}
    assert await call.code("grep_files", path="d", **sought, **arguments) == "not_a_directory"


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script")
async def test_a_ripgrep_that_does_not_run_is_no_search_without_hits(call, project, tmp_path_factory, monkeypatch):
    (project / "a").write_text("hit\n")
    stand_in = tmp_path_factory.mktemp("bin") / "rg"
    stand_in.write_text("#!/bin/sh\nexit 127\n")
    stand_in.chmod(0o755)
    start = Ripgrep.start

    def replaced(self, arguments, **options):
        return start(Ripgrep(stand_in), arguments, **options)

    monkeypatch.setattr(Ripgrep, "start", replaced)
    assert (await call("grep_files", pattern="hit"))["code"] == "unavailable"


@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "hit", "output": "files"},
        {"pattern": "hit", "output": "files", "glob": "*"},
        {"pattern": "(?=h)hit", "output": "files"},
        {"pattern": "toolbox|a", "target": "path"},
        {"query": ["hit"], "match": "block", "output": "files"},
    ],
)
async def test_what_is_on_its_way_to_its_place_is_not_found_but_by_its_name(call, project, arguments):
    coming, moving = temporary_name(), temporary_name()
    (project / "sub" / moving / "a").mkdir(parents=True)
    for name in ("a", coming, ".toolbox-mine.tmp", f"sub/{moving}/a/b"):
        (project / name).write_text("hit\n")
    assert await call("grep_files", **arguments) == ".toolbox-mine.tmp\na"
    assert await call("grep_files", pattern="hit", path=coming) == f"{coming}:1: hit"
    assert await call("grep_files", pattern="hit", path=f"sub/{moving}") == f"sub/{moving}/a/b:1: hit"


@pytest.mark.slow
async def test_many_quick_attempts_are_no_runaway(call, project):
    call.settings = ToolSettings(regex_timeout=0.2)
    (project / "f").write_text("a\n" * 2**18)
    assert await call("grep_files", pattern=r"(?=a)a\n", path="f", output="count") == f"f: {2**18}"


@pytest.mark.parametrize(
    ("pattern", "data"),
    [
        (r"a\r$", b"a\r\nb\r\n"),
        (r"\<a\>", b"a = 1\n"),
        (r"[a-z&&[^b]]", b"b\na\n"),
        (r"\\<a", b"\\<a\n"),
    ],
)
async def test_a_look_around_leaves_the_rest_of_a_pattern_what_it_is(call, project, pattern, data):
    (project / "f").write_bytes(data)
    plain = await call("grep_files", pattern=pattern)
    assert plain.startswith("f:")
    assert await call("grep_files", pattern=f"(?<!x){pattern}(?!y)") == plain


@pytest.mark.parametrize("pattern", [r"c\++", r"c\*+", r"\(?=1"])
async def test_what_is_escaped_asks_for_no_other_engine(call, project, pattern):
    (project / "f").write_bytes(b"c++ c** (=1\n" * 2**19)
    assert (await call("grep_files", pattern=pattern, path="f", limit=1)).startswith("f:1: c++")


async def test_context_behind_the_last_match_holds_further_matches_as_context(call, project):
    (project / "f").write_text("m1\nm2\nx\nm3\n")
    found = await call("grep_files", pattern="m", limit=1, after=2)
    assert found == "f:1: m1\nf-2- m2\nf-3- x\n... (stopped at 1 matches)"


async def test_there_is_no_context_without_a_match(call, project):
    (project / "f").write_text("K\nz\na b\n")
    assert (await call("grep_files", pattern=r"\Aa", before=2)).startswith("no matches")


async def test_a_block_may_end_in_a_line_break(call, project):
    (project / "f").write_text("hit\nmore\n")
    assert await call("grep_files", match="block", query=["hit\n"]) == "f:1-1:\n1\thit"
    assert await call("grep_files", match="block", query=["hit\nmore\n"]) == "f:1-2:\n1\thit\n2\tmore"


async def test_blocks_are_found_in_paths_whatever_their_case(call, project):
    (project / "Readme").write_text("")
    arguments = {"match": "block", "query": ["readme"], "target": "path"}
    assert await call("grep_files", **arguments, ignore_case=True) == "Readme"
    assert (await call("grep_files", **arguments)).startswith("no matches")


@pytest.mark.parametrize(("size", "found"), [(60_000, "no matches for"), (70_000, "f:1: hit")], ids=["small", "large"])
@pytest.mark.parametrize(
    "arguments", [{"pattern": "hit(?!Q)"}, {"query": ["hit"], "match": "block"}, {"pattern": "hit"}]
)
async def test_every_engine_stops_at_a_nul_below_a_folder(call, project, size, found, arguments):
    (project / "f").write_bytes(b"hit\n" + b"x" * size + b"\n\0\nhit\n")
    answer = await call("grep_files", **arguments)
    if "query" in arguments:
        found = found.replace("f:1: hit", "f:1-1:\n1\thit")
    assert answer == found or (size == 60_000 and answer.startswith(found))


@pytest.mark.parametrize(
    "pattern",
    ["(?x)\n foo # one\n bar", "(?x) foo bar # both", "(?ix)FOO # one\nBAR # two", "(?x:foo bar)", "(?x) foo (?-x)bar"],
)
@pytest.mark.parametrize("target", ["content", "path"])
async def test_line_breaks_lay_out_a_verbose_pattern(call, project, pattern, target):
    (project / "foobar").write_text("foobar\n")
    found = {"content": "foobar:1: foobar", "path": "foobar"}
    assert await call("grep_files", pattern=pattern, target=target) == found[target]


@pytest.mark.parametrize("pattern", [r"a\x0ab", r"a\x{0A}b", r"a\u000ab"])
async def test_a_line_feed_may_be_named_by_its_number(call, project, pattern):
    (project / "f").write_text("a\nb\n")
    assert await call("grep_files", pattern=pattern) == "f:1: a\nf:2: b"


@pytest.mark.parametrize(("glob", "found"), [("/x.py", "x.py"), ("!/x.py", "s/x.py"), ("x.py", "s/x.py\nx.py")])
async def test_a_glob_from_the_top_means_that_alone(call, project, glob, found):
    (project / "s").mkdir()
    for name in ("x.py", "s/x.py"):
        (project / name).write_text("hit\n")
    assert await call("grep_files", pattern="hit", glob=glob, output="files") == found


async def test_what_is_above_a_bound_is_taken_as_the_bound(call, project):
    (project / "f").write_text("x\n" * 300)
    assert await call("grep_files", pattern="x", limit=10**6) == await call("grep_files", pattern="x", limit=200)
    assert await call("grep_files", pattern="x", context=51, limit=1) == await call(
        "grep_files", pattern="x", context=50, limit=1
    )


async def test_matches_span_lines_where_the_pattern_can_or_the_caller_says_so(call, project):
    (project / "f").write_text("def one(\n    a,\n):\n")
    found = ["f:1: def one(", "f:2:     a,"]
    for arguments in (
        {"pattern": r"one\(\n\s+a"},
        {"pattern": r"one[\s\S]*?a"},
        {"pattern": r"one[\S\s]*?a(?!b)"},
        {"pattern": r"one\(\s+a", "multiline": True},
        {"pattern": r"one\([^)]*?a", "multiline": True},
        {"pattern": r"one\([^)]*?a(?!b)", "multiline": True},
    ):
        assert await grep(call, **arguments) == found, arguments
    for pattern in (r"one\(\s+a", r"one\([^)]*?a", r"one\([^)]*?a(?!b)"):
        assert await grep(call, pattern=pattern) == [f"no matches for {pattern}; multiline=true searches across lines"]


async def test_a_file_named_by_itself_that_is_no_text_is_refused(call, project):
    (project / "b").write_bytes(b"\0\1hit\2")
    (project / "p.pdf").write_bytes(b"%PDF-1.7\nbinary\n")
    assert (await call("grep_files", pattern="nowhere", path="b"))["code"] == "binary_file"
    assert (await call("grep_files", pattern="nowhere", path="p.pdf"))["hint"] == "read_file shows its text"
    assert await call("grep_files", pattern="nowhere") == "no matches for nowhere"


@each_row(
    ("arguments", "paths"),
    [
        ({}, [".env", ".git2/.x", ".git2/y.py", "a.py", "src/.env", "src/b.py"]),
        ({"include_hidden": False}, ["a.py", "src/b.py"]),
        ({"include_hidden": False, "glob": "*.py"}, ["a.py", "src/b.py"]),
        ({"include_hidden": False, "glob": ".env"}, [".env", "src/.env"]),
        ({"include_hidden": False, "glob": "{.env,*.py}"}, [".env", "a.py", "src/.env", "src/b.py"]),
        ({"include_hidden": False, "glob": "[.]env"}, ["no matches for word"]),
        ({"include_hidden": False, "glob": "src/.env"}, ["src/.env"]),
        ({"include_hidden": False, "glob": ".git2/**"}, [".git2/y.py"]),
        ({"include_hidden": False, "glob": "!*.py"}, ["no matches for word"]),
        ({"include_hidden": False, "path": ".git2"}, [".git2/y.py"]),
        ({"include_hidden": False, "path": ".git2/.x"}, [".git2/.x"]),
        ({"include_hidden": False, "match": "block", "query": ["word"]}, ["a.py", "src/b.py"]),
        ({"include_hidden": False, "pattern": "(?=w)word"}, ["a.py", "src/b.py"]),
        ({"include_hidden": False, "pattern": r"env|\.py", "target": "path"}, ["a.py", "src/b.py"]),
    ],
)
async def test_hidden_files_are_left_out_where_asked(call, project, arguments, paths):
    for path in (".env", ".git2/.x", ".git2/y.py", "a.py", "src/.env", "src/b.py"):
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text("word\n")
    given = arguments if arguments.get("match") == "block" else {"pattern": "word", **arguments}
    assert (await call("grep_files", output="files", **given)).split("\n") == paths
