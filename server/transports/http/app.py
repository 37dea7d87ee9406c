"""MCP over HTTP: streamable HTTP at /mcp, or the older form with server-sent events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import Route

from ..shutdown import stop_signals
from .access import AccessMiddleware, ByPrincipal
from .connections import Listener, bind
from .settings import HttpSettings, refusal
from .sse import SseSessions

Keeps = Callable[[str], bool]
"""Returns True for the id of a session that has programs which run."""


def _keeps_nothing(session: str) -> bool:
    return False


def build_app(
    server: Server[Any],
    settings: HttpSettings,
    others: Mapping[str, Server[Any]] = MappingProxyType({}),
    keeps: Keeps = _keeps_nothing,
) -> AccessMiddleware:
    """Return the ASGI app of a transport: its routes behind the gate.

    settings.port is the port that clients connect to, which the default of allowed_hosts is made of. others: the servers
    of principals that have their own. `running` of the gate holds their lifespans.
    """
    routes = ByPrincipal(_routes(server, settings), {name: _routes(own, settings) for name, own in others.items()})
    return AccessMiddleware(routes, settings, keeps)


def _routes(server: Server[Any], settings: HttpSettings) -> Starlette:
    if settings.transport == "sse":
        sessions = SseSessions(server, settings.max_sessions, settings.idle_timeout, settings.max_in_flight)
        routes = [
            Route("/sse", endpoint=_App(sessions.connect)),
            Route("/messages/", endpoint=_App(sessions.post)),
        ]
        app = Starlette(routes=routes, lifespan=lambda _: sessions.run())
    else:
        manager = StreamableHTTPSessionManager(
            server,
            # The gate has compared Host and Origin as values; the SDK's rules with wildcards are prefix tests.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            session_idle_timeout=settings.idle_timeout,
            max_request_body_size=settings.max_body,
            max_sessions=settings.max_sessions,
        )
        routes = [Route("/mcp", endpoint=StreamableHTTPASGIApp(manager))]
        app = Starlette(routes=routes, lifespan=lambda _: manager.run())
    app.router.redirect_slashes = False
    return app


@asynccontextmanager
async def serving(
    server: Server[Any],
    settings: HttpSettings,
    others: Mapping[str, Server[Any]] = MappingProxyType({}),
    keeps: Keeps = _keeps_nothing,
) -> AsyncIterator[str]:
    """Accept connections inside the block; yield the URL. At its end calls are cancelled and streams closed.

    Raises ValueError with the line of `refusal`, and OSError or ssl.SSLError if the address or certificate
    cannot be used. Both protocol eras are served.
    """
    if (why := refusal(settings)) is not None:
        raise ValueError(why)
    sockets = bind(settings)
    try:
        settings = replace(settings, port=sockets[0].getsockname()[1])
        gate = build_app(server, settings, others, keeps)
        listener = Listener(gate, settings, sockets)
        try:
            async with gate.running():
                await listener.start()
                path = "/sse" if settings.transport == "sse" else "/mcp"
                yield f"{settings.scheme}://{settings.url_host}:{settings.port}{path}"
                listener.refuse()
        finally:
            await listener.stop()
    finally:
        for sock in sockets:
            sock.close()


async def serve(
    server: Server[Any],
    settings: HttpSettings,
    *,
    others: Mapping[str, Server[Any]] = MappingProxyType({}),
    keeps: Keeps = _keeps_nothing,
    on_ready: Callable[[str], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> int:
    """Serve until a signal comes; return its number. Raises what `serving` raises.

    on_ready is called with the URL once connections are accepted, on_stop when the end begins.
    """
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    with stop_signals(stopped.set_result):
        async with serving(server, settings, others, keeps) as url:
            if on_ready is not None:
                on_ready(url)
            await stopped
            if on_stop is not None:
                on_stop()
    return stopped.result()


class _App:
    """Starlette takes a function for a request handler, and any other object for an ASGI app."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app

    async def __call__(self, *connection: Any) -> None:
        await self._app(*connection)
