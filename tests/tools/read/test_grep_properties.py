"""grep_files against plain ripgrep, and its two engines against each other, on generated trees."""

import itertools
import os
import re
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolbox_mcp.sandbox.ripgrep import QUIET, find_ripgrep
from toolbox_mcp.tools.settings import ToolSettings

MANY = 10**6


WORDS = ["alpha", "Beta", "a", "b", "x-y", "1:2", "--", "", " ", "é", "ß", "(a", "\t"]
NAMES = ["a", "b", "src", "a.py", "b.txt", "x-y", ".hid", "out", "1"]
PATTERNS = [
    "alpha", "^a", "b$", r"\w+", "[A-Z]eta", "a|b", r"\bx-y\b", "é", r"a\n", r"^$", r"\S", r"(?i)BETA", "(a{1,2}", r"\(a",
]  # fmt: skip
IGNORES = ["*.py", "out", "/a", "b/", "!a.py", "src/*", "**/b.txt", "a/**/b", "!src/", "#x", "[ab].txt", ".hid"]

line = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
content = st.builds(
    lambda lines, end, final: end.join(lines) + (end if final else ""),
    st.lists(line, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
path = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
rules = st.lists(st.sampled_from(IGNORES), max_size=3).map("\n".join)
trees = st.tuples(
    st.dictionaries(path, content, min_size=1, max_size=10), st.dictionaries(st.sampled_from(["", "a/", "src/"]), rules)
)

number = itertools.count()
usual = settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture])


def plant(project, tree):
    """Make a tree in a folder of its own, and return it; a name that is a file and a folder is what came first."""
    folder = project / str(next(number))
    folder.mkdir()
    files, ignores = tree
    for name, text in [*files.items(), *((f"{where}.gitignore", text) for where, text in ignores.items())]:
        place = folder / name
        if place.is_dir() or any(parent.is_file() for parent in place.parents):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
    return folder


def plain(folder, *arguments):
    """Return ripgrep's own rows: (path, line, text)."""
    argv = [find_ripgrep().binary, *QUIET, "--hidden", "--no-ignore-parent", "--iglob=!.git", "--null", "--crlf"]
    done = subprocess.run(
        [*argv, "--line-number", "--with-filename", *arguments, "./"], check=False, cwd=folder, capture_output=True
    )
    assert done.returncode in (0, 1), done.stderr
    rows = []
    for row in done.stdout.split(b"\n")[:-1]:
        name, rest = row.split(b"\0")
        n, text = re.fullmatch(rb"(\d+):(.*)", rest, re.DOTALL).groups()
        rows.append((os.fsdecode(name)[2:], int(n), text.decode().removesuffix("\r")))
    return sorted(rows)


@pytest.fixture
def grep(call, project):
    call.settings = ToolSettings(ignored_dirs=(), max_grep_matches=MANY)
    call.tokens = 10**7

    async def run(folder, **arguments):
        below = folder.relative_to(project).as_posix()
        answer = await call("grep_files", path=below, **arguments)
        if isinstance(answer, dict):
            return answer["code"]
        if answer.startswith("no matches for "):
            return []
        return [row.removeprefix(below + "/") for row in answer.split("\n")]

    return run


def told(rows):
    return [f"{name}:{n}: {text}" for name, n, text in rows]


@usual
@given(tree=trees, pattern=st.sampled_from(PATTERNS), ignore_case=st.booleans(), literal=st.booleans())
async def test_the_hits_are_those_of_ripgrep(grep, project, tree, pattern, ignore_case, literal):
    folder = plant(project, tree)
    kind = {"match": "literal"} if literal else {}
    if not literal and pattern == "(a{1,2}":
        assert await grep(folder, pattern=pattern) == "bad_pattern"
        return
    flags = [*(["-i"] if ignore_case else []), *(["-F"] if literal else [])]
    flags += ["--multiline"] if not literal and r"\n" in pattern else []
    sent = pattern.replace(r"\n", r"\r?\n") if not literal else pattern
    rows = plain(folder, *flags, f"--regexp={sent}")
    assert await grep(folder, pattern=pattern, ignore_case=ignore_case, **kind) == told(rows)
    names = list(dict.fromkeys(name for name, _, _ in rows))
    assert await grep(folder, pattern=pattern, ignore_case=ignore_case, output="files", **kind) == names


@pytest.mark.slow
@usual
@given(tree=trees)
async def test_below_a_folder_the_hits_are_those_that_ripgrep_has_there_from_above(grep, project, tree):
    folder = plant(project, tree)
    everything = plain(folder, "--regexp=.")
    entered = {os.path.dirname(name) for name, _, _ in plain(folder, "--regexp=^", "--passthru") if "/" in name}
    for below in sorted({part for name in entered for part in (name, name.split("/")[0])}):
        want = [
            (name.removeprefix(below + "/"), n, text) for name, n, text in everything if name.startswith(below + "/")
        ]
        assert await grep(folder / below, pattern=".") == told(want)


@pytest.mark.slow
@settings(usual, max_examples=settings().max_examples // 3)
@given(tree=trees, pattern=st.sampled_from(["alpha", "^a", "b$", "[A-Z]eta", "a|b", "é", r"\S", r"a\n"]))
async def test_both_engines_find_the_same(grep, project, tree, pattern):
    folder = plant(project, tree)
    for more in ({}, {"context": 1}, {"before": 2}, {"output": "count"}, {"output": "files"}):
        assert await grep(folder, pattern=pattern, **more) == await grep(folder, pattern=f"(?:{pattern})(?!Q)", **more)


@pytest.mark.slow
@usual
@given(tree=trees, before=st.integers(0, 3), after=st.integers(0, 3))
async def test_context_is_what_stands_around_the_matches(grep, project, tree, before, after):
    folder = plant(project, tree)
    rows = plain(folder, "--regexp=alpha")
    want: list[str] = []
    last = None
    for name in dict.fromkeys(name for name, _, _ in rows):
        hits = [n for path, n, _ in rows if path == name]
        lines = (folder / name).read_text().split("\n")
        lines = lines[:-1] if lines[-1] == "" else lines
        near = sorted({n for hit in hits for n in range(hit - before, hit + after + 1) if 1 <= n <= len(lines)})
        for n in near:
            if last and last != (name, n - 1):
                want.append("--")
            mark = ":" if n in hits else "-"
            want.append(f"{name}{mark}{n}{mark} {lines[n - 1]}")
            last = (name, n)
    assert await grep(folder, pattern="alpha", before=before, after=after) == want
