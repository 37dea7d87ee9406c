import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables import each_row
from toolbox_mcp.safety.path_jail import protected
from toolbox_mcp.safety.path_jail.protected import Protected
from toolbox_mcp.safety.writes.atomic import read_whole, replace
from toolbox_mcp.safety.writes.file_version import Seen

GLOBS = (".mcp.json", ".claude/settings*.json", ".cursor/**", ".vscode/tasks.json", "/only/here", "deep/**/secret*")


GIT = [
    ".git",
    ".GIT",
    ".gIt",
    ".git.",
    ".git ",
    ".git. . ",
    ".git::$INDEX_ALLOCATION",
    ".git:stream",
    "git~1",
    "GIT~1",
    "git~2",
    ".g\u200cit",
    "\ufeff.git",
    ".gi\u202et",
    ".git\u206f",
    ".g\u200bit",
    ".\u00adgit",
    ".gi\ufe0ft",
    ".git\u2060",
    ".g\u3164it",
    ".g\U000e0020it",
]


@each_row("name", GIT)
def test_every_spelling_of_git_is_git(name):
    assert Protected((), [], []).name_refusal(Path("/srv"), ["sub", name, "config"]) == "it belongs to git"


@each_row("name", [".gitignore", ".github", "git", ".git2", "a.git", ".gitmodules", "git~", ".gi", "..git"])
def test_other_names_are_not_git(name):
    assert Protected((), [], []).name_refusal(Path("/srv"), ["sub", name, "config"]) is None


@each_row(
    ("path", "protected"),
    [
        (".mcp.json", True),
        (".MCP.JSON", True),
        (".mcp.json. ", True),
        ("sub/.mcp.json", True),
        ("x.mcp.json", False),
        (".claude/settings.json", True),
        (".claude/settings.local.json", True),
        ("sub/.claude/Settings.json", True),
        (".claude/notes.md", False),
        (".claude", False),
        (".cursor", True),
        (".cursor/rules/a", True),
        (".vscode/tasks.json", True),
        (".vscode/settings.json", False),
        ("only/here", True),
        ("only/here/below", True),
        ("sub/only/here", False),
        ("deep/secret.txt", True),
        ("deep/a/b/secret", True),
        ("deep/a/b/other", False),
        ("a/.git/config", True),
        ("a/.git", True),
        ("a/b", False),
    ],
)
def test_globs_match_in_any_case_and_at_any_depth(path, protected):
    refused = Protected(GLOBS, [], []).name_refusal(Path("/srv"), path.split("/"))
    assert (refused is not None) == protected


@each_row(("path", "protected"), [(".claude", True), ("a/.claude", True), ("only", True), ("a", False)])
def test_no_folder_with_content_comes_where_a_glob_has_its_matches(path, protected):
    refused = Protected(GLOBS, [], []).name_refusal(Path("/srv"), path.split("/"), folder=True)
    assert (refused is not None) == protected


def test_a_root_inside_git_is_not_written():
    assert Protected((), [], []).name_refusal(Path("/srv/x/.git"), ["config"])


def test_hostile_globs_end(project):
    glob = "/".join(["**", "a*a*a*b"] * 50)
    assert Protected([glob], [], []).name_refusal(Path("/"), ["aaaa" * 10] * 200) is None


PROTECTED = [
    ".git/config",
    ".GIT/config",
    "sub/../.git/config",
    "to_git/config",
    "to_git_absolute/hooks/new",
    "to_config",
    "sub/.git",
    ".mcp.json",
    "sub/new/.mcp.json",
    "to_mcp",
    "own",
    "own/state.db",
    "own_link/new",
    "hard",
]


@pytest.mark.parametrize("path", PROTECTED)
def test_what_is_protected_is_so_under_every_name(project, jail, outcome, path):
    own = project / "own"
    own.mkdir()
    (own / "state.db").write_text("state")
    (project / ".git").mkdir()
    (project / "sub").mkdir()
    (project / ".git" / "config").write_text("config")
    (project / "to_git").symlink_to(".git")
    (project / "to_git_absolute").symlink_to(project / ".git")
    (project / "to_config").symlink_to("sub/../.git/config")
    (project / "to_mcp").symlink_to("./.mcp.json")
    (project / "own_link").symlink_to("own")
    os.link(own / "state.db", project / "hard")
    roots = jail(protected=GLOBS, own_files=[own, own / "state.db"])
    assert outcome(roots.place(path).check_writable) == "protected_path"
    assert outcome(roots.place("sub/free").check_writable) is None


