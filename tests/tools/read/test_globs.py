"""The matcher of globs against a slow one that tries everything."""

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables import each_row
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.tools.search.globs import MAX_CHARACTERS, compiled, expanded

LETTERS = "ab.é-\n"
name = st.text(LETTERS, min_size=1, max_size=4)
path = st.lists(name, min_size=1, max_size=5).map("/".join)
piece = st.sampled_from(
    [
        *"ab.é-",
        "*",
        "*",
        "?",
        "**",
        "[ab]",
        "[!a]",
        "[^.]",
        "[a-c]",
        "[c-a]",
        "[]a]",
        "[!]]",
        "[+-9]",
        r"\*",
        r"\a",
        "[a\\]]",
    ]
)
component = st.one_of(st.just("**"), st.lists(piece, min_size=1, max_size=4).map("".join))
simple = st.lists(component, min_size=1, max_size=5).map("/".join)
glob = st.one_of(simple, st.builds("{}{{{},{}}}{}".format, simple, simple, st.sampled_from(["", "a", "*"]), simple))


def slow(pattern, path, hidden):
    """Return True if a glob matches, by trying every way to read it."""
    return any(by_parts(tuple(one.split("/")), tuple(path.split("/")), hidden) for one in expanded(pattern))


@cache
def by_parts(parts, names, hidden):
    if not parts:
        return not names
    if not names:
        return False
    shown = hidden or not names[0].startswith(".")
    if parts[0] == "**":
        below = shown and ((len(names) == 1 and len(parts) == 1) or by_parts(parts, names[1:], hidden))
        return below or (len(parts) > 1 and by_parts(parts[1:], names, hidden))
    dot = parts[0].removeprefix("\\").startswith(".")
    return (shown or dot) and by_name(parts[0], names[0]) and by_parts(parts[1:], names[1:], hidden)


@cache
def by_name(part, name):
    if not part:
        return not name
    if part[0] == "*":
        return by_name(part[1:], name) or (bool(name) and by_name(part, name[1:]))
    if not name:
        return False
    if part[0] == "?":
        return by_name(part[1:], name[1:])
    if part[0] == "[":
        inside = re.match(r"\[([!^]?)(\]?(?:\\.|[^]\\])*)\]", part, re.DOTALL)
        items = re.findall(r"(\\.|[^\\])(?:-(\\.|[^\\]))?", inside[2], re.DOTALL)
        held = any(low[-1] <= name[0] <= (high or low)[-1] for low, high in items)
        return held != bool(inside[1]) and by_name(part[inside.end() :], name[1:])
    literal = part[1:] if part[0] == "\\" and len(part) > 1 else part
    return literal[0] == name[0] and by_name(literal[1:], name[1:])


@settings(max_examples=8 * settings().max_examples)
@given(glob, path, st.booleans())
def test_a_glob_matches_what_trying_everything_finds(pattern, path, hidden):
    wanted = slow(pattern, path, hidden)
    found = compiled(pattern, hidden=hidden)
    assert bool(found.match(path)) == wanted
    if wanted:
        folders = path.split("/")[:-1]
        assert all(found.enters("/".join(folders[:depth])) for depth in range(1, len(folders) + 1))


@settings(max_examples=8 * settings().max_examples)
@given(glob, st.lists(name, max_size=2).map("/".join), st.lists(name, unique=True), st.booleans())
def test_of_the_names_in_a_folder_those_are_picked_that_the_glob_matches(pattern, folder, names, hidden):
    found = compiled(pattern, hidden=hidden)
    prefix = folder + "/" if folder else ""
    assert set(found.meant(folder, names)) == {name for name in names if found.match(prefix + name)}


@each_row(
    ("pattern", "meant"),
    [
        ("**/*.py", ["a.py", "b.py"]),
        ("**/a*", ["a.py", "a.txt"]),
        ("*.py", []),
        ("src/{a,b,c}.py", ["a.py", "b.py"]),
        ("src/{a*,*.py}", ["a.py", "a.txt", "b.py"]),
        (r"src/\a.py", ["a.py"]),
        ("src/[ab].*", ["a.py", "a.txt", "b.py"]),
        ("src/**", ["a.py", "a.txt", "b.py", "c"]),
        ("**/.h", [".h"]),
    ],
)
def test_names_are_picked_by_what_the_glob_says_of_name_and_folder(pattern, meant):
    assert sorted(compiled(pattern).meant("src", ["c", "b.py", "a.txt", "a.py", ".h"])) == meant


@each_row(
    ("pattern", "entered", "left"),
    [
        ("*.py", "", "a .a"),
        ("src/*.py", "src", "a src/x src/.x"),
        ("src/*/x.py", "src src/x", "a src/.x src/x/y"),
        ("src/**", "src src/x src/x/y", "a src/.x src/x/.y"),
        ("**/x", "a a/b", ".a a/.b"),
        ("**/.a/x", "a a/b .a a/.a", ""),
        ("{src,lib}/*.py", "src lib", "a src/a"),
        (".github/**/*.yml", ".github .github/a", "a .github/.a"),
    ],
)
def test_only_folders_that_can_lead_to_a_match_are_entered(pattern, entered, left):
    enters = compiled(pattern).enters
    assert [folder for folder in entered.split() if not enters(folder)] == []
    assert [folder for folder in left.split() if enters(folder)] == []


@each_row(
    ("pattern", "path"),
    [
        ("*a" * 400 + "b", "a" * 4000),
        ("/".join(["**", "a"] * 190) + "/b", "/".join(["a"] * 2000)),
        ("**/" * 300 + "b", "/".join(["a"] * 2000)),
        ("**/" + "*a" * 300 + "/b", "/".join(["a" * 200] * 20)),
        ("{" + ",".join(["*a*a*a*a*b"] * 80) + "}", "a" * 4000),
        ("**/*a*/" * 120 + "b", "/".join(["xaxax"] * 600)),
    ],
)
def test_patterns_on_which_a_matcher_that_goes_back_never_ends_are_answered(pattern, path):
    found = compiled(pattern)
    assert not found.match(path)
    found.enters(path)
    folder, _, name = path.rpartition("/")
    assert not found.meant(folder, [name])


@each_row(
    "pattern",
    ["", "[a", "{a", "a{b,{c}", "[", "[!]", "x" * (MAX_CHARACTERS + 1), "{a,b}" * 9, "{" + ",".join("ab" * 50) + "}" + "x" * 500],
)  # fmt: skip
def test_what_is_no_glob_is_refused(pattern):
    with pytest.raises(ToolError) as refused:
        compiled(pattern)
    assert refused.value.code == "bad_pattern"
