"""Names of files and folders on their way: a new one before it gets its place, an old one until it is gone."""

import hashlib
import os
import re
import secrets
from contextlib import suppress
from itertools import islice

_NAMES = re.compile(r"(?:\A|/)\.toolbox-[0-9a-f-]{16,80}\.tmp(?:/|\Z)")
_OWNED = re.compile(r"\.toolbox-([0-9a-f]{8})-([1-9a-f][0-9a-f]{0,5})-([0-9a-f]{1,16})-[0-9a-f]{8}\.tmp")

_MAX_SWEPT = 100_000
"""Entries of a folder among which files of dead servers are looked for; a guess at what a first write may wait for."""
_MAX_FOLDERS = 10_000
"""Folders that are remembered as swept; a guess at what nobody reaches."""


def temporary_name() -> str:
    """Return a name that nothing has, for what is to outlive this server if it dies: the only copy of something."""
    return f".toolbox-{secrets.token_hex(8)}.tmp"


def is_temporary(path: str) -> bool:
    """Return True if a name of a path, with `/`, was made here, by this server or another one."""
    return _NAMES.search(path) is not None


def is_staging(name: str) -> bool:
    """Return True if what has a name goes when its process is dead."""
    return _OWNED.fullmatch(name) is not None


class StagingNames:
    """Names for what is beside its place until that has it, or until it has gone.

    They tell the process, so that what one that was killed has left in a folder goes at the first write of another one
    there: of the same machine, and a file; what has come into a folder meanwhile nobody can tell.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._world, self._started = _world(), _started(self._pid)
        self._swept: set[tuple[int, int]] = set()

    def name(self, dir_fd: int) -> str:
        """Return a name that nothing has, for an open folder."""
        if self._world is None or self._started is None:
            return temporary_name()
        status = os.fstat(dir_fd)
        if (folder := (status.st_dev, status.st_ino)) not in self._swept:
            if len(self._swept) >= _MAX_FOLDERS:
                self._swept.clear()
            self._swept.add(folder)
            self._sweep(dir_fd)
        return f".toolbox-{self._world}-{self._pid:x}-{self._started:x}-{secrets.token_hex(4)}.tmp"

    def _sweep(self, dir_fd: int) -> None:
        with suppress(OSError), os.scandir(dir_fd) as entries:
            for entry in islice(entries, _MAX_SWEPT):
                found = _OWNED.fullmatch(entry.name)
                if found and found[1] == self._world and _is_dead(int(found[2], 16), int(found[3], 16)):
                    # It refuses a folder.
                    with suppress(OSError):
                        os.unlink(entry.name, dir_fd=dir_fd)


def _is_dead(pid: int, started: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    found = _started(pid)
    return found is not None and found != started


def _started(pid: int) -> int | None:
    """Return when a process was started, in the system's ticks, 0 for a zombie; None where that is not told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return 0 if state in (b"Z", b"X") else int(fields[18])


def _world() -> str | None:
    """Return what is the same for processes that see each other under the same numbers; None where that is not told."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            seen = file.read() + str(os.stat("/proc/self/ns/pid").st_ino).encode()
    except OSError:
        return None
    return hashlib.sha256(seen).hexdigest()[:8]
