"""Records: one row for each call to a known tool."""

import logging
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
from anyio import to_thread

from .places import Place, readable, writable
from .rows import Finished, Row, Started, Status, end_row, new_call_id, start_row
from .server_id import Server
from .statements import CallRecord, RecordError, Statements
from .store import BUSY, BusyRetry

__all__ = ["CallRecord", "Finished", "RecordError", "Records", "Started", "Status", "new_call_id"]

log = logging.getLogger(__name__)

WRITE_TIMEOUT = BUSY + 1
"""Seconds that a call waits for its row before it counts as one that cannot be written."""
CLOSE_TIMEOUT = 0.3
"""Seconds that the end of the server waits for others which write to the same file."""
MAINTAIN_EVERY = 256
"""Writes between two looks for rows that are too many or too old, and between two checkpoints: some 1,500 pages of the log, where
SQLite's own bound is 1,000."""
MAX_COUNTERS = 10_000
"""Pairs of session and tool whose calls are counted; the pair used longest ago goes first."""

T = TypeVar("T")
Write = Callable[[Statements, bool], Any]
"""What is done to the file; the second argument says whether it may wait for other servers."""


class Records:
    """The records of one server. Several servers may share a file or a database.

    A write to a file takes some 30 us and syncs nothing, so it is done in the event loop. Where something has to be waited for (another
    server that writes, a file to open, rows to delete) the same write is done in a thread. When the file cannot be opened, each
    call tries again: a full disk or a lost folder may be put right while the server runs.
    """

    def __init__(
        self, place: Place, max_rows: int, max_days: float, result_max_length: int, root: Path | None = None
    ) -> None:
        """Keep max_rows rows for max_days, with result_max_length characters of output each. root: the base, for the rows."""
        self._root = None if root is None else str(root)
        self._place = place
        self._max_rows = max_rows
        self._max_days = max_days
        self._result_max_length = result_max_length
        self._server = Server.this()
        self._file: Statements | None = None
        self._retry = BusyRetry()
        self._lock = threading.Lock()
        self._limiter: anyio.CapacityLimiter | None = None
        self._writes = 0
        self._closed = False
        self._iterations: OrderedDict[tuple[str | None, str], int] = OrderedDict()

    @classmethod
    def open(
        cls,
        place: Place,
        *,
        max_rows: int = 100_000,
        max_days: float = 30,
        result_max_length: int = 10_000,
        root: Path | None = None,
    ) -> Self:
        """Open or make the records at a place, and mark calls that a dead server left running as interrupted.

        Records that cannot be opened are only logged: calls that need no record still work.
        """
        records = cls(place, max_rows, max_days, result_max_length, root)
        try:
            records._opened(time.monotonic())
        except RecordError as e:
            log.warning("%s; tools that write or execute are refused until it works", e)
        return records

    async def start(self, started: Started) -> None:
        """Write the row of a call that is about to run. Raises RecordError, also after WRITE_TIMEOUT."""
        row = self._row(started)
        await self._write(lambda file, patient: file.insert(row, self._server, patient=patient))

    async def finish(self, started: Started, finished: Finished, *, is_begun: bool) -> None:
        """Complete the row of a call, or write all of it where it was not begun. Raises RecordError."""
        end = end_row(finished, datetime.now(UTC), self._result_max_length)
        if is_begun and await self._write(
            lambda file, patient: file.update({"call_id": started.call_id, **end}, patient=patient)
        ):
            return
        row = self._row(started) | end
        await self._write(lambda file, patient: file.insert(row, self._server, patient=patient))

    def newest(
        self,
        n: int = 100,
        tool: str | None = None,
        status: str | None = None,
        *,
        session: str | None = None,
        after: str | None = None,
    ) -> list[CallRecord]:
        """Return up to n records, newest first: those of a tool, with a status, of a session, begun after a call_id.

        Blocks for milliseconds; may be called in any thread. Raises RecordError when the file cannot be read.
        """
        return self._read(lambda file: file.newest(n, after=after, tool=tool, status=status, session=session))

    def get(self, call_id: str, *, session: str | None = None) -> CallRecord | None:
        """Return the record of a call, or None; with session also None for a call of another one. As newest."""
        found = self._read(lambda file: file.get(call_id))
        return found if found is None or session in (None, found.session) else None

    def close(self) -> None:
        """Mark calls without an end as interrupted, and close the file; other servers are waited for CLOSE_TIMEOUT."""
        self._retry.end = time.monotonic() + CLOSE_TIMEOUT
        with self._lock:
            self._closed = True
            if self._file is None:
                return
            try:
                self._file.interrupt(self._server)
            except (sqlite3.Error, RecordError) as e:
                log.warning("the records were not completed (%s)", e)
            self._file.close()
            self._file = None

    async def _write(self, write: Write) -> Any:
        """Do one write, and return what it returns. Raises RecordError where it fails."""
        since = time.monotonic()
        if not self._needs_maintenance and self._lock.acquire(blocking=False):
            try:
                if self._file is not None and self._file.writes_at_once:
                    result = write(self._file, False)
                    self._writes += 1
                    return result
            except (sqlite3.Error, RecordError):
                log.debug("a row has to wait", exc_info=True)
            finally:
                self._lock.release()
        self._limiter = self._limiter or anyio.CapacityLimiter(1)
        with anyio.move_on_after(WRITE_TIMEOUT):
            try:
                return await to_thread.run_sync(
                    self._write_in_thread, write, since, limiter=self._limiter, abandon_on_cancel=True
                )
            except (sqlite3.Error, OSError) as e:
                raise RecordError(f"the record cannot be written ({e})") from e
        raise RecordError("the records are busy")

    def _write_in_thread(self, write: Write, since: float) -> Any:
        with self._lock:
            file = self._opened(since)
            result = write(file, True)
            self._writes += 1
            self._maintain(file)
            return result

    def _opened(self, since: float) -> Statements:
        """Return the file, for something that was asked for at a moment of time.monotonic."""
        if self._closed:
            raise RecordError("the records are closed")
        self._retry.asked(since)
        if self._file is None:
            file = writable(self._place, self._retry)
            try:
                file.claim(self._server)
                file.interrupt_dead(self._server)
                file.rotate(self._max_rows, self._max_days)
            except (sqlite3.Error, RecordError) as e:
                file.close()
                raise RecordError(f"the records cannot be opened ({e})") from e
            self._file = file
        return self._file

    @property
    def _needs_maintenance(self) -> bool:
        return self._writes >= min(MAINTAIN_EVERY, 1 + self._max_rows // 16)

    def _maintain(self, file: Statements) -> None:
        """Delete old rows and sync the file, now and then."""
        if not self._needs_maintenance:
            return
        self._writes = 0
        try:
            file.interrupt_dead(self._server)
            file.rotate(self._max_rows, self._max_days)
            file.checkpoint()
        except (sqlite3.Error, RecordError) as e:
            log.warning("old records could not be deleted (%s)", e)

    def _row(self, started: Started) -> Row:
        """Return the row of a call that begins, counted among those of its tool in its session."""
        counted = (started.session, started.tool)
        iteration = self._iterations[counted] = self._iterations.get(counted, 0) + 1
        self._iterations.move_to_end(counted)
        if len(self._iterations) > MAX_COUNTERS:
            self._iterations.popitem(last=False)
        return start_row(started, iteration) | {"root": self._root}

    def _read(self, question: Callable[[Statements], T]) -> T:
        file = readable(self._place)
        try:
            return question(file)
        except sqlite3.Error as e:
            raise RecordError(f"the records cannot be read ({e})") from e
        finally:
            file.close()
