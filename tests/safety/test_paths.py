from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.tables import each_row
from toolbox_mcp.safety.guard import GuardContext
from toolbox_mcp.safety.paths import EntryPath, ProjectPath, UnsafePath, UnsafeWritePath, WriteEntry, WritePath
from toolbox_mcp.safety.policy import Policy

READERS = [ProjectPath, EntryPath, UnsafePath]
WRITERS = [WritePath, WriteEntry, UnsafeWritePath]


@pytest.fixture
def judge(project: Path, jail: Callable[..., Any]) -> Callable[..., tuple[str, list[str]]]:
    """Bind a path to a type, and return what it shows or the code of its refusal, and what `unsafe` lifted."""
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    (project / "file").touch()
    (project / ".git").mkdir()
    (project / "out").symlink_to(outside / "secret")
    (project / "dangling").symlink_to(outside / "new")
    (project / "to_git").symlink_to(".git")
    roots = jail(protected=[".mcp.json"])

    def run(kind: Any, path: str, unsafe: bool = False) -> tuple[str, list[str]]:
        judging = GuardContext(Policy(roots), unsafe=unsafe)
        place = TypeAdapter(kind).validate_python(path, context=judging)
        if judging.refusals:
            assert place is None
            return judging.refusals[0].code.value, judging.overrides
        return place.shown, judging.overrides

    return run


@each_row("kind", READERS + WRITERS)
@each_row("unsafe", [False, True])
def test_every_type_takes_a_path_inside(judge, kind, unsafe):
    assert judge(kind, "./file", unsafe) == ("file", [])
    assert judge(kind, "new/file", unsafe) == ("new/file", [])


@each_row("kind", READERS + WRITERS)
@each_row("path", ["../outside/secret", "/etc/passwd", "", "a\0b", "../project_evil/x"])
def test_no_type_takes_a_path_outside(judge, kind, path):
    assert judge(kind, path) == ("path_denied", [])


@pytest.mark.parametrize("path", ["out", "dangling"])
def test_a_link_is_judged_by_its_target_or_as_itself(judge, path):
    for kind in (ProjectPath, WritePath, UnsafePath, UnsafeWritePath):
        assert judge(kind, path) == ("path_denied", [])
    for kind in (EntryPath, WriteEntry):
        assert judge(kind, path) == (path, [])


@each_row("kind", WRITERS)
@each_row("unsafe", [False, True])
@each_row("path", [".git/config", ".GIT", "to_git/config", ".mcp.json", "new/.mcp.json"])
def test_no_writer_takes_a_protected_place(judge, kind, unsafe, path):
    assert judge(kind, path, unsafe) == ("protected_path", [])


@pytest.mark.parametrize("kind", READERS)
def test_readers_take_protected_places(judge, kind):
    assert judge(kind, ".git/config") == (".git/config", [])


def test_a_granted_unsafe_lifts_only_the_confinement_of_its_own_types(judge, project):
    secret = str(project.parent / "outside" / "secret")
    for kind in (UnsafePath, UnsafeWritePath):
        assert judge(kind, secret, True) == (secret, [f"path {secret}"])
        assert judge(kind, "../outside/secret", True) == (secret, [f"path {secret}"])
        assert judge(kind, "a\0b", True) == ("path_denied", [])
        assert judge(kind, "n" * 300, True) == ("path_denied", [])
        assert judge(kind, "file", True) == ("file", [])
    for kind in (ProjectPath, WritePath, EntryPath, WriteEntry):
        assert judge(kind, secret, True) == ("path_denied", [])
    outside_git = str(project.parent / "outside" / ".git" / "config")
    assert judge(UnsafeWritePath, outside_git, True) == ("protected_path", [])
    assert judge(UnsafeWritePath, "out", True)[1] != []


@each_row("kind", READERS + WRITERS)
def test_a_client_sees_a_plain_string(kind):
    assert TypeAdapter(kind).json_schema() == {"type": "string"}
