"""Records: a row for each call, written before the handler runs and completed after."""

import asyncio
import json
import logging
import secrets
import sqlite3
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from toolbox_mcp.safety.redaction import OMITTED, redact
from toolbox_mcp.server.liveness import Server
from toolbox_mcp.server.record_file import BUSY, CallRecord, Patience, RecordError, RecordFile, timestamp

__all__ = ["CallRecord", "Finished", "RecordError", "Records", "Started", "Status", "new_call_id"]

log = logging.getLogger(__name__)

INPUT_MAX = 8192
"""Bytes of a call's arguments in its record (TOOLS.md §6.3)."""
MESSAGE_MAX = 2000
"""Characters of an error message in a record, as in an answer."""
_START_MAX = BUSY + 1
"""Seconds that a call waits for its row before it counts as one that cannot be written."""
_END_BUSY = 0.3
"""Seconds that the end of the server waits for others which write to the same file."""
_SOON = 0.005
"""Seconds after which the rows of calls that are over are completed: then their answers have left, for the writing
thread would take the interpreter from them. A guess."""
_TOGETHER = 64
"""Rows that are completed in one transaction: some milliseconds, with outputs of usual length."""
_TEND_EVERY = 256
"""Rows at most between two looks for rows that are too many or too old, and between two checkpoints: at some six pages a
call, 1,500 where SQLite's own bound is 1,000."""
_COUNTERS = 10_000
"""Pairs of session and tool whose calls are counted; the pair used longest ago goes first."""

_T = TypeVar("_T")


class Status(StrEnum):
    """How a call stands, or ended."""

    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    DENIED = "denied"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Started:
    """What is known of a call before it runs. input: its arguments as they came; their secrets are not kept."""

    call_id: str
    execution_id: str | None
    tenant_id: str | None
    agent: str | None
    client: str | None
    session: str | None
    principal: str | None
    tool: str
    input: Mapping[str, Any]
    unsafe: bool
    approved_by: str | None
    started_at: datetime


@dataclass(frozen=True)
class Finished:
    """What is known of a call when it is over. output: its whole text; tokens: None where it was not counted."""

    status: Status
    code: str | None
    output: str
    error_message: str | None
    duration_ms: float
    tokens: int | None = None


class _Over(NamedTuple):
    """A call whose row is to be completed. since: the moment of its end by time.monotonic."""

    call_id: str
    finished: Finished
    at: datetime
    since: float
    completed: Future[None]


class Writing:
    """A row on its way to the file; await it to know that it is there. That takes no turn of the loop when it is."""

    def __init__(self, written: Future[None]) -> None:
        """Stand for what the writing thread does."""
        self._written = written

    def __await__(self) -> Generator[Any, None, None]:
        """Return once the row outlives a crash of the server. Raises RecordError, also after 6 s."""
        if not self._written.done():
            yield from self._wait().__await__()
        try:
            self._written.result()
        except RecordError:
            raise
        except Exception as e:
            raise RecordError(f"the record cannot be written ({e})") from e

    async def _wait(self) -> None:
        waited = asyncio.wrap_future(self._written)
        # The failure is told above, whoever waits; a call that is cancelled leaves its row to be written.
        waited.add_done_callback(lambda future: future.cancelled() or future.exception())
        done, _ = await asyncio.wait([waited], timeout=_START_MAX)
        if not done:
            raise RecordError("the records are busy")


class _Written:
    """A row that is in the file."""

    def __await__(self) -> Generator[Any, None, None]:
        """Return at once."""
        yield from ()


def new_call_id() -> str:
    """Make an id of 26 characters. Ids sort as the times at which they were made, and no two are equal."""
    return _base32(time.time_ns()) + _base32(secrets.randbits(65))


def _base32(number: int) -> str:
    return "".join("0123456789abcdefghjkmnpqrstvwxyz"[number >> 5 * at & 31] for at in reversed(range(13)))


