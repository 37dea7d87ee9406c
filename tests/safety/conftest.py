import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.openat2 import openat2
from toolbox_mcp.safety.path_jail.roots import Engine, JailedPath, Roots

ENGINES = [Engine.OPENAT2, Engine.WALK] if openat2() else [Engine.WALK]

NOBODY = 65534


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return an empty folder with its links resolved."""
    root = tmp_path / "project"
    root.mkdir()
    return root.resolve()


@pytest.fixture(params=ENGINES, ids=lambda engine: str(engine.value))
def engine(request: pytest.FixtureRequest) -> Engine:
    """Run the test once with each way to open beneath a folder."""
    return Engine(request.param)


@pytest.fixture
def jail(project: Path, engine: Engine) -> Iterator[Callable[..., Roots]]:
    """Make roots over the project, or over the folders given, that are closed in the end."""
    made: list[Roots] = []

    def make(*folders: Path, **options: Any) -> Roots:
        made.append(Roots(folders or [project], engine=engine, **options))
        return made[-1]

    yield make
    for roots in made:
        roots.close()


@pytest.fixture
def roots(jail: Callable[..., Roots]) -> Roots:
    """Return roots over the project alone."""
    return jail()


@pytest.fixture
def bottomless(project: Path) -> Iterator[Path]:
    """Return the project with folders in folders, deeper than any path can say."""
    fd = os.open(project, os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("deep", dir_fd=fd)
        below = os.open("deep", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    yield project
    # pytest's own clean-up is recursive.
    subprocess.run(["rm", "-rf", project / "deep"], check=True)


@pytest.fixture
def outcome() -> Callable[..., Any]:
    """Return what an act gives, or the code with which it is refused."""
    return _outcome


@pytest.fixture
def content() -> Callable[[JailedPath], str]:
    """Read a file the way every tool does."""

    def read(place: JailedPath) -> str:
        with open(place.open_file(), encoding="utf-8") as file:
            return file.read()

    return read


@pytest.fixture
def as_nobody() -> Callable[[Callable[[], object]], Any]:
    """Run an act in a child without root's powers, and return what it gives or the code of its refusal."""

    def run(act: Callable[[], object]) -> Any:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                if os.geteuid() == 0:
                    os.setgroups([])
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                answer = json.dumps(_outcome(act))
                os.write(write, answer.encode())
            finally:
                # Whatever happens, the child must not go on as a second test run.
                os._exit(0)
        os.close(write)
        with open(read, encoding="utf-8") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        return json.loads(answer)

    return run


@pytest.fixture
def with_mounts() -> Callable[..., str]:
    """Run a Python script where a shell line has changed the mounts for nobody else, and return its output."""
    ways = [["unshare", "--user", "--map-root-user", "--mount"], ["unshare", "--mount"]]
    way = next(
        (way for way in ways if shutil.which("unshare") and _works([*way, "mount", "-t", "tmpfs", "x", "/mnt"])), None
    )
    if way is None:
        pytest.skip("no private mount namespaces here")

    def run(mounts: str, script: str, *arguments: object) -> str:
        command = [*way, "sh", "-c", f'{mounts}\nexec "$0" "$@"', sys.executable, "-c", script, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def _works(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _outcome(act: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return act(*arguments, **options)
    except ToolError as e:
        return e.code.value
