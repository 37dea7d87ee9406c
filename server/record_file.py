"""The SQLite file of the records: its table, and what is asked of it. Everything here blocks."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from toolbox_mcp.server.liveness import Server

BUSY = 5.0
"""Seconds that one server waits for another which writes to the same file."""

_PAUSE = 0.01
"""Seconds between two tries while another server writes."""

_UNKNOWN_DAYS = 1
"""Days after which a row is taken for interrupted when its server cannot be asked: no call runs that long."""

_VERSION = 1


T = TypeVar("T")


class RecordError(Exception):
    """A record cannot be written or read."""


@dataclass(frozen=True)
class CallRecord:
    """One row. Times are ISO 8601 in UTC; input is JSON with secrets masked; output_bytes counts the whole output."""

    call_id: str
    execution_id: str | None
    tenant_id: str | None
    agent: str | None
    client: str | None
    session: str | None
    principal: str | None
    tool: str
    iteration: int
    status: str
    code: str | None
    input: str
    output: str | None
    output_bytes: int | None
    tokens: int | None
    error_message: str | None
    unsafe: bool
    approved_by: str | None
    started_at: str
    completed_at: str | None
    duration_ms: float | None


_COLUMNS = ", ".join(CallRecord.__dataclass_fields__)

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    call_id TEXT NOT NULL UNIQUE,
    execution_id TEXT, tenant_id TEXT, agent TEXT, client TEXT, session TEXT, principal TEXT,
    tool TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    status TEXT NOT NULL,
    code TEXT,
    input TEXT NOT NULL,
    output TEXT, output_bytes INTEGER, tokens INTEGER, error_message TEXT,
    unsafe INTEGER NOT NULL,
    approved_by TEXT,
    started_at TEXT NOT NULL, completed_at TEXT, duration_ms REAL
);
CREATE INDEX IF NOT EXISTS running ON calls (server) WHERE status = 'running';
PRAGMA user_version = {_VERSION};
COMMIT;
"""


class Patience:
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

    def of(self, work: Callable[[], T]) -> T:
        """Do one thing, as often as it finds the file locked."""
        while True:
            try:
                return work()
            except sqlite3.OperationalError as e:
                busy = e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() >= min(self._until, self.end):
                    raise
            time.sleep(_PAUSE)


