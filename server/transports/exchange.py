"""The requests of one client in the handshake era, and ours to it, without a stream between a line and its handler.

What the SDK's own dispatcher does with a task for the reading, another for the relay of what opened the connection and a
model of each message takes as long as a small call; here a line that was read begins its handler.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Protocol

import anyio
import anyio.lowlevel
from mcp.server import Server
from mcp.server.connection import Connection
from mcp.server.models import InitializationOptions
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.shared.dispatcher import CallOptions, ProgressFnT, as_request_id, coerce_request_id
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data, progress_token_from_params
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from toolbox_mcp.server.transports.intake import Intake
from toolbox_mcp.server.transports.lines import write_line, write_result
from toolbox_mcp.tools.progress import Report

log = logging.getLogger(__name__)

_TRANSPORT: Final = TransportContext(kind="jsonrpc", can_send_request=True)
_CLOSED: Final = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")

AT_ONCE: Final = 8
"""Requests that are answered in one turn of the loop, of those that need not wait: some half a millisecond."""


class Direct(Protocol):
    """A shorter way to the answers of some requests."""

    def begin(
        self, connection: Connection, request: JSONRPCRequest, report: Report
    ) -> dict[str, Any] | Coroutine[Any, Any, dict[str, Any]] | None:
        """Return the result of a request, or what gives it, or None for one that is not for this way.

        report tells the client of its progress.
        """
        ...


class Output(Protocol):
    """Where lines are written."""

    @property
    def ready(self) -> bool:
        """Tell whether the client takes what is written, or nearly so."""
        ...

    def post(self, data: bytes) -> None:
        """Write a line, and wait for nothing. What is written to a client that is gone is lost."""
        ...

    async def send(self, data: bytes) -> None:
        """Write a line; wait while the client does not read. Raises BrokenResourceError where it is gone."""
        ...


def opens_handshake(request: JSONRPCRequest) -> bool:
    """Tell which era the first request of a client opens; the SDK's rule."""
    return request.method == "initialize" or not _is_enveloped(request.params)


def _is_enveloped(params: Mapping[str, Any] | None) -> bool:
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta


@dataclass
class _Asked:
    """A request of ours: its answer, and what hears of its progress."""

    answer: asyncio.Future[dict[str, Any] | ErrorData]
    on_progress: ProgressFnT | None


_Result = Coroutine[Any, Any, dict[str, Any]]


class _Handled:
    """One message of the client while it is handled; what the SDK calls a DispatchContext."""

    transport = _TRANSPORT
    message_metadata = None

    def __init__(self, exchange: "Exchange", request: JSONRPCRequest | None) -> None:
        self._exchange = exchange
        self.request = request
        self.open = True
        self.called_off = False
        self._cancelled: anyio.Event | None = None

    @property
    def request_id(self) -> RequestId | None:
        return self.request.id if self.request else None

    @property
    def can_send_request(self) -> bool:
        return self.open

    @property
    def cancel_requested(self) -> anyio.Event:
        if self._cancelled is None:
            self._cancelled = anyio.Event()
            if self.called_off:
                self._cancelled.set()
        return self._cancelled

    def call_off(self) -> None:
        self.called_off = True
        if self._cancelled is not None:
            self._cancelled.set()
        self.scope.cancel()

    @cached_property
    def scope(self) -> anyio.CancelScope:
        """What the work for the message is done in."""
        return anyio.CancelScope()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if not self.open:
            raise NoBackChannelError(method)
        return await self._exchange.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        if self.open:
            await self._exchange.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        token = progress_token_from_params(self.request.params) if self.request else None
        if token is None:
            return
        said = {"progressToken": token, "progress": progress, "total": total, "message": message}
        await self.notify("notifications/progress", {name: value for name, value in said.items() if value is not None})


class Exchange:
    """Serves one client of the handshake era. Fits what the SDK calls a Dispatcher, as far as a connection uses it."""

    def __init__(self, intake: Intake, output: Output, direct: Direct | None = None) -> None:
        """Take messages from intake, and write to a client. direct is asked before the SDK is."""
        self._intake = intake
        self._output = output
        self._direct = direct
        self._send = output.send
        self._at_once = 0
        self._loop = asyncio.get_running_loop()
        # A message may be taken within the task of an earlier one, whose context variables are not for it.
        self._context = copy_context()
        self._tasks: set[asyncio.Task[None]] = set()
        self._live: set[_Handled] = set()
        self._by_id: dict[RequestId, _Handled] = {}
        self._asked: dict[RequestId, _Asked] = {}
        self._numbers = 0
        self._initializing = False
        self._held: deque[JSONRPCMessage] = deque()
        self._over = False
        self._runner: ServerRunner[Any] | None = None

    async def serve(self, server: Server[Any], lifespan_state: Any, init_options: InitializationOptions) -> None:
        """Serve until the intake ends; what runs then is cancelled and answered as closed."""
        connection = Connection.for_loop(self)
        self._runner = ServerRunner(server, connection, lifespan_state, init_options=init_options)
        try:
            self._intake.deliver_to(self._take)
            await self._intake.over()
        finally:
            try:
                await self._end()
            finally:
                await aclose_shielded(connection)

    async def _end(self) -> None:
        self._over = True
        # Where this server was cancelled, the intake goes on and would hand over what is parked.
        self._intake.end()
        self._initializing = False
        while self._held:
            message = self._held.popleft()
            if isinstance(message, JSONRPCRequest):
                self._intake.settled(message.id)
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_result(_CLOSED)
        for handled in self._live:
            handled.scope.cancel()
        with anyio.CancelScope(shield=True):
            while self._tasks:
                await asyncio.wait(self._tasks)

    def _take(self, message: JSONRPCMessage) -> None:
        """Begin what a message asks for."""
        if self._initializing:
            # A client may send on without waiting for the answer, which decides how the rest is read.
            self._held.append(message)
        elif isinstance(message, JSONRPCRequest):
            self._initializing = message.method == "initialize"
            handled = _Handled(self, message)
            begun = self._begun(handled, message)
            if not isinstance(begun, bytes):
                # Of two requests with one id the later can be called off.
                self._by_id[coerce_request_id(message.id)] = handled
                self._live.add(handled)
                self._spawn(self._answer(handled, message, begun))
                return
            self._output.post(begun)
            self._intake.settled(message.id)
        elif isinstance(message, JSONRPCNotification):
            self._note(message)
        else:
            self._hear(message.id, message.result if isinstance(message, JSONRPCResponse) else message.error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _begun(self, handled: _Handled, request: JSONRPCRequest) -> "bytes | _Result | None":
        """Return the answer to a request, or what is to be awaited for its result; None where neither is begun here.

        An answer that is there at once needs no task, which takes a third as long as the answer.
        """
        if self._direct is None or not self._output.ready or self._at_once >= AT_ONCE:
            return None
        if asyncio.current_task() is not None:
            # It was parked, and the task is that of another message, with its context variables.
            return None
        assert self._runner is not None
        try:
            result = self._direct.begin(self._runner.connection, request, handled.progress)
            if not isinstance(result, dict):
                return result
            answer = write_result(request.id, result)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:  # noqa: BLE001 - also a panic of a native library, which is no Exception
            answer = _refusal(request, e)
        if not self._at_once:
            self._loop.call_soon(self._next_turn)
        self._at_once += 1
        handled.open = False
        return answer

    def _next_turn(self) -> None:
        self._at_once = 0

    async def _answer(self, handled: _Handled, request: JSONRPCRequest, begun: "_Result | None") -> None:
        """Handle a request and write its answer; one that was called off gets none."""
        answer: bytes | None = None
        sending = False
        try:
            with handled.scope:
                try:
                    answer = write_result(request.id, await (begun or self._result(handled, request)))
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as e:  # also a panic of a native library, which is no Exception
                    if isinstance(e, asyncio.CancelledError) and _is_meant(handled):
                        raise
                    answer = _refusal(request, e)
                finally:
                    self._close(handled, request)
                if not handled.called_off:
                    # It may have left when the end comes, so no second one is written.
                    sending = True
                    await self._send(answer)
            if not sending and not handled.called_off:
                with anyio.move_on_after(1, shield=True):
                    await self._send(write_line(JSONRPCError(jsonrpc="2.0", id=request.id, error=_CLOSED)))
        except anyio.BrokenResourceError:
            log.debug("the answer to a request finds nobody")
        finally:
            self._live.discard(handled)
            self._intake.settled(request.id)

    async def _result(self, handled: _Handled, request: JSONRPCRequest) -> dict[str, Any]:
        assert self._runner is not None
        if request.method != "initialize" and _is_enveloped(request.params):
            raise MCPError(
                INVALID_REQUEST, "this connection began with a handshake; 2026-07-28 requests are not for it"
            )
        if self._direct is not None:
            result = self._direct.begin(self._runner.connection, request, handled.progress)
            if result is not None:
                return result if isinstance(result, dict) else await result
        return await self._runner.on_request(handled, request.method, request.params)

    def _close(self, handled: _Handled, request: JSONRPCRequest) -> None:
        handled.open = False
        key = coerce_request_id(request.id)
        if self._by_id.get(key) is handled:
            del self._by_id[key]
        if request.method == "initialize":
            self._initializing = False
            while self._held and not self._initializing:
                self._take(self._held.popleft())

    def _note(self, message: JSONRPCNotification) -> None:
        params = message.params or {}
        if message.method == "notifications/cancelled":
            about = as_request_id(params.get("requestId"))
            if about is not None and (handled := self._by_id.get(coerce_request_id(about))):
                handled.call_off()
        elif message.method == "notifications/progress":
            token = as_request_id(params.get("progressToken"))
            asked = None if token is None else self._asked.get(coerce_request_id(token))
            if asked and asked.on_progress:
                self._spawn(self._attend(_Handled(self, None), partial(_progressed, asked.on_progress, params)))
        assert self._runner is not None
        handled = _Handled(self, None)
        work = partial(self._runner.on_notify, handled, message.method, message.params)
        self._spawn(self._attend(handled, work))

    async def _attend(self, handled: _Handled, work: Callable[[], Awaitable[None]]) -> None:
        """Do what a notification asks for."""
        self._live.add(handled)
        try:
            with handled.scope:
                await work()
        except Exception:
            log.exception("a notification of the client failed")
        finally:
            self._live.discard(handled)

    def _hear(self, number: RequestId | None, outcome: dict[str, Any] | ErrorData) -> None:
        asked = None if number is None else self._asked.get(coerce_request_id(number))
        if asked and not asked.answer.done():
            asked.answer.set_result(outcome)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the client. Raises MCPError: its own, or that the time is up or the connection closed."""
        # Whoever is cancelled already asks nothing.
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._over:
            raise MCPError.from_error_data(_CLOSED)
        opts = opts or {}
        number = opts.get("request_id")
        if number is None:
            number = self._number()
        key = coerce_request_id(number)
        if key in self._asked:
            raise ValueError(f"request {number!r} is not answered yet")
        asked = self._asked[key] = _Asked(self._loop.create_future(), opts.get("on_progress"))
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
        sent = dict(params or {})
        if asked.on_progress:
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": number}
        request = JSONRPCRequest.model_validate(message | ({"params": sent} if sent else {}))
        why: str | None = "the caller has given up"
        try:
            try:
                await self._send(write_line(request))
            except anyio.BrokenResourceError:
                why = None
                raise MCPError.from_error_data(_CLOSED) from None
            with anyio.move_on_after(opts.get("timeout")) as scope:
                await asyncio.wait([asked.answer])
            if scope.cancelled_caught:
                why = "the time is up"
                raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out")
            why = None
        finally:
            del self._asked[key]
            if why and not self._over and opts.get("cancel_on_abandon", True):
                with anyio.move_on_after(1, shield=True):
                    await self.notify("notifications/cancelled", {"requestId": number, "reason": why})
        outcome = asked.answer.result()
        if isinstance(outcome, ErrorData):
            raise MCPError.from_error_data(outcome)
        return outcome

    def _number(self) -> int:
        self._numbers += 1
        while self._numbers in self._asked:
            self._numbers += 1
        return self._numbers

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Tell the client something; nothing happens where it is gone."""
        said = {"params": dict(params)} if params is not None else {}
        message = JSONRPCNotification.model_validate({"jsonrpc": "2.0", "method": method, **said})
        try:
            if not self._over:
                await self._send(write_line(message))
        except anyio.BrokenResourceError:
            log.debug("%s finds nobody", method)


async def _progressed(on_progress: ProgressFnT, params: Mapping[str, Any]) -> None:
    progress, total, message = (params.get(name) for name in ("progress", "total", "message"))
    if isinstance(progress, bool) or not isinstance(progress, int | float):
        return
    await on_progress(
        float(progress),
        float(total) if isinstance(total, int | float) else None,
        message if isinstance(message, str) else None,
    )


def _is_meant(handled: _Handled) -> bool:
    """Tell whether it is this message that was cancelled, and not only something that its handler waited for."""
    task = asyncio.current_task()
    return handled.scope.cancel_called or (task is not None and task.cancelling() > 0)


def _refusal(request: JSONRPCRequest, failure: BaseException) -> bytes:
    error = handler_exception_to_error_data(failure)
    if error is None:
        log.error("the handler of %s failed", request.method, exc_info=failure)
        error = ErrorData(code=INTERNAL_ERROR, message="Internal server error")
    return write_line(JSONRPCError(jsonrpc="2.0", id=request.id, error=error))
