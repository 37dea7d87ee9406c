"""One call, told in order: gate, bind, run, fit, record."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
from anyio import to_thread
from mcp_types import ContentBlock, InputRequiredResult, TextContent

from ...safety.errors import Code, ToolError
from ...safety.guard import GuardContext
from ...safety.policy import Policy
from ...tools.base import Tool
from ...tools.context import CallContext
from ...tools.outputs import Outputs
from ...tools.progress import Progress, Report
from ...tools.results import Answer
from ...tools.results import Result as ToolResult
from ...tools.settings import ToolSettings
from ...tools.undo.journal import Journal
from ..budget.budget import Budget
from ..records.recorder import new_call_id
from .approvals import Ask, NeedsInput, digest, no_prompt, question
from .arguments import ASKED, Binder
from .call import Call, CallRecorder, CallTimeout, Outcome, Provider, Recorder
from .exposure import Exposure

log = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that a deadline lies above max_tool_timeout, so that an inner time-out at the cap is still a result."""
HEARTBEAT = 1.0
"""Seconds between progress notifications, whatever the tool itself reports."""
ERROR_MAX = 2000
"""Characters of an error text."""


Result = dict[str, Any]
"""A CallToolResult in the form that goes on the wire."""


@dataclass(frozen=True)
class Rules:
    """What the operator decided about calls; times in seconds, 0 in tool_timeouts for none."""

    allow_unsafe: bool | str = False
    approvals: Mapping[str, str] = field(default_factory=dict)
    tool_timeouts: Mapping[str, float] = field(default_factory=dict)
    default_tool_timeout: float | None = None
    max_tool_timeout: float = 600.0
    max_in_flight: int = 64
    structured_output: bool = False


UnsafeLogger = Callable[[str, str], object]


