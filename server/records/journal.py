"""Calls that have begun and whose rows are not in the file of the records: lines in a file of each server.

A line is appended in a microsecond, where a row of SQLite takes thirty. Nothing syncs it: what it has to outlive is the
server, not the machine.
"""

import errno
import json
import logging
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic_core import to_json

from .rows import Row, Status, filed
from .server_id import Server

log = logging.getLogger(__name__)

FULL = 1 << 18
"""Bytes above which a file takes no further line until all in it are settled: some 700 calls of usual size."""

_UNKNOWN_AGE = 24 * 3600
"""Seconds without a line after which a server that cannot be asked is taken for dead: no call runs that long."""

_OPTIONAL = (str, type(None))
_KINDS = {
    "call_id": (str,),
    "execution_id": _OPTIONAL,
    "tenant_id": _OPTIONAL,
    "agent": _OPTIONAL,
    "client": _OPTIONAL,
    "session": _OPTIONAL,
    "principal": _OPTIONAL,
    "tool": (str,),
    "iteration": (int,),
    "status": (str,),
    "input": (dict,),
    "unsafe": (bool,),
    "approved_by": _OPTIONAL,
    "started_at": (str,),
}
"""What a line holds: a call that has begun, and the types of that in JSON."""

_SETTLED = b"settled"
"""A line behind lines that do not count."""

_SAFELY = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_LOOK = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFELY
_MAKE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _SAFELY


class Begun:
    """The lines of one server. One thread adds them while another settles them.

    Where the file is deleted or replaced, lines go to one that is made anew, as long as nothing else has its name.
    """

    def __init__(self, records: Path, server: Server) -> None:
        """Stand for the file of a server; it is made when there is a line for it."""
        self._folder = _folder(records)
        self._path = str(self._folder / str(server).replace("/", "~"))
        self._turn = threading.Lock()
        self._fd: int | None = None
        self._file: tuple[int, int] | None = None
        self._size = 0
        self._closed = False
        self.held = 0
        """Lines that are not settled."""

    def add(self, row: Row) -> bool:
        """Keep a row; False where it cannot be kept here. Waits for nothing but the kernel's copy of it."""
        try:
            # The line end comes first, so that what is left of a line on a full disk does not spoil the next one.
            line = b"\n" + to_json(row)
            with self._turn:
                if self._closed or self._size + len(line) > FULL:
                    return False
                if self._fd is None or not os.fstat(self._fd).st_nlink:
                    self._fd = self._opened()
                written = os.write(self._fd, line)
                self._size += written
                if written != len(line):
                    return False
                self.held += 1
        except (OSError, ValueError) as e:
            log.debug("a call that has begun cannot be noted (%s)", e)
            return False
        return True

    @property
    def is_found(self) -> bool:
        """Tell whether whoever looks for lines finds what is added now: the file was not moved away."""
        with self._turn:
            return self._fd is None or _identity(self._path) == self._file

    def settle(self, count: int) -> None:
        """Note that rows of lines are in the file of the records. When that is so of all, none of them counts any more."""
        with self._turn:
            self.held -= count
            if self._fd is None:
                return
            if _identity(self._path) != self._file:
                # It was moved away: whoever looks for lines does not find it.
                self._let_go()
            elif not self.held:
                with suppress(OSError):
                    self._clear(self._fd)

    def close(self) -> None:
        """Take no more lines. Those that are not settled stay for the next server."""
        with self._turn:
            self._closed = True
            if self._fd is None:
                return
            if not self.held and _identity(self._path) == self._file:
                with suppress(OSError):
                    os.unlink(self._path)
            self._let_go()

    def _clear(self, fd: int) -> None:
        # To cut a file takes a hundred times as long as to add to it.
        if self._size < FULL // 2:
            self._size += os.write(fd, b"\n" + _SETTLED)
        else:
            os.ftruncate(fd, 0)
            self._size = 0

    def _opened(self) -> int:
        self._let_go()
        with suppress(FileExistsError):
            self._folder.mkdir(mode=0o700)
        if not stat.S_ISDIR(os.lstat(self._folder).st_mode):
            raise OSError(errno.ENOTDIR, "it is not a folder")
        fd = os.open(self._path, _MAKE, 0o600)
        self._file = _identity(self._path)
        self._size = 0
        return fd

    def _let_go(self) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.close(self._fd)
            self._fd = None


@dataclass(frozen=True)
class Left:
    """The lines that a server has left: its file, its name, and the rows that can be read."""

    path: Path
    server: str
    rows: list[Row]

    def remove(self) -> None:
        """Remove the file, once its rows are in the file of the records."""
        with suppress(OSError):
            os.unlink(self.path)


def left(records: Path, me: Server) -> Iterator[Left]:
    """Yield what servers that no longer live have left. Two that look at the same time find the same."""
    for path in _files(records):
        server = path.name.replace("~", "/")
        lives = Server.parse(server).lives(me)
        if lives is not True:
            rows = _read(path, None if lives is False else time.time() - _UNKNOWN_AGE)
            if rows is not None:
                yield Left(path, server, rows)


def noted(records: Path) -> list[Row]:
    """Return the rows in the lines of all servers; most of them are in the file of the records by now."""
    return [row for path in _files(records) for row in _read(path) or ()]


def _files(records: Path) -> list[Path]:
    folder = _folder(records)
    try:
        return [folder / name for name in os.listdir(folder)] if stat.S_ISDIR(os.lstat(folder).st_mode) else []
    except OSError:
        return []


def _read(path: Path, before: float | None = None) -> list[Row] | None:
    """Return the rows of a file that was last written before a moment; None for another one, and for what is no file."""
    try:
        fd = os.open(path, _LOOK)
        try:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            if before is not None and seen.st_mtime > before:
                return None
            lines = os.read(fd, FULL).split(b"\n")
        finally:
            os.close(fd)
    except OSError as e:
        log.warning("calls that have begun cannot be read from %s (%s)", path.name, e.strerror)
        return None
    if _SETTLED in lines:
        del lines[: len(lines) - lines[::-1].index(_SETTLED)]
    return [row for line in lines if (row := _row(line)) is not None]


def _row(line: bytes) -> Row | None:
    """Return the row of the file of records for what a line holds; None for one that was cut off, or is none of ours."""
    try:
        row: Row = json.loads(line)
        if row.keys() != _KINDS.keys() or not all(type(row[name]) in kinds for name, kinds in _KINDS.items()):
            return None
        if row["status"] != Status.RUNNING or not 0 < row["iteration"] < 1 << 31:
            return None
        return filed(row | {"started_at": datetime.fromisoformat(row["started_at"])})
    except (AttributeError, ValueError, OverflowError, RecursionError):
        return None


def _folder(records: Path) -> Path:
    return Path(f"{records}-begun")


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from every other one, as long as it is open; None where there is none. Follows no link."""
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino
