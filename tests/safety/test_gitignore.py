import os
import random
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each_row
from toolbox_mcp.safety.path_jail.gitignore import MAX_BYTES, compile_ignore
from toolbox_mcp.safety.path_jail.tree_walk import Walk

RG = Path(sysconfig.get_path("scripts")) / ("rg.exe" if sys.platform == "win32" else "rg")
"""ripgrep as its wheel installs it."""


def make(folder: Path, text: str) -> None:
    """Make the files named, one a line; `name <- text` gives one content, `name/` is a folder, `name -> x` a link."""
    for line in text.split("\n"):
        name, arrow, rest = line.strip().partition(" <- ")
        name, link, to = name.partition(" -> ")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif link:
            path.symlink_to(to)
        elif name:
            path.write_text(rest.replace("|", "\n") if arrow else "")


@pytest.fixture
def paths(roots: Any) -> Callable[..., list[str]]:
    """Return the paths that a walk gives, folders with `/`, links with `@`."""

    def run(path: str = ".", **options: Any) -> list[str]:
        marks = {"dir": "/", "symlink": "@", "file": "", "other": "?"}
        return [entry.path + marks[entry.kind] for entry in Walk(roots.place(path), **options)]

    return run


def test_goes_in_code_point_order_of_the_paths(project, paths):
    make(project, "b/x\na.txt\na/z\na/b/c\na-b\nB\nü\na!/x\nzz")
    found = [path.removesuffix("/") for path in paths()]
    assert found == sorted(found)
    assert "a/b/c" in found


@pytest.mark.parametrize("others", [0, 2001])
def test_tells_what_entries_are(project, roots, others):
    make(project, "file <- 12345\nfolder/below\nlink -> file\nout -> /etc")
    for number in range(others):
        (project / f"other{number}").touch()
    os.mkfifo(project / "fifo")
    rows = {entry.path: entry for entry in Walk(roots.place("."), sizes=True) if not entry.path.startswith("other")}
    assert {path: row.kind for path, row in rows.items()} == {
        "fifo": "other",
        "file": "file",
        "folder": "dir",
        "folder/below": "file",
        "link": "symlink",
        "out": "symlink",
    }
    assert (rows["file"].size, rows["folder"].size, rows["link"].size) == (5, None, None)
    assert (rows["folder"].depth, rows["folder/below"].depth) == (1, 2)


def test_never_enters_a_link_or_git(project, paths):
    make(project, "a/f\nlink -> a\nself -> .\n.git/config\na/.GIT/config\nb/.git <- gitdir: /elsewhere")
    assert paths() == ["a/", "a/f", "b/", "link@", "self@"]
    assert ".git/" in paths(show_ignored=True)
    assert not [path for path in paths(show_ignored=True) if "config" in path]


def test_leaves_out_ignored_folders_and_hidden_names(project, paths):
    make(project, "node_modules/x\na/node_modules/y\nb/target <- a file\n.hid/x\n.dot\ntarget/x")
    ignored = ("node_modules", "target")
    assert paths(ignored_dirs=ignored) == [".dot", ".hid/", ".hid/x", "a/", "b/", "b/target"]
    assert paths(ignored_dirs=ignored, hidden=False) == ["a/", "b/", "b/target"]
    shown = ["a/", "a/node_modules/", "b/", "b/target", "node_modules/", "target/"]
    assert paths(ignored_dirs=ignored, hidden=False, show_ignored=True) == shown


def test_honours_a_path_inside_an_ignored_folder(project, paths):
    make(
        project, ".gitignore <- node_modules/|*.log\nnode_modules/a/x.js\nnode_modules/a/y.log\nnode_modules/a/build/z"
    )
    assert paths("node_modules", ignored_dirs=("node_modules", "build"), gitignore=True) == ["a/", "a/x.js"]


def test_rules_of_folders_above_hold_up_to_the_root_and_no_further(project, jail):
    make(project.parent, ".gitignore <- *.outer")
    make(project, ".gitignore <- *.log|/top/a|!keep.log\ntop/.gitignore <- *.tmp")
    make(project, "top/a\ntop/b\ntop/c/x.log\ntop/c/x.tmp\ntop/c/keep.log\ntop/c/a\ntop/c/x.outer")
    walk = Walk(jail().place("top/c"), gitignore=True)
    assert [entry.path for entry in walk] == ["a", "keep.log", "x.outer"]
    assert [entry.path for entry in Walk(jail(project / "top").place("c"), gitignore=True)] == [
        "a",
        "keep.log",
        "x.log",
        "x.outer",
    ]