class Pipeline:
    """Everything that a call needs; no call reaches for anything else."""

    def __init__(
        self,
        exposure: Exposure,
        policy: Policy,
        settings: ToolSettings,
        rules: Rules,
        budget: Budget,
        providers: Mapping[type, Provider],
        recorder: Recorder | None = None,
        unsafe_logger: UnsafeLogger | None = None,
    ) -> None:
        self.exposure = exposure
        self._policy = policy
        self._settings = settings
        self._rules = rules
        self._budget = budget
        self._keeps = "process_output" in exposure.tools and "process_output" not in exposure.closed
        self._providers = providers
        self._recorder = recorder
        self._unsafe_logger = unsafe_logger
        self._binders: dict[str, Binder] = {}
        self._slots = anyio.Semaphore(rules.max_in_flight, fast_acquire=True)
        self._shares: dict[str, anyio.Semaphore] = {}

    @property
    def structured(self) -> bool:
        """Return True where records are sent as structured content, too."""
        return self._rules.structured_output

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the allowed folders, the base first."""
        return self._policy.roots.folders

    def may_ask(self, name: str) -> bool:
        """Return True if a call of a tool may put a question to the person at the client."""
        return self._rules.allow_unsafe == "ask" or self._rules.approvals.get(name, "never") != "never"

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        context: CallContext,
        *,
        report: Report | None = None,
        ask: Ask = no_prompt,
        approved: set[str] | None = None,
        timeout: float | None = None,
    ) -> Result | InputRequiredResult:
        """Answer one call of a tool that exists, with a CallToolResult in the form that goes on the wire.

        Every failure becomes {error, code, hint}; only cancellation passes.

        timeout: seconds in place of the tool's deadline, 0 for none. approved holds the tools that the session approved
        before, and gains those it approves.
        """
        tool = self.exposure.tools[name]
        call = Call(
            new_call_id(),
            tool,
            arguments,
            context,
            Progress(report),
            ask,
            set() if approved is None else approved,
            timeout=timeout,
        )
        row = CallRecorder(self._recorder, call)
        try:
            async with self._share(context.principal), self._slots:
                try:
                    outcome = Outcome(await self._answer(call, row))
                except ToolError as e:
                    outcome = Outcome(_refusal(e), e)
                except NeedsInput as needed:
                    return needed.result
                finally:
                    call.progress.close()
                await row.end(outcome)
        except asyncio.CancelledError:
            await row.end(None)
            raise
        return _on_wire(call, self._rules.structured_output, outcome)

    async def _answer(self, call: Call, row: CallRecorder) -> Answer:
        """Gate, bind, ask, record that it begins, run, fit: the steps of a call in their order."""
        await self._gate(call)
        given = self._bind(call)
        await self._approve(call)
        if call.tool.changes:
            await row.begin()
        services = self._services(call)
        with _unforeseen(call.tool):
            work = call.tool.run(**services, **given)
            result = await self._within(self._deadline(call, given), call, work)
            answer = _bounded(call.tool, await self._fit(call, result))
        journal = next((service for service in services.values() if isinstance(service, Journal)), None)
        is_marked = journal and journal.entry.undoable and not answer.verbatim
        return _with_undo(answer, journal.entry.id) if journal and is_marked else answer

    def _share(self, principal: str | None) -> AbstractAsyncContextManager[object]:
        """Return what a principal waits for before its calls wait with those of others: one has at most three quarters."""
        if principal is None:
            return nullcontext()
        if principal not in self._shares:
            total = self._rules.max_in_flight
            self._shares[principal] = anyio.Semaphore(max(1, total - max(1, total // 4)), fast_acquire=True)
        return self._shares[principal]

    def _check_open(self, tool: Tool) -> None:
        closed = self.exposure.closed.get(tool.name)
        if closed:
            # A re-raised exception keeps its old frames, and so the arguments of other calls; make a new one.
            raise ToolError(closed.code, closed.error, closed.hint)

    async def _gate(self, call: Call) -> None:
        self._check_open(call.tool)
        granted = self._rules.allow_unsafe is True
        if self._rules.allow_unsafe == "ask" and _asks_unsafe(call):
            shown = question(call.tool.name, call.arguments, "Let the agent bypass the guard of")
            granted = bool(await call.ask("unsafe", shown, await digest(call.tool.name, call.arguments)))
            call.approved_by = "person" if granted else None
        call.judging = self._judging(call, granted)

    def _judging(self, call: Call, granted: bool) -> GuardContext:
        """Return the context of the guards of a call. granted: whether `unsafe` is, where it asks for that."""
        if not _asks_unsafe(call):
            return GuardContext(self._policy)
        if not granted:
            raise ToolError(
                Code.UNSAFE_DENIED,
                "unsafe: true is not granted",
                "call again without unsafe; only the operator grants it",
            )
        return GuardContext(self._policy, unsafe=True)

    def _bind(self, call: Call) -> dict[str, Any]:
        assert call.judging is not None
        binder = self._binders.get(call.tool.name)
        if binder is None:
            binder = self._binders[call.tool.name] = Binder(call.tool)
        given = binder.bind(call.arguments, call.judging)
        for detail in call.judging.overrides:
            self._log_override(call.tool.name, detail)
        return given

    def _log_override(self, name: str, detail: str) -> None:
        if self._unsafe_logger is None:
            return
        try:
            self._unsafe_logger(name, detail)
        except Exception:
            log.exception("the unsafe logger failed")

    async def _approve(self, call: Call) -> None:
        name = call.tool.name
        rule = self._rules.approvals.get(name, "never")
        if rule == "never" or (rule == "once" and name in call.approved):
            return
        shown = question(name, call.arguments, "Let the agent run")
        answer = await call.ask("approval", shown, await digest(name, call.arguments))
        if answer is None:
            raise ToolError(
                Code.APPROVAL_DENIED,
                f"{name} needs the approval of a person, and this client asks none",
                f"the operator can take {name} out of approvals, or use a client with elicitation",
            )
        if not answer:
            raise ToolError(
                Code.APPROVAL_DENIED, f"the person did not approve {name}", "ask the person before trying again"
            )
        call.approved_by = "person"
        if rule == "once":
            call.approved.add(name)

    def _deadline(self, call: Call, given: Mapping[str, Any]) -> float | None:
        rules, tool = self._rules, call.tool
        if call.timeout is not None:
            return call.timeout or None
        if tool.name in rules.tool_timeouts:
            seconds = rules.tool_timeouts[tool.name]
            return min(seconds, rules.max_tool_timeout) if seconds else None
        if tool.deadline:
            return min(tool.deadline(self._settings, given), rules.max_tool_timeout + GRACE)
        return min(rules.default_tool_timeout or rules.max_tool_timeout, rules.max_tool_timeout)

    def _services(self, call: Call) -> dict[str, Any]:
        return {argument: self._providers[kind](call) for argument, kind in call.tool.services.items()}

    async def _fit(self, call: Call, result: ToolResult) -> Answer:
        """Cut a result to the budget; in a thread where its tokens have to be counted."""
        if result.size <= self._budget.limit and not self._budget.structured:
            return result.fit(self._budget)
        # What is cut is kept where it can be read on.
        outputs = self._providers[Outputs](call) if self._keeps else None
        return await to_thread.run_sync(result.fit, self._budget.keeping(outputs.keep if outputs else None))

    async def _within(self, deadline: float | None, call: Call, work: Awaitable[ToolResult]) -> ToolResult:
        tool = call.tool
        result: ToolResult | None = None
        with anyio.move_on_after(deadline) as scope:
            if call.progress.wanted:
                async with anyio.create_task_group() as beside:
                    beside.start_soon(_heartbeat, call.progress)
                    result = await work
                    beside.cancel_scope.cancel()
            else:
                result = await work
        if scope.cancelled_caught:
            raise CallTimeout(Code.TIMEOUT, f"TIMEOUT: {tool.name} gave no answer within {deadline:g}s")
        assert result is not None
        return result


class _unforeseen:
    """Let no exception of a tool but ToolError and cancellation leave the block; a generator would take twice as long."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        if e is None or isinstance(e, (ToolError, asyncio.CancelledError, KeyboardInterrupt, SystemExit)):
            return
        # Also a panic of a native library, which is no Exception.
        expected = _only_tool_error(e)
        if expected:
            raise expected from None
        log.error("%s failed", self._tool.name, exc_info=e)
        raise ToolError(
            Code.TOOL_EXCEPTION, f"{self._tool.name} failed inside the server", "the server's log has the details"
        ) from None


