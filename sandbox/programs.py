"""Programs of the operator's machine: where each is found, in which folder and environment it runs."""

import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from ..safety.errors import not_installed
from ..safety.path_jail.roots import JailedPath
from .environment import PROJECT_BIN, PROJECT_TOOLS, which
from .linux.zygote_client import Zygote
from .process.capture import Capture
from .process.runner import Finished, Seen, run
from .spec import ENVIRONMENT


@dataclass(frozen=True)
class Programs:
    """Programs of this machine, and the project's own tools.

    cwd: the base, as an absolute path. env: what programs get, with a PATH that holds no folder of a root. zygote: starts them. project_bin: folders,
    relative to a project, in which the project_tools are looked for first.
    """

    cwd: str
    env: Mapping[str, str]
    project_bin: Sequence[str] = PROJECT_BIN
    project_tools: Collection[str] = field(default=PROJECT_TOOLS)
    zygote: Zygote = field(kw_only=True, repr=False)

    def find(self, name: str, folder: str | None = None) -> tuple[str, Mapping[str, str]]:
        """Return the path of a program, and the environment for it; ToolError(unavailable) where it is not installed.

        folder: where it is to run, in or below the base; the base without one. A project tool is found in the nearest
        project at or above it, and finds others there; every other program on the PATH alone.
        """
        if name in self.project_tools:
            bins = list(self._project_folders(folder or self.cwd))
            for each in bins:
                path = os.path.join(each, name)
                if os.path.isfile(path) and os.access(path, os.X_OK):
                    return path, self._with_path(bins)
            if found := which(name, self.env):
                return found, self._with_path(bins)
        elif os.path.isabs(name) or (name and "/" in name):
            return name, self.env
        elif found := which(name, self.env):
            return found, self.env
        raise not_installed(name)

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        work_dir: JailedPath | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        capture: Capture | None = None,
        seen: Seen | None = None,
    ) -> Finished:
        """Run argv to its end, or until timeout seconds have passed; the whole tree dies with the call.

        work_dir: the base without one. env: variables above those of all programs. seen: called with the name of a
        stream and every piece of it, kept or not.
        """
        with entered(work_dir) as cwd:
            path, base = self.find(argv[0], str(work_dir.target().path) if work_dir else None)
            return await run(
                self.zygote,
                [path, *argv[1:]],
                cwd=self.cwd if cwd is None else cwd,
                env={**base, **(env or {})},
                timeout=timeout,
                stdin=stdin,
                capture=capture,
                seen=seen,
            )

    def in_sandbox(self, folder: str | None) -> dict[str, str]:
        """Return the variables by which a sandboxed program finds the project's own programs first, all of them."""
        bins = list(self._project_folders(folder or self.cwd))
        return {"PATH": os.pathsep.join((*bins, ENVIRONMENT["PATH"]))} if bins else {}

    @contextmanager
    def for_shell(self, folder: str | None, env: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Lend an environment in which a shell finds the project's tools first, and nothing else of the project."""
        found: dict[str, str] = {}
        for each in self._project_folders(folder or self.cwd):
            for name in self.project_tools:
                path = os.path.join(each, name)
                if name not in found and os.path.isfile(path) and os.access(path, os.X_OK):
                    found[name] = path
        if not found:
            yield env
            return
        with TemporaryDirectory(prefix="toolbox-bin-") as tools:
            if os.statvfs(tools).f_flag & os.ST_NOEXEC:
                yield env
                return
            for name, path in found.items():
                # A link would hide from Python that it belongs to an environment.
                place = Path(tools, name)
                place.write_text(f'#!/bin/sh\nexec {shlex.quote(path)} "$@"\n')
                place.chmod(0o700)
            yield {**env, "PATH": os.pathsep.join(filter(None, (tools, env.get("PATH"))))}

    def _project_folders(self, folder: str) -> Iterator[str]:
        base = Path(self.cwd)
        here = Path(folder)
        for project in (here, *here.parents) if here.is_relative_to(base) else (here,):
            for name in self.project_bin:
                if os.path.isdir(place := os.path.join(project, name)):
                    yield place
            if project == base:
                return

    def _with_path(self, bins: Sequence[str]) -> Mapping[str, str]:
        return {**self.env, "PATH": os.pathsep.join(filter(None, (*bins, self.env.get("PATH"))))} if bins else self.env


@dataclass(frozen=True)
class Toolchains(Programs):
    """A project's own tools: test runners, linters, package managers. They get the operator's full environment."""


@contextmanager
def entered(work_dir: JailedPath | None) -> Iterator[int | None]:
    """Hold a descriptor of a folder while a program starts in it; None for the base. ToolError(not_a_directory)."""
    descriptor = work_dir.open_folder() if work_dir else None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def outside_roots(env: Mapping[str, str], is_inside: Callable[[str], bool]) -> dict[str, str]:
    """Return env with a PATH of its absolute folders that lie in no root, resolved or not."""
    folders = [each for each in env.get("PATH", "").split(os.pathsep) if os.path.isabs(each)]
    kept = [each for each in folders if not is_inside(each) and not is_inside(os.path.realpath(each))]
    return {**env, "PATH": os.pathsep.join(kept)} if "PATH" in env else dict(env)