class Records:
    """The records of one server. Several servers may share a file.

    A row is begun where the call is, as long as nothing has to be waited for. All else is done by one thread, in the
    order of the calls, so the event loop waits neither for the disk nor for another server. When the
    file cannot be opened, each call tries again: a full disk or a lost folder may be put right while the server runs.
    """

    def __init__(self, path: Path, max_rows: int, max_days: float, result_max_length: int) -> None:
        """Keep max_rows rows for max_days, with result_max_length characters of output each."""
        self._path = path
        self._max_rows = max_rows
        self._max_days = max_days
        self._result_max_length = result_max_length
        self._server = Server.this()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="records")
        self._file: RecordFile | None = None
        self._patience = Patience()
        self._untended = 0
        self._using = threading.Lock()
        self._unwritten: set[str] = set()
        self._iterations: OrderedDict[tuple[str | None, str], int] = OrderedDict()
        self._over: deque[_Over] = deque()
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

    def start(self, started: Started) -> Awaitable[None]:
        """Write the row of a call, or begin to. Awaiting it raises RecordError where the row cannot be written."""
        if self._inserted_here(started):
            return _Written()
        self._unwritten.add(started.call_id)
        try:
            return Writing(self._writer.submit(self._insert, started, time.monotonic()))
        except RuntimeError as e:
            closed: Future[None] = Future()
            closed.set_exception(e)
            return Writing(closed)

    def finish(self, call_id: str, finished: Finished) -> Future[None]:
        """Complete the row of a call soon; close() waits for it. Never raises; what goes wrong is logged.

        Call it in the thread of a running loop. The result is there once that is done, for who wants to wait.
        """
        completed: Future[None] = Future()
        self._over.append(_Over(call_id, finished, datetime.now(UTC), time.monotonic(), completed))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SOON, self._complete_soon)
        return completed

    def _inserted_here(self, started: Started) -> bool:
        """Write a row in the calling thread, where nothing has to be waited for; False where it may have to be.

        A row takes less than what it takes to hand it to a thread and to wait for that, and SQLite only copies it
        into the kernel's cache: what syncs is left to the thread.
        """
        if self._unwritten or not self._using.acquire(blocking=False):
            return False
        try:
            if self._file is None:
                return False
            self._add(self._file, started, patient=False)
        except Exception:  # noqa: BLE001 - another server may be writing; the thread tries again, and tells what it meets
            return False
        finally:
            self._using.release()
        return True

    def _complete_soon(self) -> None:
        self._timer = None
        try:
            # A few at a time, so that the rows of new calls are not kept waiting behind all of them.
            for _ in range(0, len(self._over), _TOGETHER):
                self._writer.submit(self._complete)
        except RuntimeError:  # closed: the rows are marked as interrupted
            while self._over:
                self._over.popleft().completed.set_result(None)

    def _complete(self) -> None:
        """Complete the rows of up to _TOGETHER calls that are over."""
        over = [self._over.popleft() for _ in range(min(_TOGETHER, len(self._over)))]
        if not over:
            return
        # One that was not written has nothing to complete.
        written = [each for each in over if each.call_id not in self._unwritten]
        try:
            rows = [(each.call_id, self._ended(each)) for each in written]
            if rows:
                with self._using:
                    self._update(self._opened(over[0].since), rows)
        except Exception as e:  # noqa: BLE001 - the calls are over; nothing here may change their answers
            for each in written:
                log.warning("the record of call %s could not be completed (%s)", each.call_id, e)
        for each in over:
            self._unwritten.discard(each.call_id)
            each.completed.set_result(None)

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

        Of what another server that writes keeps from being written little is waited for; it is lost.
        """
        self._patience.end = time.monotonic() + _END_BUSY
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
                file.rotate(self._max_rows, self._max_days)
            except sqlite3.Error as e:
                file.close()
                raise RecordError(f"the records cannot be opened ({e})") from e
            self._file = file
        return self._file

    def _insert(self, started: Started, since: float) -> None:
        with self._using:
            file = self._opened(since)
            self._add(file, started, patient=True)
            self._unwritten.discard(started.call_id)
            self._tend(file)

    def _add(self, file: RecordFile, started: Started, *, patient: bool) -> None:
        counted = (started.session, started.tool)
        iteration = self._iterations.get(counted, 0) + 1
        row = {
            "call_id": started.call_id,
            "execution_id": started.execution_id,
            "tenant_id": started.tenant_id,
            "agent": started.agent,
            "client": started.client,
            "session": started.session,
            "principal": started.principal,
            "tool": started.tool,
            "iteration": iteration,
            "status": Status.RUNNING.value,
            "input": _as_json(started.input),
            "unsafe": started.unsafe,
            "approved_by": started.approved_by,
            "started_at": timestamp(started.started_at),
        }
        file.insert({name: _plain(value) for name, value in row.items()}, self._server, patient=patient)
        self._iterations[counted] = iteration
        self._iterations.move_to_end(counted)
        if len(self._iterations) > _COUNTERS:
            self._iterations.popitem(last=False)
        self._untended += 1

    def _tend(self, file: RecordFile) -> None:
        """Delete old rows and sync the file, now and then."""
        if self._untended < min(_TEND_EVERY, 1 + self._max_rows // 16):
            return
        self._untended = 0
        try:
            file.rotate(self._max_rows, self._max_days)
            file.checkpoint()
        except sqlite3.Error as e:
            log.warning("old records could not be deleted (%s)", e)

    def _ended(self, over: "_Over") -> dict[str, Any]:
        """Return what a row says of the end of a call."""
        finished = over.finished
        message = finished.error_message
        row = {
            "status": finished.status.value,
            "code": None if finished.code is None else str(finished.code),
            "output": self._cut(finished.output),
            "output_bytes": len(finished.output.encode(errors="replace")),
            "tokens": finished.tokens,
            "error_message": None if message is None else redact(message[:MESSAGE_MAX]),
            "completed_at": timestamp(over.at),
            "duration_ms": finished.duration_ms,
        }
        return {name: _plain(value) for name, value in row.items()}

    def _update(self, file: RecordFile, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        # First, so that the write after it, which syncs the log's new head, is one of this thread.
        self._tend(file)
        with file.together():
            for call_id, row in rows:
                if not file.update(call_id, row):
                    log.debug("call %s has no record to complete", call_id)

    def _cut(self, output: str) -> str:
        most = self._result_max_length
        # A little more is looked through, so that a secret on the edge is seen whole.
        text: str = redact(output[: most + 1000])
        return text[:most] + "... (truncated)" if len(output) > most else text

    def _end(self) -> None:
        while self._over:
            self._complete()
        with self._using:
            if self._file is None:
                return
            try:
                self._file.interrupt(self._server)
            except sqlite3.Error as e:
                log.warning("the records were not completed (%s)", e)
            self._file.close()
            self._file = None

    def _read(self, question: Callable[[RecordFile], _T]) -> _T:
        with self._reading:
            if self._reader is None:
                self._reader = RecordFile.readable(self._path)
            try:
                return question(self._reader)
            except sqlite3.Error as e:
                raise RecordError(f"the records cannot be read ({e})") from e


def _plain(value: Any) -> Any:
    """Make a text that SQLite takes: lone surrogates have no bytes."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _as_json(arguments: Mapping[str, Any]) -> str:
    """Write arguments as JSON of at most INPUT_MAX bytes, without secrets; long texts and lists are shortened."""
    value = redact(arguments, most=INPUT_MAX)
    text = _dumped(value)
    for longest in (4096, 1024, 256, 64, 16):
        if len(text.encode(errors="replace")) <= INPUT_MAX:
            return text
        text = _dumped(_shortened(value, longest))
    return text if len(text.encode(errors="replace")) <= INPUT_MAX else json.dumps({OMITTED: "all arguments"})


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}... ({len(value)} characters)"
    if isinstance(value, dict):
        kept = list(value.items())[:longest]
        rest = {OMITTED: len(value) - longest} if len(value) > longest else {}
        return {_shortened(name, longest): _shortened(inner, longest) for name, inner in kept} | rest
    if isinstance(value, list):
        return [_shortened(inner, longest) for inner in value[:longest]] + [OMITTED] * (len(value) > longest)
    return value
