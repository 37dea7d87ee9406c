"""Messages on their way from a client to the server: what passes at once, what waits, what is called off."""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, RequestId

WORK: Final = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
"""Requests that count as in flight. The rest (ping, lists, cancellations, answers to our own questions) costs
nothing, and must pass while the calls that it is about still run."""

LASTING: Final = frozenset({"subscriptions/listen"})
"""Requests that stay open as long as the client likes."""

AHEAD: Final = 8
"""Messages ahead of the first request that are kept, as the SDK does; there is one that matters."""

MAX_HELD: Final = 1024
MAX_HELD_BYTES: Final = 32 * 1024 * 1024
"""Bounds of what waits in memory before the client has to wait: room for one message of the greatest size."""


class Intake:
    """A read stream for the SDK that hands over at most max_in_flight working requests at a time.

    Further ones wait in order. A cancellation finds a request that still waits and takes it out, unanswered.
    on_change is called whenever something left or settled, so that the source can be paused and resumed.
    """

    def __init__(self, max_in_flight: int, on_change: Callable[[], None] = lambda: None) -> None:
        """Start empty."""
        self._max_in_flight = max_in_flight
        self._on_change = on_change
        self._ready: deque[tuple[SessionMessage, int]] = deque()
        self._parked: deque[tuple[JSONRPCRequest, int, Any]] = deque()
        self._unanswered: dict[RequestId, list[bool]] = {}
        self._working = 0
        self._held_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._deliver: Callable[[JSONRPCMessage], None] | None = None
        self._ended = False

    @property
    def full(self) -> bool:
        """Whether the source should stop: too much waits to take in more."""
        return len(self._ready) + len(self._parked) >= MAX_HELD or self._held_bytes >= MAX_HELD_BYTES

    @property
    def idle(self) -> bool:
        """Whether nothing waits and every request but subscriptions is answered."""
        return not (self._ready or self._parked or self._unanswered)

    def offer(self, message: JSONRPCMessage, size: int, request: Any = None) -> None:
        """Take a message of this many bytes; request is what handlers see as their HTTP request."""
        if self._ended:
            return
        match message:
            case JSONRPCNotification(method="notifications/cancelled") if self._unpark(message.params or {}):
                return
        if isinstance(message, JSONRPCRequest) and message.method in WORK and self._working >= self._max_in_flight:
            self._parked.append((message, size, request))
            self._held_bytes += size
            return
        self._hand_over(message, size, request)

    def settled(self, request_id: RequestId | None) -> None:
        """Note that a request was answered, or will not be; the next in line takes its place."""
        if request_id is None or request_id not in self._unanswered:
            return
        # An id that a client uses twice at a time has two entries.
        works = self._unanswered[request_id]
        self._working -= works.pop(0)
        if not works:
            del self._unanswered[request_id]
        while self._parked and self._working < self._max_in_flight and not self._ended:
            message, size, request = self._parked.popleft()
            self._held_bytes -= size
            self._hand_over(message, size, request)
        self._on_change()

    def end(self) -> None:
        """End the stream at once: what waits is dropped, and the SDK cancels what runs."""
        self._ended = True
        self._ready.clear()
        self._parked.clear()
        self._wake()

    async def opening(self) -> JSONRPCRequest | None:
        """Return the first request, which stays in line; None where the end comes before.

        Of what comes ahead of it AHEAD messages are kept, so that a client which sends no request fills nothing.
        """
        while not self._ended:
            for item, _ in self._ready:
                if isinstance(item.message, JSONRPCRequest):
                    return item.message
            if len(self._ready) > AHEAD:
                while len(self._ready) > AHEAD:
                    self._held_bytes -= self._ready.pop()[1]
                self._on_change()
            await self._news()
        return None

    def deliver_to(self, deliver: Callable[[JSONRPCMessage], None]) -> None:
        """Hand what is ready over to a function, and what comes later as it comes, instead of to receive()."""
        self._deliver = deliver
        while self._ready:
            item, size = self._ready.popleft()
            self._held_bytes -= size
            deliver(item.message)
        self._on_change()

    async def over(self) -> None:
        """Wait for the end."""
        while not self._ended:
            await self._news()

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message; anyio.EndOfStream at the end."""
        while not self._ready:
            if self._ended:
                raise anyio.EndOfStream
            await self._news()
        message, size = self._ready.popleft()
        self._held_bytes -= size
        self._on_change()
        return message

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        """Return the next message."""
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """End the stream."""
        self.end()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """End the stream."""
        self.end()

    async def _news(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _hand_over(self, message: JSONRPCMessage, size: int, request: Any) -> None:
        metadata = None
        if isinstance(message, JSONRPCRequest) and message.method not in LASTING:
            self._unanswered.setdefault(message.id, []).append(message.method in WORK)
            self._working += message.method in WORK
        if self._deliver is not None:
            self._deliver(message)
            return
        if isinstance(message, JSONRPCRequest):

            async def unanswered() -> None:
                self.settled(message.id)

            metadata = ServerMessageMetadata(request_context=request, on_request_unanswered=unanswered)
        elif request is not None:
            metadata = ServerMessageMetadata(request_context=request)
        self._ready.append((SessionMessage(message, metadata), size))
        self._held_bytes += size
        self._wake()

    def _unpark(self, cancelled: dict[str, Any]) -> bool:
        wanted = str(cancelled.get("requestId"))
        for entry in self._parked:
            if str(entry[0].id) == wanted:
                self._parked.remove(entry)
                self._held_bytes -= entry[1]
                self._on_change()
                return True
        return False

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