def test_a_gitignore_that_is_no_file_says_nothing(project, paths):
    make(project, "a/x.log\nb/x.log\nc/.gitignore/x.log\nrules <- *.log\na/.gitignore -> ../rules")
    os.mkfifo(project / "b" / ".gitignore")
    assert "a/x.log" in paths(gitignore=True)
    assert "b/x.log" in paths(gitignore=True)
    assert "c/.gitignore/x.log" in paths(gitignore=True)


def test_goes_as_deep_as_asked(project, roots):
    make(project, "a/b/c/d")
    assert [entry.path for entry in Walk(roots.place("."), max_depth=2)] == ["a", "a/b"]


def test_stops_at_its_bounds_and_says_so(project, roots):
    make(project, "\n".join(f"{folder}/{number}" for folder in "abc" for number in range(50)))
    walk = Walk(roots.place("."), max_entries=60)
    assert len(list(walk)) == 60
    assert walk.cut == "60 entries"
    walk = Walk(roots.place("."), max_entries=153)
    assert len(list(walk)) == 153
    assert walk.cut is None
    walk = Walk(roots.place("."), max_seconds=-1)
    assert list(walk) == []
    assert walk.cut == "-1 s"
    walk = Walk(roots.place("."), stop=lambda: True)
    assert list(walk) == []
    assert walk.cut == "cancelled"


NASTY = """
.git/config
.GIT/x.py
sub/.git <- gitdir: elsewhere
.gitignore <- *.log|!keep.log|/only/|gone/
only/x.py
deep/only/x.py
deep/.gitignore <- !*.log|x.*|!/y/x.py
deep/y/x.py
deep/y/z.log
deep/x.log
keep.log
x.log
gone/x.py
gone/sub/x.py
node_modules/x.py
a/b/c/d/x.py
a/b-/x.py
empty/
link.py -> x.py
to-folder -> deep
dangling.py -> nowhere
loop -> .
out.py -> /etc/passwd
"""


@pytest.fixture
def nasty(project):
    make(project, NASTY)
    os.mkfifo(project / "deep" / "fifo.py")
    (project / "deep" / "a\nb").mkdir()
    (project / "deep" / "a\nb" / "x.py").touch()
    if sys.platform == "linux":
        os.makedirs(os.fsencode(project) + b"/deep/\xff")
        (project / "deep" / os.fsdecode(b"\xff") / "x.py").touch()


@each_row(
    "names", [{"x.py"}, {"x.py", "link.py", "out.py", "dangling.py"}, {"deep", "only"}, {"x.log", "keep.log"}, set()]
)
@each_row(
    "options",
    [
        {},
        {"gitignore": True, "ignored_dirs": ["node_modules"]},
        {"gitignore": True, "hidden": False, "folders_first": True},
        {"ignored_dirs": ["deep"], "show_ignored": True, "max_depth": 3},
    ],
)
@each_row("path", [".", "deep", "node_modules"])
def test_a_walk_asked_for_names_yields_those_of_the_whole_walk(nasty, roots, names, options, path):
    whole = [entry for entry in Walk(roots.place(path), **options) if entry.name in names]
    assert list(Walk(roots.place(path), wanted=lambda folder, given: names.intersection(given), **options)) == whole


def test_names_are_asked_for_with_the_folder_that_they_are_in(project, roots):
    make(project, "a/x\na/b/x\nx")
    walk = Walk(roots.place("."), wanted=lambda folder, given: [name for name in given if folder == "a"])
    assert [entry.path for entry in walk] == ["a/b", "a/x"]


def test_a_folder_of_many_names_is_given_up_between_them(project, roots):
    make(project, "\n".join(f"f{number}" for number in range(3000)))
    asked: list[int] = []

    def wanted(folder: str, names: list[str]) -> list[str]:
        asked.append(len(names))
        return names

    walk = Walk(roots.place("."), wanted=wanted, stop=lambda: len(asked) == 2)
    assert 0 < len(list(walk)) <= sum(asked) < 3000
    assert walk.cut == "cancelled"
    assert asked == [1024, 1024]
    asked.clear()
    assert len(list(Walk(roots.place("."), wanted=wanted))) == 3000
    assert asked == [1024, 1024, 952]


