"""MCP over stdin and stdout, one JSON-RPC message a line, in one thread."""

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from ..shutdown import stop_signals
from .dispatcher import StdioDispatcher, opens_handshake
from .framing import LineSplitter, TooLong, read_line, write_line
from .pipes import PipeWriter, open_sink, open_source, take_over_stdio
from .request_queue import Intake

log = logging.getLogger(__name__)

MAX_LINE: Final = 24 * 1024 * 1024
"""Bytes of one message, TOOLS.md 1.2."""

BACKLOG_HIGH: Final = 1024 * 1024
BACKLOG_LOW: Final = 256 * 1024
"""Unread answers at which the server stops reading and answering, and at which it goes on. A guess: several
answers of usual size, and little beside the server's own memory."""

DRAIN: Final = 0.5
"""Seconds that calls get to finish after the end of input, for `printf ... | toolbox-mcp`. A client that
disconnected has closed both pipes, and gets none."""

FLUSH: Final = 0.3
"""Seconds for the last answers to leave."""


async def serve(
    server: Server[Any],
    *,
    max_line: int = MAX_LINE,
    max_in_flight: int = 64,
    on_stop: Callable[[], None] | None = None,
) -> int:
    """Serve one client on this process's stdin and stdout until it leaves or a signal comes.

    Takes fd 0 and 1 for good, see take_over_stdio. Returns the number of the signal that ended it, or 0. on_stop
    is called once, when the end begins and before the calls in flight are cancelled. Both protocol eras are
    served; the client's first request decides which.
    """
    with take_over_stdio() as (fd_in, fd_out):
        if fd_in is None or fd_out is None:
            return 0
        return await serve_on(
            server,
            fd_in,
            fd_out,
            max_line=max_line,
            max_in_flight=max_in_flight,
            on_stop=on_stop,
        )


async def serve_on(
    server: Server[Any],
    fd_in: int,
    fd_out: int,
    *,
    max_line: int = MAX_LINE,
    max_in_flight: int = 64,
    on_stop: Callable[[], None] | None = None,
) -> int:
    """Serve one client on these descriptors, which stay open; otherwise as serve."""
    wire = _Wire(fd_in, fd_out, max_line, max_in_flight, on_stop)
    try:
        with stop_signals(wire.stop):
            options = server.create_initialization_options()
            async with server.lifespan(server) as state:
                opening = await wire.intake.opening()
                if opening is not None and opens_handshake(opening):
                    await StdioDispatcher(wire.intake, wire).serve(server, state, options)
                else:
                    answers = _Answers(wire)
                    await serve_dual_era_loop(server, wire.intake, answers, lifespan_state=state, init_options=options)
            await wire.flush()
    finally:
        wire.close()
    return wire.ended_by


class _Wire:
    """The two descriptors, and the balance between them."""

    def __init__(
        self, fd_in: int, fd_out: int, max_line: int, max_in_flight: int, on_stop: Callable[[], None] | None
    ) -> None:
        self.ended_by = 0
        self.intake = Intake(max_in_flight, self._balance)
        self._on_stop = on_stop
        self._cutter = LineSplitter(max_line)
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._room.set()
        self._input_over = False
        self._stopping = False
        self.sink: PipeWriter = open_sink(fd_out, self._balance)
        self._source = open_source(fd_in, self._take)

    def stop(self, number: int = 0) -> None:
        """End: nothing more is read, and what runs is cancelled."""
        if self._stopping:
            return
        self._stopping = True
        self.ended_by = number
        self._source.close()
        self._room.set()
        try:
            if self._on_stop is not None:
                self._on_stop()
        finally:
            self.intake.end()

    def close(self) -> None:
        """Let go of the descriptors."""
        self._source.close()
        self.sink.close()

    @property
    def ready(self) -> bool:
        """Return True if the client reads, or has little to read yet."""
        return self._room.is_set() and not self.sink.broken

    def post(self, data: bytes) -> None:
        """Write a line."""
        self.sink.write(data)
        if self.sink.backlog > BACKLOG_HIGH and not self._stopping:
            self._room.clear()
            self._balance()

    async def send(self, data: bytes) -> None:
        """Write a line; wait while the client does not read."""
        if self.sink.broken:
            raise anyio.BrokenResourceError
        self.post(data)
        await self._room.wait()

    async def flush(self) -> None:
        """Give the last answers a moment to leave."""
        self._room.clear()
        with anyio.move_on_after(FLUSH):
            while self.sink.backlog and not self.sink.broken:
                await self._room.wait()
                self._room.clear()

    def _take(self, chunk: bytes) -> None:
        for line in self._cutter.feed(chunk):
            self._take_line(line)
        if not chunk:
            self._take_line(self._cutter.rest())
            self._input_over = True
            self._loop.call_later(0 if self.sink.broken else DRAIN, self.stop)
        self._balance()

    def _take_line(self, line: bytes | TooLong) -> None:
        message, refusals = read_line(line)
        if message is not None:
            assert isinstance(line, bytes)
            self.intake.offer(message, len(line))
        for refusal in refusals:
            self.sink.write(write_line(refusal))
        if message is None and (isinstance(line, TooLong) or line.strip()):
            log.warning("skipped a line that is no JSON-RPC message (answered: %s)", bool(refusals))

    def _balance(self) -> None:
        if self.sink.broken or (self._input_over and self.intake.idle):
            # Not from inside a callback of the SDK, which may be about to write its answer.
            self._loop.call_soon(self.stop)
        if self.sink.backlog <= BACKLOG_LOW or self.sink.broken:
            self._room.set()
        if self.intake.full or self.sink.backlog > BACKLOG_HIGH:
            self._source.pause()
        elif self.sink.backlog <= BACKLOG_LOW:
            self._source.resume()


class _Answers:
    """The write stream for the SDK."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        try:
            await self._wire.send(write_line(message))
        finally:
            if isinstance(message, (JSONRPCResponse, JSONRPCError)):
                self._wire.intake.settled(message.id)

    async def aclose(self) -> None:
        """Do nothing: the descriptors outlive the SDK's loop, so that the last answers can leave."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        return None