class RecordFile:
    """An open file of records. One thread at a time may use it."""

    def __init__(self, db: sqlite3.Connection, patience: Patience) -> None:
        """Use a connection that writable or readable has opened."""
        self._db = db
        self._patience = patience

    @classmethod
    def writable(cls, path: Path, patience: Patience | None = None) -> Self:
        """Open a file for writing; it and its folders are made for the user alone. Raises RecordError."""
        try:
            for folder in reversed([folder for folder in path.parents if not folder.exists()]):
                folder.mkdir(mode=0o700, exist_ok=True)
            # SQLite gives its side files the mode of the main one, so this is enough for all three.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            with suppress(OSError):
                os.chmod(path, 0o600)
            os.close(descriptor)
        except OSError as e:
            raise RecordError(f"the file of the records cannot be made ({e.strerror})") from e
        patience = patience or Patience()
        # No write syncs by itself: checkpoint does, when its caller has the time.
        settings = ("journal_mode = WAL", "synchronous = NORMAL", "wal_autocheckpoint = 0")
        return cls(_connect(path, patience, 0, *(f"PRAGMA {setting}" for setting in settings)), patience)

    @classmethod
    def readable(cls, path: Path) -> Self:
        """Open an existing file for reading; it is not changed. Raises RecordError."""
        patience = Patience()
        return cls(_connect(path, patience, BUSY, "PRAGMA query_only = ON"), patience)

    def insert(self, row: Mapping[str, Any], server: Server, *, patient: bool = True) -> None:
        """Add a row. patient: wait while another server writes; else that is an error like others."""
        names = ("server", *row)
        marks = ", ".join("?" * len(names))
        statement = f"INSERT INTO calls ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
        (self._execute if patient else self._db.execute)(statement, (str(server), *row.values()))

    def update(self, call_id: str, row: Mapping[str, Any]) -> bool:
        """Complete a row; False when there is none."""
        pairs = ", ".join(f"{name} = ?" for name in row)
        done = self._execute(f"UPDATE calls SET {pairs} WHERE call_id = ?", (*row.values(), call_id))  # noqa: S608
        return done.rowcount > 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Do all that is done meanwhile, or nothing of it where that raises."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def newest(
        self, n: int, tool: str | None, status: str | None, session: str | None, after: str | None
    ) -> list[CallRecord]:
        """Return up to n rows that match what is not None, newest first."""
        wanted = [("tool = ?", tool), ("status = ?", status), ("session = ?", session), ("call_id > ?", after)]
        given = [(test, value) for test, value in wanted if value is not None]
        where = f"WHERE {' AND '.join(test for test, _ in given)}" if given else ""
        rows = self._execute(
            f"SELECT {_COLUMNS} FROM calls {where} ORDER BY number DESC LIMIT ?",  # noqa: S608
            (*(value for _, value in given), n),
        )
        return [_record(row) for row in rows]

    def get(self, call_id: str) -> CallRecord | None:
        """Return the row of a call."""
        row = self._execute(f"SELECT {_COLUMNS} FROM calls WHERE call_id = ?", (call_id,)).fetchone()  # noqa: S608
        return _record(row) if row else None

    def interrupt(self, server: Server) -> None:
        """Mark what a server has left running as interrupted."""
        self._interrupt(server, datetime.now(UTC) + timedelta(days=1))

    def interrupt_dead(self, me: Server) -> None:
        """Mark what servers that no longer live have left running as interrupted."""
        for (text,) in self._execute("SELECT DISTINCT server FROM calls WHERE status = 'running'").fetchall():
            server = Server.parse(text)
            lives = server.lives(me)
            if lives is not True:
                started_before = datetime.now(UTC) + timedelta(days=1 if lives is False else -_UNKNOWN_DAYS)
                self._interrupt(text, started_before)

    def _interrupt(self, server: Server | str, started_before: datetime) -> None:
        self._execute(
            "UPDATE calls SET status = 'interrupted', error_message = 'the server ended before the call did' "
            "WHERE status = 'running' AND server = ? AND started_at < ?",
            (str(server), timestamp(started_before)),
        )

    def rotate(self, max_rows: int, max_days: float) -> None:
        """Delete what is beyond the newest max_rows rows or older than max_days; running calls stay."""
        self._execute(
            "DELETE FROM calls WHERE number <= (SELECT max(number) FROM calls) - ? AND status <> 'running'", (max_rows,)
        )
        oldest = self._execute("SELECT started_at FROM calls ORDER BY number LIMIT 1").fetchone()
        cutoff = timestamp(datetime.now(UTC) - timedelta(days=max_days))
        if oldest and oldest[0] < cutoff:
            self._execute("DELETE FROM calls WHERE started_at < ? AND status <> 'running'", (cutoff,))

    def checkpoint(self) -> None:
        """Move what was written from the log to the file, as far as nobody reads it; syncs both to the disk."""
        self._execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._patience.of(lambda: self._db.execute(statement, values))


def timestamp(moment: datetime) -> str:
    """Write a time so that texts sort as the times do."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _connect(path: Path, patience: Patience, busy: float, *settings: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        db = sqlite3.connect(uri, uri=True, timeout=busy, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as e:
        raise RecordError(f"the records cannot be opened ({e})") from e
    try:
        for setting in settings:
            patience.of(partial(db.execute, setting))
        (version,) = patience.of(lambda: db.execute("PRAGMA user_version")).fetchone()
        if version == 0 and "PRAGMA query_only = ON" not in settings:
            patience.of(lambda: db.executescript(_SCHEMA))
        elif version != _VERSION:
            raise RecordError(f"the records are of version {version}, and this server knows {_VERSION}")
    except (sqlite3.Error, RecordError) as e:
        db.close()
        if isinstance(e, RecordError):
            raise
        raise RecordError(f"the records cannot be opened ({e})") from e
    return db


def _record(row: tuple[Any, ...]) -> CallRecord:
    record: dict[str, Any] = dict(zip(CallRecord.__dataclass_fields__, row, strict=True))
    record["unsafe"] = bool(record["unsafe"])
    return CallRecord(**record)
