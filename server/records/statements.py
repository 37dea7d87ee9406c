"""What is asked of the records, in SQL that SQLite and PostgreSQL both take. Everything here blocks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from .rows import Row, Status, timestamp
from .server_id import Server

VERSION = 2
"""Of the table."""
UNKNOWN_DAYS = 1
"""Days after which a row is taken for interrupted when its server cannot be asked: no call runs that long."""


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
    root: str | None


_COLUMNS = ", ".join(CallRecord.__dataclass_fields__)

_INTO = f"INTO calls (server, {_COLUMNS}) VALUES (?{', ?' * len(CallRecord.__dataclass_fields__)})"

SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    number {number},
    server TEXT NOT NULL,
    call_id TEXT NOT NULL UNIQUE,
    execution_id TEXT, tenant_id TEXT, agent TEXT, client TEXT, session TEXT, principal TEXT,
    tool TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    status TEXT NOT NULL,
    code TEXT,
    input TEXT NOT NULL,
    output TEXT, output_bytes BIGINT, tokens INTEGER, error_message TEXT,
    unsafe INTEGER NOT NULL,
    approved_by TEXT,
    started_at TEXT NOT NULL, completed_at TEXT, duration_ms DOUBLE PRECISION,
    root TEXT
);
CREATE INDEX IF NOT EXISTS running ON calls (server) WHERE status = 'running'
"""
"""The table; number is what makes a column count up."""

MAX_BYTES = 512 << 20
"""Bytes of the rows together; a guess, some weeks of heavy use."""

INTERRUPTED: Row = {"status": Status.INTERRUPTED.value, "error_message": "the server ended before the call did"}
"""What the row of a call says whose server ended before it did."""


class Statements(ABC):
    """An open store of records, which one thread at a time may use. Errors are those of its database, or RecordError."""

    writes_at_once = False
    """Whether a write is so quick that it may be done in the event loop."""

    @abstractmethod
    def _execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Return the cursor of a statement, which has ? where its values go."""

    @abstractmethod
    def _ready(self, patient: bool) -> Callable[..., Any]:
        """Return what executes a statement that writes. patient as for insert."""

    @abstractmethod
    def _find(self) -> None:
        """See to it that what is read is what others write to."""

    @abstractmethod
    def _is_above(self, max_bytes: int) -> bool:
        """Return True if rows take more bytes; what was deleted is written again, and does not count."""

    @abstractmethod
    def is_alive(self, server: str, me: Server) -> bool | None:
        """Return True if a server that has left a call running still runs; None where that cannot be known."""

    def claim(self, server: Server) -> None:  # noqa: B027
        """Let other servers see that this one lives, for as long as the store is open."""

    @abstractmethod
    def checkpoint(self) -> None:
        """Do what the database wants done now and then."""

    @abstractmethod
    def close(self) -> None:
        """Close the store."""

    def insert(self, row: Row, server: Server | str, *, patient: bool = True) -> None:
        """Add a row; what it does not say is null. patient: wait while another server writes, and open the file again
        where that is needed; else both are errors like others.
        """
        # A row whose commit was not heard of is written again, and must not be there twice.
        self._ready(patient)(f"INSERT {_INTO} ON CONFLICT (call_id) DO NOTHING", _values(server, row))

    def update(self, row: Row, *, patient: bool = True) -> bool:
        """Complete the row of a call; False when there is none. patient as for insert."""
        changed = {name: value for name, value in row.items() if name != "call_id"}
        pairs = ", ".join(f"{name} = ?" for name in changed)
        values = (*map(_plain, changed.values()), row["call_id"])
        return bool(self._ready(patient)(f"UPDATE calls SET {pairs} WHERE call_id = ?", values).rowcount > 0)  # noqa: S608

    def newest(self, n: int, *, after: str | None = None, **equal: str | None) -> list[CallRecord]:
        """Return up to n rows, newest first. equal: values of columns; None leaves a column out. after: a call_id."""
        self._find()
        unknown = equal.keys() - CallRecord.__dataclass_fields__.keys()
        assert not unknown, unknown
        wanted = [*((f"{column} = ?", value) for column, value in equal.items()), ("call_id > ?", after)]
        given = [(test, value) for test, value in wanted if value is not None]
        where = f"WHERE {' AND '.join(test for test, _ in given)}" if given else ""
        rows = self._execute(
            f"SELECT {_COLUMNS} FROM calls {where} ORDER BY number DESC LIMIT ?",  # noqa: S608
            (*(value for _, value in given), n),
        )
        return [_record(row) for row in rows]

    def get(self, call_id: str) -> CallRecord | None:
        """Return the row of a call."""
        self._find()
        row = self._execute(f"SELECT {_COLUMNS} FROM calls WHERE call_id = ?", (call_id,)).fetchone()  # noqa: S608
        return _record(row) if row else None

    def interrupt(self, server: Server) -> None:
        """Mark what a server has left running as interrupted."""
        self._interrupt(server, datetime.now(UTC) + timedelta(days=1))

    def interrupt_dead(self, me: Server) -> None:
        """Mark what servers that no longer live have left running as interrupted."""
        for (text,) in self._execute("SELECT DISTINCT server FROM calls WHERE status = 'running'").fetchall():
            lives = self.is_alive(text, me)
            if lives is not True:
                started_before = datetime.now(UTC) + timedelta(days=1 if lives is False else -UNKNOWN_DAYS)
                self._interrupt(text, started_before)

    def _interrupt(self, server: Server | str, started_before: datetime) -> None:
        self._execute(
            "UPDATE calls SET status = ?, error_message = ? WHERE status = 'running' AND server = ? AND started_at < ?",
            (*INTERRUPTED.values(), str(server), timestamp(started_before)),
        )

    def rotate(self, max_rows: int, max_days: float, max_bytes: int = MAX_BYTES) -> None:
        """Delete what is beyond the newest max_rows rows, older than max_days or beyond max_bytes; running calls stay."""
        self._execute(
            "DELETE FROM calls WHERE number <= (SELECT max(number) FROM calls) - ? AND status <> 'running'", (max_rows,)
        )
        oldest = self._execute("SELECT started_at FROM calls ORDER BY number LIMIT 1").fetchone()
        cutoff = timestamp(datetime.now(UTC) - timedelta(days=max_days))
        if oldest and oldest[0] < cutoff:
            self._execute("DELETE FROM calls WHERE started_at < ? AND status <> 'running'", (cutoff,))
        deleted = 1
        while deleted and self._is_above(max_bytes):
            # An eighth at a time, as rows differ in size.
            deleted = self._execute(
                "DELETE FROM calls WHERE number IN (SELECT number FROM calls WHERE status <> 'running' "
                "ORDER BY number LIMIT (SELECT count(*) / 8 + 1 FROM calls))"
            ).rowcount


def _values(server: Server | str, row: Row) -> list[Any]:
    values = [str(server), *map(row.get, CallRecord.__dataclass_fields__)]
    return [_plain(value) if type(value) is str and not value.isascii() else value for value in values]


def _plain(value: Any) -> Any:
    """Make a text that a database takes: lone surrogates have no bytes."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _record(row: tuple[Any, ...]) -> CallRecord:
    record: dict[str, Any] = dict(zip(CallRecord.__dataclass_fields__, row, strict=True))
    record["unsafe"] = bool(record["unsafe"])
    return CallRecord(**record)
