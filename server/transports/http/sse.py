"""MCP over HTTP with server-sent events, as clients from before 2025 speak it: GET /sse, POST /messages/."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..caller import SCOPE_KEY, SESSION_END_KEY
from ..stdio.framing import read_line, write_line
from ..stdio.request_queue import Intake

log = logging.getLogger(__name__)

PING: Final = 15.0
"""Seconds between comments that keep proxies from closing a silent stream."""

END_WAIT: Final = 1.0
"""Seconds for the callbacks of a session that ended."""

CleanUp = Callable[[], Awaitable[None]]


class SseSessions:
    """The sessions of one server. Each lives as long as its GET stream and some traffic on it."""

    def __init__(self, server: Server[Any], max_sessions: int, idle_timeout: float, max_in_flight: int) -> None:
        """Serve server to at most max_sessions clients; idle_timeout is in seconds without a message either way."""
        self._server = server
        self._max_sessions = max_sessions
        self._idle_timeout = idle_timeout
        self._max_in_flight = max_in_flight
        self._sessions: dict[str, _Session] = {}
        self._lifespan_state: Any = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Hold the server's lifespan, once for all sessions."""
        async with self._server.lifespan(self._server) as self._lifespan_state:
            yield

    async def connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """GET /sse: open a session and stream its messages until the client leaves or is idle."""
        if scope["method"] != "GET":
            await Response(status_code=405, headers={"Allow": "GET"})(scope, receive, send)
            return
        if len(self._sessions) >= self._max_sessions:
            await Response(status_code=503)(scope, receive, send)
            return
        sending, received = anyio.create_memory_object_stream[bytes](0)
        idle = anyio.CancelScope(deadline=anyio.current_time() + self._idle_timeout)
        session = _Session(scope[SCOPE_KEY].principal, Intake(self._max_in_flight), sending, idle, self._idle_timeout)
        session_id = uuid4().hex
        self._sessions[session_id] = session

        async def serve() -> None:
            options = self._server.create_initialization_options()
            await serve_dual_era_loop(
                self._server,
                session.intake,
                session,
                lifespan_state=self._lifespan_state,
                session_id=session_id,
                init_options=options,
            )
            idle.cancel()

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            idle.cancel()

        async def stream() -> None:
            headers = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                (b"cache-control", b"no-store"),
                (b"x-accel-buffering", b"no"),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            event = f"event: endpoint\r\ndata: /messages/?session_id={session_id}\r\n\r\n".encode()
            while True:
                await send({"type": "http.response.body", "body": event, "more_body": True})
                event = b": ping\r\n\r\n"
                with anyio.move_on_after(PING):
                    event = b"event: message\r\ndata: " + (await received.receive()) + b"\r\n\r\n"

        try:
            with idle:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(serve)
                    tasks.start_soon(watch)
                    # Closed as soon as nobody streams: the SDK would wait a second to deliver last errors.
                    with received:
                        await stream()
        finally:
            del self._sessions[session_id]
            session.intake.end()
            await session.run_clean_up()
        await send({"type": "http.response.body", "body": b""})

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """POST /messages/: take one message for a session of the same principal; 404 for any other."""
        status = 202
        session_id = QueryParams(scope["query_string"]).get("session_id", "")
        session = self._sessions.get(session_id)
        request = Request(scope, receive)
        if scope["method"] != "POST":
            status = 405
        elif session is None or session.principal != scope[SCOPE_KEY].principal:
            status = 404
        elif request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            status = 415
        elif session.intake.full:
            status = 503
        else:
            body = await request.body()
            message, _ = read_line(body)
            if message is None:
                status = 400
            else:
                scope[SCOPE_KEY] = replace(scope[SCOPE_KEY], session_id=session_id)
                scope[SESSION_END_KEY] = session.clean_up.append
                session.touch()
                session.intake.offer(message, len(body), request)
        headers = {"Allow": "POST"} if status == 405 else None
        await Response(status_code=status, headers=headers)(scope, receive, send)


class _Session:
    """One client: its messages in, and a write stream for the SDK."""

    def __init__(
        self,
        principal: str | None,
        intake: Intake,
        sending: MemoryObjectSendStream[bytes],
        idle: anyio.CancelScope,
        idle_timeout: float,
    ) -> None:
        self.principal = principal
        self.intake = intake
        self.clean_up: list[CleanUp] = []
        self._sending = sending
        self._idle = idle
        self._idle_timeout = idle_timeout

    def touch(self) -> None:
        """Note traffic."""
        self._idle.deadline = anyio.current_time() + self._idle_timeout

    async def run_clean_up(self) -> None:
        """Run what was registered for the end of the session, last first, each on its own."""
        with anyio.move_on_after(END_WAIT, shield=True):
            for step in reversed(self.clean_up):
                try:
                    await step()
                except Exception:
                    log.exception("clean-up of a session failed")

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        try:
            await self._sending.send(write_line(message).rstrip(b"\n"))
            self.touch()
        finally:
            if isinstance(message, (JSONRPCResponse, JSONRPCError)):
                self.intake.settled(message.id)

    async def aclose(self) -> None:
        self._sending.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        self._sending.close()
