"""The SQLite file of the records: opening it, sharing it with other servers, keeping it small. Everything here blocks."""

import errno
import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from .server_id import Server
from .statements import SCHEMA, VERSION, RecordError, Statements

if os.name == "posix":
    import fcntl

log = logging.getLogger(__name__)

BUSY = 5.0
"""Seconds that one server waits for another which writes to the same file."""

_PAUSE = 0.01
"""Seconds between two tries while another server writes."""

T = TypeVar("T")


class BusyRetry:
    """How long to wait for another server that writes: BUSY seconds for each thing, and not beyond the end for any.

    Moments are of time.monotonic. SQLite's own waiting cannot be cut short.
    """

    def __init__(self) -> None:
        """Wait for something that is asked for at this moment."""
        self.end = float("inf")
        self.asked(time.monotonic())

    def asked(self, moment: float) -> None:
        """Wait for something that was asked for at a moment. From then on, not from its turn: else the last of many
        that wait would wait many times as long.
        """
        self._until = moment + BUSY

    @property
    def is_over(self) -> bool:
        """Return True if there is nothing more to wait for."""
        return time.monotonic() >= min(self._until, self.end)

    def of(self, work: Callable[[], T]) -> T:
        """Do one thing, as often as it finds the file locked."""
        while True:
            try:
                return work()
            except (sqlite3.OperationalError, BlockingIOError) as e:
                busy = isinstance(e, BlockingIOError) or e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or self.is_over:
                    raise
            time.sleep(_PAUSE)


class RecordStore(Statements):
    """An open file of records. One thread at a time may use it.

    Where the file at its path is deleted or another one takes its place, rows go to that one, which is made if need be:
    in the file that was opened nobody would find them.
    """

    writes_at_once = True

    def __init__(self, path: Path, patience: BusyRetry, *, writes: bool) -> None:
        """Open the file at path. Raises RecordError."""
        self._path = path
        self._patience = patience
        self._writes = writes
        self._file: tuple[int, int] | None = None
        self._open()

    @classmethod
    def writable(cls, path: Path, patience: BusyRetry | None = None) -> Self:
        """Open a file for writing; it and its folders are made for the user alone. Raises RecordError."""
        return cls(path, patience or BusyRetry(), writes=True)

    @classmethod
    def readable(cls, path: Path) -> Self:
        """Open an existing file for reading; it is not changed. Raises RecordError."""
        return cls(path, BusyRetry(), writes=False)

    def _open(self) -> None:
        if self._writes:
            try:
                _make(self._path, self._patience)
            except OSError as e:
                raise RecordError(f"the file of the records cannot be made ({e.strerror})") from e
        # First: a file that takes its place meanwhile is then noticed.
        file = _identity(self._path)
        # No write syncs by itself: checkpoint does, when its caller has the time.
        writing = ("journal_mode = WAL", "synchronous = NORMAL", "wal_autocheckpoint = 0")
        settings = writing if self._writes else ("query_only = ON",)
        busy = 0 if self._writes else BUSY
        self._db = _connect(self._path, self._patience, busy, *(f"PRAGMA {setting}" for setting in settings))
        self._file = file
        self._sides = {side: _identity(side) for side in _sides(self._path)}

    def _find(self) -> None:
        """Open the file that is at the path, where it is not the one that was opened. Raises RecordError."""
        if not self.was_replaced():
            return
        if not self._writes:
            # Until there is another one, what was opened can still be read.
            with suppress(RecordError):
                before = self._db
                self._open()
                before.close()
            return
        if self._file is not None:
            log.warning("the file of the records was deleted or replaced; further records go to %s", self._path.name)
        self._file = None
        # SQLite sees that the file is not at its path, and leaves what stands beside that alone.
        self._db.close()
        if os.path.lexists(self._path):
            with suppress(OSError):
                self._patience.of(self._remove_sides)
        self._open()

    def was_replaced(self) -> bool:
        """Return True if what was opened is no longer the file at its path."""
        return self._file is None or _identity(self._path) != self._file

    def _remove_sides(self) -> None:
        """Remove the log of the file that was opened, which SQLite would take for that of the one in its place."""
        with _turn(self._path.parent):
            for side, known in self._sides.items():
                if known and _identity(side) == known:
                    os.unlink(side)

    def _ready(self, patient: bool) -> Callable[..., sqlite3.Cursor]:
        """See to it that the file is the one at its path, and return what writes to it."""
        if patient:
            self._find()
            return self._execute
        if self.was_replaced():
            raise RecordError("the file of the records was deleted or replaced")
        return self._db.execute

    def is_alive(self, server: str, me: Server) -> bool | None:
        """Return True if a server still runs, as its machine says; None where that cannot be known."""
        return Server.parse(server).is_alive(me)

    def _is_above(self, max_bytes: int) -> bool:
        pages, free, size = (
            self._execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return bool((pages - free) * size > max_bytes)

    def checkpoint(self) -> None:
        """Move what was written from the log to the file, as far as nobody reads it; syncs both to the disk."""
        self._execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._patience.of(lambda: self._db.execute(statement, values))


def _make(path: Path, patience: BusyRetry) -> None:
    """Make a file for the user alone where there is none, and see that one that is there is the user's alone."""
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)

    def make() -> None:
        with _turn(path.parent):
            if os.path.lexists(path):
                return
            # Other servers may still use what stood beside a file that was deleted; a log is never for a file without it.
            for side in _sides(path):
                with suppress(FileNotFoundError):
                    os.unlink(side)
            # SQLite gives its side files the mode of the main one, so this is enough for all three.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    if not os.path.lexists(path):
        patience.of(make)
    # Not opened to look at it: closing it would drop the locks that this process has on it.
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    with suppress(OSError):
        os.chmod(path, 0o600)


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Be the only server that makes or removes files of a folder. Raises BlockingIOError where another one is."""
    if os.name != "posix":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            log.debug("the file system of %s has no locks for folders", folder.name)
        yield
    finally:
        os.close(descriptor)


def _sides(path: Path) -> tuple[str, str]:
    """Return the paths of SQLite's log of a file, and of its index."""
    return f"{path}-wal", f"{path}-shm"


def _identity(path: str | Path) -> tuple[int, int] | None:
    """Return the identity of a file while it is open; None where there is none."""
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino


def _connect(path: Path, patience: BusyRetry, busy: float, *settings: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        db = sqlite3.connect(uri, uri=True, timeout=busy, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as e:
        raise RecordError(f"the records cannot be opened ({e})") from e
    try:
        for setting in settings:
            patience.of(partial(db.execute, setting))
        (version,) = patience.of(lambda: db.execute("PRAGMA user_version")).fetchone()
        if "PRAGMA query_only = ON" not in settings and version in (0, 1):
            version = patience.of(partial(_upgrade, db))
        if version != VERSION:
            raise RecordError(f"the records are of version {version}, and this server knows {VERSION}")
    except (sqlite3.Error, RecordError) as e:
        db.close()
        if isinstance(e, RecordError):
            raise
        raise RecordError(f"the records cannot be opened ({e})") from e
    return db


def _upgrade(db: sqlite3.Connection) -> int:
    """Make the table, or one of an earlier version into one of this; return the version that the file has then."""
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in SCHEMA.format(number="INTEGER PRIMARY KEY AUTOINCREMENT").split(";"):
                db.execute(statement)
        elif version == 1:
            db.execute("ALTER TABLE calls ADD COLUMN root TEXT")
        if version < VERSION:
            db.execute(f"PRAGMA user_version = {VERSION}")
            version = VERSION
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return int(version)
