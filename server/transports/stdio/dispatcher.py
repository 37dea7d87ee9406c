"""The requests of one client in the handshake era, without a stream between a line and its handler.

What the SDK's own dispatcher does with a task for the reading, another for the relay of what opened the connection and a
model of each message takes as long as a small call; here a line that was read begins its handler.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import copy_context
from functools import cached_property, partial
from typing import Any, Final, Protocol

import anyio
import anyio.lowlevel
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.shared.dispatcher import CallOptions, as_request_id, coerce_request_id
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data, progress_token_from_params
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from .framing import write_line, write_result
from .outbound import CLOSED, Outbound
from .request_queue import Intake

log = logging.getLogger(__name__)

_TRANSPORT: Final = TransportContext(kind="jsonrpc", can_send_request=True)


class Output(Protocol):
    """Where lines are written."""

    @property
    def ready(self) -> bool:
        """Return True if the client takes what is written, or nearly so."""
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


class _RequestContext:
    """One message of the client while it is handled; what the SDK calls a DispatchContext."""

    transport = _TRANSPORT
    message_metadata = None

    def __init__(self, exchange: "StdioDispatcher", request: JSONRPCRequest | None) -> None:
        self._exchange = exchange
        self.request = request
        self.open = True
        self.cancelled = False
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
            if self.cancelled:
                self._cancelled.set()
        return self._cancelled

    def cancel(self) -> None:
        self.cancelled = True
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
        return await self._exchange.outbound.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        if self.open:
            await self._exchange.outbound.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        token = progress_token_from_params(self.request.params) if self.request else None
        if token is None:
            return
        said = {"progressToken": token, "progress": progress, "total": total, "message": message}
        await self.notify("notifications/progress", {name: value for name, value in said.items() if value is not None})


class StdioDispatcher:
    """Serves one client of the handshake era."""

    def __init__(self, intake: Intake, output: Output) -> None:
        """Take messages from intake, and write to a client."""
        self._intake = intake
        self._output = output
        self.outbound = Outbound(output.send)
        self._loop = asyncio.get_running_loop()
        # A message may be taken within the task of an earlier one, whose context variables are not for it, or from a source
        # that was resumed there.
        self._context = copy_context()
        self._tasks: set[asyncio.Task[None]] = set()
        self._live: set[_RequestContext] = set()
        self._by_id: dict[RequestId, _RequestContext] = {}
        self._initializing = False
        self._held: deque[JSONRPCMessage] = deque()
        self._runner: ServerRunner[Any] | None = None

    async def serve(self, server: Server[Any], lifespan_state: Any, init_options: InitializationOptions) -> None:
        """Serve until the intake ends; what runs then is cancelled and answered as closed."""
        connection = Connection.for_loop(self.outbound)
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
        self.outbound.close()
        # Where this server was cancelled, the intake goes on and would hand over what is parked.
        self._intake.end()
        self._initializing = False
        while self._held:
            message = self._held.popleft()
            if isinstance(message, JSONRPCRequest):
                self._intake.settled(message.id)
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
            handled = _RequestContext(self, message)
            # Of two requests with one id the later can be called off.
            self._by_id[coerce_request_id(message.id)] = handled
            self._live.add(handled)
            self._spawn(self._answer(handled, message))
        elif isinstance(message, JSONRPCNotification):
            self._note(message)
        else:
            self.outbound.on_response(
                message.id, message.result if isinstance(message, JSONRPCResponse) else message.error
            )

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, handled: _RequestContext, request: JSONRPCRequest) -> None:
        """Handle a request and write its answer; one that was called off gets none."""
        answer: bytes | None = None
        sending = False
        try:
            with handled.scope:
                try:
                    answer = write_result(request.id, await self._result(handled, request))
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as e:  # also a panic of a native library, which is no Exception
                    if isinstance(e, asyncio.CancelledError) and _is_meant(handled):
                        raise
                    answer = _refusal(request, e)
                finally:
                    self._close(handled, request)
                if not handled.cancelled:
                    # It may have left when the end comes, so no second one is written.
                    sending = True
                    await self._output.send(answer)
            if not sending and not handled.cancelled:
                with anyio.move_on_after(1, shield=True):
                    await self._output.send(write_line(JSONRPCError(jsonrpc="2.0", id=request.id, error=CLOSED)))
        except anyio.BrokenResourceError:
            log.debug("the answer to a request finds nobody")
        finally:
            self._live.discard(handled)
            self._intake.settled(request.id)

    async def _result(self, handled: _RequestContext, request: JSONRPCRequest) -> dict[str, Any]:
        assert self._runner is not None
        if request.method != "initialize" and _is_enveloped(request.params):
            raise MCPError(
                INVALID_REQUEST, "this connection began with a handshake; 2026-07-28 requests are not for it"
            )
        return await self._runner.on_request(handled, request.method, request.params)

    def _close(self, handled: _RequestContext, request: JSONRPCRequest) -> None:
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
                handled.cancel()
        elif message.method == "notifications/progress":
            told = self.outbound.progress(params)
            if told is not None:
                self._spawn(self._attend(_RequestContext(self, None), told))
        assert self._runner is not None
        handled = _RequestContext(self, None)
        work = partial(self._runner.on_notify, handled, message.method, message.params)
        self._spawn(self._attend(handled, work))

    async def _attend(self, handled: _RequestContext, work: Callable[[], Awaitable[None]]) -> None:
        """Do what a notification asks for."""
        self._live.add(handled)
        try:
            with handled.scope:
                await work()
        except Exception:
            log.exception("a notification of the client failed")
        finally:
            self._live.discard(handled)


def _is_meant(handled: _RequestContext) -> bool:
    """Return True if it is this message that was cancelled, and not only something that its handler waited for."""
    task = asyncio.current_task()
    return handled.scope.cancel_called or (task is not None and task.cancelling() > 0)


def _refusal(request: JSONRPCRequest, failure: BaseException) -> bytes:
    error = handler_exception_to_error_data(failure)
    if error is None:
        log.error("the handler of %s failed", request.method, exc_info=failure)
        error = ErrorData(code=INTERNAL_ERROR, message="Internal server error")
    return write_line(JSONRPCError(jsonrpc="2.0", id=request.id, error=error))