@pytest.mark.slow
def test_goes_deeper_than_descriptors_and_paths_allow_without_failing(bottomless, roots):
    before = len(os.listdir("/dev/fd"))
    walk = Walk(roots.place("."))
    assert len(list(walk)) > 700
    assert len(walk.unreadable) == 1
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize(
    ("path", "code"), [("file", "not_a_directory"), ("missing", "not_a_directory"), ("out", "path_denied")]
)
def test_walks_only_folders_inside(project, roots, outcome, path, code):
    make(project, "file\nout -> /etc")
    assert outcome(lambda: list(Walk(roots.place(path)))) == code


def test_a_folder_that_becomes_a_link_is_not_entered(project, roots):
    make(project, "a/f\nb/f\nz/f")
    seen = []
    walk = Walk(roots.place("."))
    for entry in walk:
        seen.append(entry.path)
        if entry.path == "a":
            (project / "b").rename(project / "c")
            (project / "b").symlink_to("z")
    assert seen == ["a", "a/f", "b", "z", "z/f"]
    assert walk.unreadable == ["b"]


def test_a_folder_that_may_not_be_read_is_named(project, roots, as_nobody):
    make(project, "a/f\nlocked/f\nz")
    project.chmod(0o755)
    (project / "locked").chmod(0)

    def walk():
        found = Walk(roots.place("."))
        return [[entry.path for entry in found], found.unreadable]

    answer = as_nobody(walk)
    (project / "locked").chmod(0o700)
    assert answer == [["a", "a/f", "locked", "z"], ["locked"]]


def test_an_entry_can_be_opened(project, roots, content):
    make(project, "a/b/f <- text")
    walk = Walk(roots.place("a"))
    assert [content(walk.at(entry)) for entry in walk if entry.kind == "file"] == ["text"]
    assert [walk.at(entry).shown for entry in Walk(roots.place("a"))] == ["a/b", "a/b/f"]


@each_row(
    ("rules", "out", "kept"),
    [
        ("*.log", "a.log d/a.log", "a.logs log"),
        ("build", "build d/build build/", "build2"),
        ("build/", "build/ d/build/", "build"),
        ("/build", "build build/", "d/build"),
        ("a/b", "a/b", "c/a/b"),
        ("a/**", "a/b a/b/c", "a/ a"),
        ("**/a/b", "a/b c/a/b", "b"),
        ("a/**/b", "a/b a/x/b a/x/y/b", "b a/x"),
        ("a/*", "a/b", "a/b/c a/"),
        ("a**b", "ab axxb", "a/b"),
        ("?.txt", "a.txt", "ab.txt /.txt"),
        ("[a-c]x", "ax bx", "dx"),
        ("[!a]x", "bx", "ax"),
        ("[^a]x", "bx", "ax"),
        ("[]]x", "]x", "x"),
        ("[a/]x", "", "ax"),
        ("[[:digit:]]x", "1x", "ax"),
        ("[b-a]x", "bx", "ax x"),
        ("//a|d//a|//*.c|**//", "", "a a/ d/a a.c d/"),
        ("[[:nope:]]x", "", "nx :x"),
        ("[a", "", "a [a"),
        ("a\\", "", "a a\\"),
        ("\\!a", "!a", "a"),
        ("\\#a", "#a", "a"),
        ("#a", "", "#a a"),
        ("a ", "a", ""),
        ("a\\ ", "a\\x20", "a"),
        ("a\r", "a", ""),
        ("\ufeffa", "a", ""),
        ("*.log|!keep.log", "a.log", "keep.log d/keep.log"),
        ("!keep.log|*.log", "keep.log", ""),
        ("*.log|!keep/", "keep/a.log a.log", "keep/"),
        ("/*|!/foo", "a", "foo foo/ foo/a"),
        ("*|!*/|!*.py", "a d/a", "d/ d/a.py"),
        ("ü?", "üx", "ü üü"),
        ("*", "a .a d/", ""),
        ("**", "a d/a", ""),
        ("", "", "a"),
    ],
)
def test_rules_mean_what_git_says(rules, out, kept):
    ignore = compile_ignore(rules.replace("|", "\n").encode())

    def verdict(path):
        path = path.replace("\\x20", " ")
        name = path.rstrip("/").split("/")[-1]
        return bool(ignore and ignore.verdict(path.rstrip("/"), name, path.endswith("/")))

    assert [path for path in out.split() if not verdict(path)] == []
    assert [path for path in kept.split() if verdict(path)] == []


