"""What is known of one call while it is on its way, and the row that is kept of it."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from ...safety.errors import Code, ToolError
from ...safety.guard import Judging
from ...tools.base import Tool
from ...tools.context import CallContext
from ...tools.progress import Progress
from ...tools.results import Answer
from ..records.recorder import Finished, RecordError, Started, Status
from ..records.writing import WRITTEN
from .approvals import Ask, nobody

log = logging.getLogger(__name__)

DENIED = frozenset({Code.EXEC_DISABLED, Code.SHELL_DISABLED, Code.UNSAFE_DENIED, Code.APPROVAL_DENIED})


class Recorder(Protocol):
    """Keeps a row for each call."""

    def start(self, started: Started, *, at_once: bool) -> Awaitable[None]:
        """Begin to write the row of a call; WRITTEN when it is. Awaiting it raises RecordError where it cannot be.

        at_once: the call may be answered at once, so that its row may be noted beside the file also where it changes something.
        """
        ...

    def finish(self, call_id: str, finished: Finished) -> object:
        """Complete the row soon after this returns. Never raises."""
        ...


@dataclass
class Call:
    """One call on its way: its id, who calls, with what, and how to reach the client."""

    id: str
    tool: Tool
    arguments: Mapping[str, Any]
    context: CallContext
    progress: Progress
    ask: Ask = nobody
    approved: set[str] = field(default_factory=set)
    approved_by: str | None = None
    judging: Judging | None = None


Provider = Callable[[Call], Any]
"""Makes, or finds, the service of one type for one call."""


class Outcome(NamedTuple):
    """How a call ended: its answer, and the error that it tells of."""

    answer: Answer
    failure: ToolError | None = None


class Overdue(ToolError):
    """The deadline of the call has passed; a tool's own time-out is an error like any other."""


class CallRow:
    """The record of one call: begun before the handler runs, completed once."""

    def __init__(self, recorder: Recorder | None, call: Call) -> None:
        self._recorder = recorder
        self._call = call
        self._since = time.monotonic()
        self._written: Awaitable[None] | None = None
        self._kept: bool | None = None

    @property
    def is_begun(self) -> bool:
        """Tell whether the row is there, or there will be none."""
        return self._recorder is None or self._written is WRITTEN

    def begin(self, *, at_once: bool = False) -> None:
        """Begin to write the row, unless that is done. at_once: as for Recorder.start()."""
        if self._recorder is None or self._written is not None:
            return
        call, context = self._call, self._call.context
        row = Started(
            call_id=call.id,
            execution_id=context.id,
            tenant_id=context.tenant_id,
            agent=context.agent,
            client=" ".join(filter(None, context.client)) if context.client else None,
            session=context.session,
            principal=context.principal,
            tool=call.tool.name,
            input=call.arguments,
            unsafe=call.judging is not None and call.judging.unsafe,
            approved_by=call.approved_by,
            started_at=datetime.now(UTC),
            gated=call.tool.gated,
        )
        self._written = self._recorder.start(row, at_once=at_once)

    async def start(self) -> None:
        """Write the row. An exec tool waits for it, and is stopped when that fails; others run meanwhile."""
        self.begin()
        if self._call.tool.gated and not await self.written():
            name = self._call.tool.name
            raise ToolError(Code.REFUSED, f"{name} cannot be recorded, so it does not run", "the disk may be full")

    async def written(self) -> bool:
        """Wait for the row, before which no answer is sent; tell whether it is there. A call that never ran gets it here."""
        self.begin()
        if self._kept is None:
            try:
                if self._written is not None:
                    await self._written
                self._kept = True
            except RecordError:
                log.warning("the record of a call of %s could not be written", self._call.tool.name)
                self._kept = False
        return self._kept

    def end(self, outcome: Outcome | None) -> None:
        """Complete the row soon; None for a call that was cancelled.

        The end of the server may be waiting, so nothing is waited for.
        """
        if self._recorder is None:
            return
        self.begin()
        answer, failure = outcome or _CANCELLED
        status, code = _status(failure), failure.code if failure else None
        self._recorder.finish(
            self._call.id,
            Finished(
                status=status,
                code=code,
                output=answer.text,
                error_message=_message(status, code, answer),
                duration_ms=round((time.monotonic() - self._since) * 1000, 3),
                tokens=answer.tokens,
            ),
        )


_CANCELLED = Outcome(Answer([]), ToolError(Code.CANCELLED, "the call was cancelled"))


def _status(failure: ToolError | None) -> Status:
    if failure is None:
        return Status.SUCCESS
    if failure.code in DENIED:
        return Status.DENIED
    if failure is _CANCELLED.failure:
        return Status.CANCELLED
    return Status.TIMED_OUT if isinstance(failure, Overdue) else Status.ERROR


def _message(status: Status, code: Code | None, answer: Answer) -> str | None:
    if code is None:
        return None
    if answer.structured is None:
        return str(code)
    error = str(answer.structured["error"])
    return "timed out after " + error.rsplit(" ", 1)[-1] if status is Status.TIMED_OUT else error
