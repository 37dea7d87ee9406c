"""Records: a row for each call, begun before the handler runs and completed after."""

import asyncio
import logging
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from .journal import Begun, left
from .rows import Finished, Row, Started, Status, begun, ended, filed, new_call_id
from .server_id import Server
from .store import INTERRUPTED, CallRecord, Patience, RecordError, RecordFile
from .writing import WRITTEN, Writing

__all__ = ["CallRecord", "Finished", "RecordError", "Records", "Started", "Status", "new_call_id"]

log = logging.getLogger(__name__)

_END_BUSY = 0.3
"""Seconds that the end of the server waits for others which write to the same file."""
_SOON = 0.005
"""Seconds after its end in which a call comes into the file: then its answer has left. A guess."""
_LATER = 0.1
"""Seconds after its beginning in which a call that still runs comes into the file, if not with one that ends: then it is
written twice. A guess at what few take."""
_READ_MAX = 1.0
"""Seconds that who reads waits for rows on their way to the file."""
_FEW = 16
"""Calls for whose rows nothing is waited for any longer: some 0.3 ms of the loop. A guess."""
_LIGHT = 16 * 1024
"""Characters of output that are looked through for secrets in the loop: some 0.4 ms, and 4 where each line names one."""
_TOGETHER = 64
"""Rows that are written in one transaction: some milliseconds, with outputs of usual length."""
_TEND_EVERY = 256
"""Rows at most between two looks for rows that are too many or too old, and between two checkpoints: at some six pages a
call, 1,500 where SQLite's own bound is 1,000."""
_COUNTERS = 10_000
"""Pairs of session and tool whose calls are counted; the pair used longest ago goes first."""

_T = TypeVar("_T")


class _Over(NamedTuple):
    """The end of a call."""

    finished: Finished
    at: datetime


@dataclass
class _Change:
    """What the file has to learn of a call: its row where it has none yet, and its end where it is over."""

    call_id: str
    row: Row | None = None
    over: _Over | None = None