def test_a_mount_of_git_is_git(project, engine, with_mounts):
    (project / ".git").mkdir()
    (project / "mounted").mkdir()
    script = """
import sys
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Engine, Roots
roots = Roots([sys.argv[1]], engine=Engine(sys.argv[2]))
try:
    roots.place("mounted/config").check_writable()
except ToolError as e:
    print(e.code)
"""
    assert (
        with_mounts(f"mount --bind {project}/.git {project}/mounted", script, project, engine.value) == "protected_path"
    )


def test_own_files_are_protected_outside_the_roots_too(project, jail, outcome):
    own = project.parent / "settings.yaml"
    roots = jail(own_files=[own])
    assert outcome(roots.place(str(own), unconfined=True).check_writable) == "protected_path"
    assert outcome(roots.place(str(own) + "x", unconfined=True).check_writable) is None


def test_a_place_that_came_to_be_protected_a_moment_ago_is_told_when_it_is_written(project, jail, outcome, monkeypatch):
    own = project.parent / "settings.yaml"
    roots = jail(own_files=[own])
    now = [100.0]
    monkeypatch.setattr(protected.time, "monotonic", lambda: now[0])
    (project / "a").touch()
    place = roots.place("a")
    assert outcome(place.foresee_writable) is None
    os.link(project / "a", own)
    assert outcome(place.foresee_writable) is None
    assert outcome(place.check_writable) == "protected_path"
    seen = read_whole(place, 9)[1]
    assert outcome(lambda: replace(place, b"x", expect=seen)) == "protected_path"
    now[0] += 1
    assert outcome(place.foresee_writable) == "protected_path"


def test_a_place_that_is_protected_no_longer_is_not_refused_for_what_was_known_a_moment_ago(project, jail, outcome):
    own = project.parent / "settings.yaml"
    own.touch()
    os.link(own, project / "a")
    place = jail(own_files=[own]).place("a")
    assert outcome(place.foresee_writable) == "protected_path"
    own.unlink()
    assert outcome(place.foresee_writable) is None


def test_what_was_looked_up_last_is_what_is_known_for_a_moment(project, monkeypatch):
    (project / "one").touch()
    guard = Protected([], [project / "one", project / "other"], [])
    look = os.stat

    def meanwhile(path):
        if Path(path).name == "one":
            return look(path)
        # Another thread looks once more, after what is made here, and is done first.
        monkeypatch.setattr(protected.os, "stat", look)
        (project / "other").touch()
        assert len(guard.identities()) == 2
        raise FileNotFoundError

    monkeypatch.setattr(protected.os, "stat", meanwhile)
    assert len(guard.identities()) == 1
    assert len(guard.identities(recent=True)) == 2


def test_what_is_expected_to_be_there_is_judged_where_only_that_may_be_replaced(project, jail, outcome):
    own = project.parent / "settings.yaml"
    own.touch()
    os.link(own, project / "hard")
    (project / "link").symlink_to("hard")
    (project / "free").touch()
    roots = jail(own_files=[own])
    free, hard = (Seen.of((project / name).stat()) for name in ("free", "hard"))
    assert outcome(roots.place("hard").target().check_writable, hard) == "protected_path"
    assert outcome(roots.place("free").target().check_writable, free) is None
    # A link may lead somewhere else by now.
    assert outcome(roots.place("link").check_writable, free) == "protected_path"


NAMES = st.sampled_from(
    ["a", "A", "b.", "deep", "secret", ".git", ".mcp.json", ".vscode", "tasks.json", ".gi\u200bt", "only", "here"]
)
PATHS = st.lists(NAMES, max_size=4)


@settings(max_examples=8 * settings().max_examples)
@given(
    globs=st.lists(st.sampled_from([*GLOBS, "**", "a/**/b", "**/a", "/a/*/b", "/", "x*"]), max_size=4),
    own=st.lists(PATHS.filter(bool), max_size=3),
    base=PATHS,
    tree=st.lists(PATHS.filter(bool), min_size=1, max_size=6),
)
def test_names_are_judged_on_the_way_as_whole_paths_are(globs, own, base, tree):
    root = Path("/srv/a")
    protected = Protected(globs, [Path(root, *base, *path) for path in own], [root])
    below = protected.below(root, base)
    for path in tree:
        for depth, name in enumerate(path, 1):
            why = protected.name_refusal(root, [*base, *path[:depth]])
            assert below.refusal(name) == (protected.name_refusal(root, base) or why)
            below.down(name)
            if why:
                break
        for _ in range(depth):
            below.up()
