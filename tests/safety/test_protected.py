import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables import each_row
from toolbox_mcp.safety.path_jail.protected import Protected
from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.safety.writes.atomic import replace
from toolbox_mcp.safety.writes.file_version import FileVersion
from toolbox_mcp.safety.writes.fs_ops import move

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


def bare(folder: Path) -> None:
    (folder / "objects").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "hooks").mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")


def hostile(project: Path) -> None:
    """Make a repository whose links and git files lead from protected names to others, and back."""
    for folder in ("cfg", "sub/g", "deep/in/g2", "wt", "meta", "pkg", "partial/objects", "partial/refs"):
        (project / folder).mkdir(parents=True)
    (project / ".mcp.json").symlink_to("real.json")
    (project / "real.json").touch()
    (project / "sub" / ".mcp.json").symlink_to("../nowhere.json")
    (project / ".vscode").symlink_to("cfg")
    (project / "pkg" / ".vscode").symlink_to("../cfg2")
    (project / "to_vscode").symlink_to(".vscode")
    (project / "sub" / ".git").symlink_to("g")
    (project / "deep" / ".git").write_text("gitdir: in/g2\n")
    (project / "wt" / ".git").write_text("gitdir: ../meta\n")
    bare(project / "meta")
    bare(project / "repos" / "x")
    (project / ".cursor").mkdir()
    (project / ".cursor" / "mcp").write_text("{}")
    os.link(project / ".cursor" / "mcp", project / "hard_mcp")
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.json").symlink_to("../shared_settings")
    (project / "latest").symlink_to("cfg")
    (project / "free").mkdir()
    (project / "free" / "f").touch()


BEHIND_LINKS = [
    ".mcp.json",
    "real.json",
    "sub/.mcp.json",
    ".vscode/tasks.json",
    "to_vscode/tasks.json",
    "cfg/tasks.json",
    "pkg/.vscode/tasks.json",
    "sub/.git/config",
    "sub/g/config",
    "sub/g/hooks/pre-commit",
    "deep/in/g2/config",
    "wt/.git",
    "meta/hooks/pre-commit",
    "meta/config",
    "meta/HEAD",
    "repos/x/config",
    "repos/x/objects/info/alternates",
    "partial/HEAD",
    "hard_mcp",
    "shared_settings",
]


@each_row("path", BEHIND_LINKS)
def test_what_is_protected_behind_links_and_git_files_is_so_by_each_of_its_names(path, tmp_path_factory, outcome):
    project = tmp_path_factory.mktemp("hostile")
    hostile(project)
    roots = Roots([project], protected=GLOBS)
    try:
        assert outcome(roots.place(path).check_writable) == "protected_path"
        assert outcome(lambda: replace(roots.place(path), b"x")) == "protected_path"
    finally:
        roots.close()


@each_row(
    "path",
    ["free/f", "free/new", "cfg/other.json", "HEAD", "free/HEAD", "wt/f", "latest/other", "sub/f", "partial/config"],
)
def test_what_lies_beside_protected_places_is_written(path, tmp_path_factory, outcome):
    project = tmp_path_factory.mktemp("hostile")
    hostile(project)
    roots = Roots([project], protected=GLOBS)
    try:
        roots.place(path).check_writable()
        replace(roots.place(path), b"x")
    finally:
        roots.close()


@each_row(
    ("source", "destination"),
    [
        ("latest", ".claude2/../sub/.claude"),
        ("latest", "deep/only"),
        ("latest", "sub/.cursor"),
        ("free", "cfg2"),
        ("meta", "elsewhere"),
        ("repos", "elsewhere"),
        ("free/f", "partial/HEAD"),
        ("sub/g", "elsewhere"),
    ],
)
def test_what_a_move_would_make_of_a_link_or_a_folder_is_refused(source, destination, tmp_path_factory, outcome):
    project = tmp_path_factory.mktemp("hostile")
    hostile(project)
    roots = Roots([project], protected=[*GLOBS, "deep/only/x"])
    (project / "only").symlink_to("cfg2")
    try:
        assert outcome(lambda: move(roots.place(source), roots.place(destination, follow=False))) == "protected_path"
        assert os.path.lexists(project / source)
    finally:
        roots.close()


def test_what_is_expected_to_be_there_is_judged_where_only_that_may_be_replaced(project, jail, outcome):
    own = project.parent / "settings.yaml"
    own.touch()
    os.link(own, project / "hard")
    (project / "link").symlink_to("hard")
    (project / "free").touch()
    roots = jail(own_files=[own])
    free, hard = (FileVersion.of((project / name).stat()) for name in ("free", "hard"))
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