HOSTILE = [
    "*a" * 25 + "b",
    "**/a*/" * 12 + "b",
    "**/*a*a*a/" * 12 + "b",
    "a*" * 25 + "!",
    "[a-z]*" * 25 + "!",
    "?*" * 25 + "!",
]


@pytest.mark.parametrize("rule", [*HOSTILE, *(rule * 5 for rule in HOSTILE)])
def test_hostile_rules_end(rule):
    ignore = compile_ignore(rule.encode())
    assert ignore
    path = "/".join(["a" * 100] * 30)
    for _ in range(20):
        assert ignore.verdict(path, "a" * 100, False) is None


def test_a_hostile_file_is_read_in_part(project, paths):
    (project / ".gitignore").write_bytes(b"x*\n" * (MAX_BYTES // 3) + b"\n*.log\n" * 10)
    make(project, "a.log\nxa")
    assert paths(gitignore=True) == [".gitignore", "a.log"]


NAMES = "a b ab aa.log x.o x.c a.b b.log a.log build foo foo1 bar a_b [x] x #c !d keep doc.txt .hid e\\f α F a-b a*"
RULES = """*.log !*.log a b/ /a /build build/ foo* f?o * !keep !keep/ /* !/foo !/foo/ foo/* !foo/bar **/a a/** a/**/b
**/foo/** **/foo/bar [ab] [!a]* [a-b].log \\#c \\!d #c a\\_b a_b x_ [x] []x] foo/**/bar/ */a */*/b a*b a**b *.b doc.*
!doc.txt .hid .* !.gitignore /**/a ** foo//bar ./a [^a] [a e\\\\f α [α-ω] f a\\* *o* /foo/bar !/foo/bar/a ? ?? a?
!a/ !b */ !*/ a/b a/b/ !a/b keep/* *[.]log *.[oc] *.b/ *.o/ !*.[co]
a[ab].log foo/[ab]/x [[ab] x* *.log* foo*/ */x.[oc] ab* *b *b/ !*a a/b/*.o */"""


def test_agrees_with_ripgrep_and_git_on_random_trees(tmp_path, jail):
    names = [name.replace("_", " ") for name in NAMES.split()]
    rules = [rule.replace("_", " ") for rule in RULES.split()]
    for seed in range(40):
        chance = random.Random(seed)
        top = tmp_path / str(seed)
        top.mkdir()
        folders = [top]
        for _ in range(chance.randrange(3, 14)):
            folder = chance.choice(folders) / chance.choice(names)
            if not folder.exists():
                folder.mkdir()
                folders.append(folder)
        for _ in range(chance.randrange(10, 50)):
            file = chance.choice(folders) / chance.choice(names)
            if not file.exists():
                file.touch()
        for folder in folders:
            if folder == top or chance.random() < 0.3:
                lines = [chance.choice(rules) + chance.choice(["\n", "\r\n"]) for _ in range(chance.randrange(1, 7))]
                (folder / ".gitignore").write_text("".join(lines), newline="")
        walk = Walk(jail(top).place("."), gitignore=True)
        found = {entry.path for entry in walk if entry.kind == "file"}
        switches = ["global", "exclude", "dot", "parent"]
        command = [RG, "--files", "--hidden", "--no-require-git", "--no-messages", "-0"]
        command += [f"--no-ignore-{switch}" for switch in switches]
        told = subprocess.run(command, cwd=top, capture_output=True, check=False).stdout
        assert found == set(filter(None, told.decode().split("\0"))), f"ripgrep, tree {seed}"
        subprocess.run(["git", "init", "-q"], cwd=top, check=True)
        command = ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-o", "--exclude-standard", "-z"]
        told = subprocess.run(command, cwd=top, capture_output=True, check=True).stdout
        assert found == set(filter(None, told.decode().split("\0"))), f"git, tree {seed}"
