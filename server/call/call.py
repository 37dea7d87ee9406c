"""What is known of one call while it is on its way, and the row that is kept of it."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import anyio

from ...safety.errors import Code, ToolError
from ...safety.guard import GuardContext
from ...tools.base import Tool
from ...tools.context import CallContext
from ...tools.progress import Progress
from ...tools.results import Answer
from ..records.recorder import Finished, RecordError, Started, Status
from .approvals import Ask, no_prompt

log = logging.getLogger(__name__)

DENIED = frozenset({Code.EXEC_DISABLED, Code.SHELL_DISABLED, Code.UNSAFE_DENIED, Code.APPROVAL_DENIED})


class Recorder(Protocol):
    """Keeps a row for each call. Both raise RecordError where that is not possible."""

    async def start(self, started: Started) -> None:
        """Write the row of a call that is about to run."""
        ...

    async def finish(self, started: Started, finished: Finished, *, is_begun: bool) -> None:
        """Complete the row of a call, or write all of it where it was not begun."""
        ...


@dataclass
class Call:
    """One call on its way: its id, who calls, with what, and how to reach the client.

    timeout: seconds in place of the tool's deadline, 0 for none.
    """

    id: str
    tool: Tool
    arguments: Mapping[str, Any]
    context: CallContext
    progress: Progress
    ask: Ask = no_prompt
    approved: set[str] = field(default_factory=set)
    approved_by: str | None = None
    timeout: float | None = None
    judging: GuardContext | None = None


Provider = Callable[[Call], Any]
"""Makes, or finds, the service of one type for one call."""


class Outcome(NamedTuple):
    """How a call ended: its answer, and the error that it tells of."""

    answer: Answer
    failure: ToolError | None = None


class CallTimeout(ToolError):
    """The deadline of the call has passed; a tool's own time-out is an error like any other."""


class CallRecorder:
    """The record of one call. Of a call that may change something it is begun before that runs."""

    def __init__(self, recorder: Recorder | None, call: Call) -> None:
        self._recorder = recorder
        self._call = call
        self._since = time.monotonic()
        self._started_at = datetime.now(UTC)
        self._begun = False

    async def begin(self) -> None:
        """Write the row before the handler runs. ToolError(refused) where that is not possible."""
        if self._recorder is None:
            return
        self._begun = True
        try:
            await self._recorder.start(self._started())
        except RecordError:
            self._begun = False
            name = self._call.tool.name
            raise ToolError(
                Code.REFUSED, f"{name} cannot be recorded, so it does not run", "the disk may be full"
            ) from None

    async def end(self, outcome: Outcome | None) -> None:
        """Complete the row, before the answer leaves; None for a call that was cancelled. Never raises."""
        if self._recorder is None:
            return
        answer, failure = outcome or _CANCELLED
        status, code = _status(failure), failure.code if failure else None
        finished = Finished(
            status=status,
            code=code,
            output=answer.text,
            error_message=_message(status, code, answer),
            duration_ms=round((time.monotonic() - self._since) * 1000, 3),
            tokens=answer.tokens,
        )
        # The call is over, and its record must not be lost to a client that goes now.
        with anyio.CancelScope(shield=True):
            try:
                await self._recorder.finish(self._started(), finished, is_begun=self._begun)
            except RecordError as e:
                log.warning("the record of a call of %s could not be written (%s)", self._call.tool.name, e)

    def _started(self) -> Started:
        call, context = self._call, self._call.context
        return Started(
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
            started_at=self._started_at,
        )


_CANCELLED = Outcome(Answer([]), ToolError(Code.CANCELLED, "the call was cancelled"))


def _status(failure: ToolError | None) -> Status:
    if failure is None:
        return Status.SUCCESS
    if failure.code in DENIED:
        return Status.DENIED
    if failure is _CANCELLED.failure:
        return Status.CANCELLED
    return Status.TIMED_OUT if isinstance(failure, CallTimeout) else Status.ERROR


def _message(status: Status, code: Code | None, answer: Answer) -> str | None:
    if code is None:
        return None
    if answer.structured is None:
        return str(code)
    error = str(answer.structured["error"])
    return "timed out after " + error.rsplit(" ", 1)[-1] if status is Status.TIMED_OUT else error