async def _heartbeat(progress: Progress) -> None:
    seconds = 0.0
    while True:
        await anyio.sleep(HEARTBEAT)
        seconds += HEARTBEAT
        await progress.beat(seconds)


def _asks_unsafe(call: Call) -> bool:
    asked = call.arguments.get(ASKED) if call.tool.unsafe else None
    return asked is True or (isinstance(asked, str) and asked.lower() == "true")


def _with_undo(answer: Answer, change: str) -> Answer:
    """Return an answer whose text ends in the id by which undo takes the change back."""
    *others, last = answer.content
    assert isinstance(last, TextContent)
    marked = TextContent(type="text", text=f"{last.text} [undo: {change}]")
    return replace(answer, content=[*others, marked], meta={**answer.meta, "undo": change})


def _bounded(tool: Tool, answer: Answer) -> Answer:
    """Return an answer whose fields are not above the bound of its record. ToolError output_limit."""
    if answer.structured is not None and tool.record is not None:
        largest = tool.record.largest
        if len(json.dumps(answer.structured, ensure_ascii=False)) > largest:
            above = f"{largest >> 20} MiB"
            raise ToolError(Code.OUTPUT_LIMIT, f"the answer of {tool.name} is above {above}", "narrow the request")
    return answer


def _on_wire(call: Call, structured: bool, outcome: Outcome) -> Result:
    answer, failure = outcome
    result = {
        "_meta": {"call_id": call.id, **answer.meta},
        "content": [_block_on_wire(block) for block in answer.content],
        "isError": failure is not None,
        "resultType": "complete",
    }
    # The SDK checks a result and writes it out; the model that it would build first takes a tenth of a small call.
    fields_sent = answer.verbatim or failure is not None or (structured and _is_text(answer.content))
    if answer.structured is None or not fields_sent:
        return result
    return result | {"structuredContent": answer.structured}


def _is_text(blocks: Sequence[ContentBlock]) -> bool:
    # Clients that get fields beside an image pass on the fields alone.
    return all(isinstance(block, TextContent) for block in blocks)


def _block_on_wire(block: ContentBlock) -> dict[str, Any]:
    if type(block) is TextContent and block.annotations is None and block.meta is None:
        return {"type": "text", "text": block.text}
    return block.model_dump(by_alias=True, mode="json", exclude_none=True)


def _refusal(failure: ToolError) -> Answer:
    payload = failure.payload()
    payload["error"] = payload["error"][:ERROR_MAX]
    return Answer([TextContent(type="text", text=json.dumps(payload, ensure_ascii=False))], payload)


def _only_tool_error(e: BaseException) -> ToolError | None:
    """Return the ToolError that a task group of a handler wrapped."""
    while isinstance(e, BaseExceptionGroup) and len(e.exceptions) == 1:
        e = e.exceptions[0]
    return e if isinstance(e, ToolError) else None