class Records:
    """The records of one server. Several servers may share a file.

    A call that may change something runs once its row is in the file; of any other, and of one that may be answered at
    once while the file takes rows, it is enough that the row is noted beside the file, from where it comes there with
    others, most of them with their ends. Rows are written where the calls are, as long as nothing has to be waited for. All else is done by one thread, in the order of the calls, so
    the event loop waits neither for the disk nor for another server. When the file cannot be opened, each call tries
    again: a full disk or a lost folder may be put right while the server runs.
    """

    def __init__(self, path: Path, max_rows: int, max_days: float, result_max_length: int) -> None:
        """Keep max_rows rows for max_days, with result_max_length characters of output each."""
        self._path = path
        self._max_rows = max_rows
        self._max_days = max_days
        self._result_max_length = result_max_length
        self._server = Server.this()
        self._name = str(self._server)
        self._begun = Begun(path, self._server)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="records")
        self._file: RecordFile | None = None
        self._patience = Patience()
        self._untended = 0
        self._using = threading.Lock()
        self._unwritten: set[str] = set()
        self._iterations: OrderedDict[tuple[str | None, str], int] = OrderedDict()
        self._changing = threading.RLock()
        self._changes: dict[str, _Change] = {}
        self._brought: Future[None] = Future()
        self._late: list[_Change] = []
        self._timer: asyncio.TimerHandle | None = None
        self._reader: RecordFile | None = None
        self._reading = threading.Lock()

    @classmethod
    def open(
        cls, path: Path, *, max_rows: int = 100_000, max_days: float = 30, result_max_length: int = 10_000
    ) -> Self:
        """Open or make the file at path, and mark calls that a dead server left running as interrupted.

        A file that cannot be opened is only logged: calls that need no record still work.
        """
        records = cls(path, max_rows, max_days, result_max_length)
        try:
            records._writer.submit(records._opened, time.monotonic()).result()
        except RecordError as e:
            log.warning("%s; tools that write or execute are refused until it works", e)
        return records

    def start(self, started: Started, *, at_once: bool = False) -> Awaitable[None]:
        """Write the row of a call and return WRITTEN, or begin to. Awaiting it raises RecordError where that cannot be done.

        at_once: the call may be answered at once, also where it changes something. Call it in the thread of a running loop.
        """
        row = begun(started, self._count(started.session, started.tool))
        may_be_noted = not started.gated or (at_once and self._takes_rows)
        if may_be_noted and self._begun.add(row):
            self._change(started.call_id, row=row)
            return WRITTEN
        row = filed(row)
        if self._begun.held:
            # They began before this one, and rows are in the order of their calls.
            self._hand_over_all()
        elif self._inserted_here(row):
            return WRITTEN
        self._unwritten.add(started.call_id)
        try:
            return Writing(self._writer.submit(self._insert, row, time.monotonic()))
        except RuntimeError as e:
            closed: Future[None] = Future()
            closed.set_exception(e)
            return Writing(closed)

    def finish(self, call_id: str, finished: Finished) -> Future[None]:
        """Complete the row of a call soon; close() waits for it. Never raises; what goes wrong is logged.

        Call it in the thread of a running loop. The result is there once that is done, for who wants to wait.
        """
        brought = self._change(call_id, over=_Over(finished, datetime.now(UTC)))
        if len(self._changes) >= _FEW:
            # Then the answer has left.
            asyncio.get_running_loop().call_soon(self._bring_soon)
        return brought

    @property
    def _takes_rows(self) -> bool:
        """Tell whether the file took all that it has been given, and nothing keeps it from taking more."""
        idle = not self._using.locked() and not self._unwritten and not self._late
        return idle and self._file is not None and not self._file.is_lost() and self._begun.is_found

    def _count(self, session: str | None, tool: str) -> int:
        """Return which call of a tool in its session this is."""
        counted = (session, tool)
        iteration = self._iterations[counted] = self._iterations.get(counted, 0) + 1
        self._iterations.move_to_end(counted)
        if len(self._iterations) > _COUNTERS:
            self._iterations.popitem(last=False)
        return iteration

    def _inserted_here(self, row: Row) -> bool:
        """Write a row in the calling thread, where nothing has to be waited for; False where it may have to be.

        A row takes less than what it takes to hand it to a thread and to wait for that, and SQLite only copies it
        into the kernel's cache: what syncs is left to the thread.
        """
        if self._unwritten or not self._using.acquire(blocking=False):
            return False
        try:
            if self._file is None:
                return False
            self._file.insert(row, self._name, patient=False)
            self._untended += 1
        except Exception:  # noqa: BLE001 - another server may be writing; the thread tries again, and tells what it meets
            return False
        finally:
            self._using.release()
        return True

    def _insert(self, row: Row, since: float) -> None:
        with self._using:
            file = self._opened(since)
            file.insert(row, self._name)
            self._unwritten.discard(row["call_id"])
            self._untended += 1
            self._tend(file)

    def _change(self, call_id: str, row: Row | None = None, over: _Over | None = None) -> Future[None]:
        """Let the file learn something of a call soon; the result is there once it did."""
        with self._changing:
            change = self._changes.get(call_id)
            if change is None:
                self._changes[call_id] = _Change(call_id, row, over)
            else:
                change.over = over
            self._bring_within(_LATER if over is None else _SOON)
            return self._brought

    def _bring_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._bring_soon)

    def _taken(self) -> tuple[list[_Change], Future[None]]:
        """Return what the file has to learn, and what waits for that."""
        with self._changing:
            changes, self._changes = [*self._changes.values()], {}
            brought, self._brought = self._brought, Future()
        return changes, brought

    def _bring_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._using.locked():
            # The thread has its turn. What it is given beside its own takes the interpreter from the calls.
            self._bring_within(_SOON)
            return
        if not self._changes:
            return
        changes, brought = self._taken()
        if self._brought_here(changes):
            brought.set_result(None)
        else:
            self._hand_over(changes, brought)

    def _hand_over_all(self) -> None:
        # As one step: who took the end of a call meanwhile would be before its row.
        with self._changing:
            self._hand_over(*self._taken())

    def _hand_over(self, changes: Sequence[_Change], brought: Future[None]) -> None:
        """Let the thread bring changes into the file."""
        try:
            # A few at a time, so that the rows of new calls are not kept waiting behind all of them.
            for at in range(0, len(changes), _TOGETHER):
                self._writer.submit(self._bring, changes[at : at + _TOGETHER], time.monotonic())
            self._writer.submit(brought.set_result, None)
        except RuntimeError:  # closed: the rows are marked as interrupted
            brought.set_result(None)

    def _brought_here(self, changes: Sequence[_Change]) -> bool:
        """Bring changes into the file in the calling thread, as _inserted_here does, and where they are little work."""
        characters = sum(len(each.over.finished.output) for each in changes if each.over)
        # What began before these has to be there first.
        waits = self._unwritten or self._begun.held > sum(1 for each in changes if each.row)
        if characters > _LIGHT or waits or self._is_untended or not self._using.acquire(blocking=False):
            return False
        try:
            if self._file is None:
                return False
            self._write(self._file, changes, patient=False)
        except Exception:  # noqa: BLE001 - another server may be writing; the thread tries again, and tells what it meets
            return False
        finally:
            self._using.release()
        return True

    def _bring(self, changes: Sequence[_Change], since: float) -> None:
        """Bring changes into the file. Rows that it does not take are tried again with the next ones."""
        # One that was not written has nothing to complete.
        known = [each for each in changes if each.row or each.call_id not in self._unwritten]
        wanted, self._late = [*self._late, *known], []
        try:
            if wanted:
                with self._using:
                    file = self._opened(since)
                    # First, so that the write after it, which syncs the log's new head, is one of this thread.
                    self._tend(file)
                    self._write(file, wanted, patient=True)
        except Exception as e:  # noqa: BLE001 - the calls are over; nothing here may change their answers
            self._late = [each for each in wanted if each.row]
            for each in wanted:
                if not each.row:
                    log.warning("the record of call %s could not be completed (%s)", each.call_id, e)
        for each in changes:
            self._unwritten.discard(each.call_id)

    def _write(self, file: RecordFile, changes: Sequence[_Change], *, patient: bool) -> None:
        with file.together(patient=patient):
            for change in changes:
                if change.row:
                    file.add(filed(change.row) | self._end_of(change), self._name)
                elif not file.update(change.call_id, self._end_of(change)):
                    log.debug("call %s has no record to complete", change.call_id)
        added = sum(1 for change in changes if change.row)
        self._untended += added
        self._begun.settle(added)

    def _end_of(self, change: _Change) -> Row:
        over = change.over
        return {} if over is None else ended(over.finished, over.at, self._result_max_length)

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
        return self._read(lambda file: file.newest(n, tool, status, session, after))

    def get(self, call_id: str, *, session: str | None = None) -> CallRecord | None:
        """Return the record of a call, or None; with session also None for a call of another one. As newest."""
        found = self._read(lambda file: file.get(call_id))
        return found if found is None or session in (None, found.session) else None

    def close(self) -> None:
        """Wait for what is being written, mark calls without an end as interrupted, and close the file.

        Of what another server that writes keeps from being written little is waited for; what was noted of it is left
        to the next server, the rest is lost.
        """
        self._patience.end = time.monotonic() + _END_BUSY
        self._hand_over_all()
        with suppress(RuntimeError):  # closed already
            self._writer.submit(self._end).result()
        self._writer.shutdown()
        with self._reading:
            if self._reader:
                self._reader.close()
                self._reader = None

    def _opened(self, since: float) -> RecordFile:
        """Return the file, for something that was asked for at a moment of time.monotonic."""
        self._patience.asked(since)
        if self._file is None:
            file = RecordFile.writable(self._path, self._patience)
            try:
                file.interrupt_dead(self._server)
                self._adopt(file)
                file.rotate(self._max_rows, self._max_days)
            except sqlite3.Error as e:
                file.close()
                raise RecordError(f"the records cannot be opened ({e})") from e
            self._file = file
        return self._file

    def _adopt(self, file: RecordFile) -> None:
        """Take in the calls that servers which no longer live have noted and not brought into the file."""
        for each in left(self._path, self._server):
            with file.together():
                for row in each.rows:
                    file.add(row | INTERRUPTED, each.server)
            each.remove()

    @property
    def _is_untended(self) -> bool:
        return self._untended >= min(_TEND_EVERY, 1 + self._max_rows // 16)

    def _tend(self, file: RecordFile) -> None:
        """Delete old rows and sync the file, now and then."""
        if not self._is_untended:
            return
        self._untended = 0
        try:
            file.rotate(self._max_rows, self._max_days)
            file.checkpoint()
        except sqlite3.Error as e:
            log.warning("old records could not be deleted (%s)", e)

    def _end(self) -> None:
        self._bring([], time.monotonic())
        with self._using:
            if self._file is not None:
                try:
                    self._file.interrupt(self._server)
                except sqlite3.Error as e:
                    log.warning("the records were not completed (%s)", e)
                self._file.close()
                self._file = None
        self._begun.close()

    def _read(self, question: Callable[[RecordFile], _T]) -> _T:
        self._hand_over_all()
        with suppress(RuntimeError, TimeoutError):  # closed, or kept from writing by another server
            self._writer.submit(lambda: None).result(_READ_MAX)
        with self._reading:
            if self._reader is None:
                self._reader = RecordFile.readable(self._path)
            try:
                return question(self._reader)
            except sqlite3.Error as e:
                raise RecordError(f"the records cannot be read ({e})") from e
