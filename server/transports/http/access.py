"""What every HTTP request passes before it reaches a route."""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from email.utils import formatdate
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic_core import from_json, to_json
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send

from ..caller import SCOPE_KEY, Caller
from ..stdio.framing import MAX_PARTS, too_many_values
from .bearer import bearer, principal_of
from .origin import parse_authority, parse_origin
from .sessions import SessionTable
from .settings import WELL_KNOWN, HttpSettings, OAuthSettings

if TYPE_CHECKING:
    from .oauth import TokenVerifier

log = logging.getLogger(__name__)
access_log = logging.getLogger("toolbox_mcp.access")

CLOSE_WAIT: Final = 0.7
"""Seconds for the requests under way to end when the server stops."""

HEALTH, READY = "/healthz", "/readyz"
"""Whether the process answers, and whether it takes requests: not once it has been told to end."""

SERVED_KEY: Final = "toolbox_mcp.served"
"""Where the gate leaves by whose settings a request is served: the name of a token, or a scope."""

_OWN_PAGES: Final = frozenset((b"same-origin", b"none"))
"""Values of Sec-Fetch-Site for a page of this server, and for what the person typed."""

Headers = Iterable[tuple[bytes, bytes]]


class ByPrincipal:
    """The routes of each principal or scope: those of its own server, or of the one for all others."""

    def __init__(self, routes: Starlette, others: Mapping[str, Starlette]) -> None:
        self._routes = routes
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of the Caller in its scope; a lifespan event is not one."""
        await self._others.get(scope[SERVED_KEY] or "", self._routes)(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the lifespans of all."""
        async with AsyncExitStack() as stack:
            for app in (self._routes, *self._others.values()):
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield


class AccessMiddleware:
    """An ASGI app around the routes: Host, framing, Origin or fetch metadata, token, body size and body time, in this order.

    Refusals are a status without a text. Each request that passes carries a Caller in its scope, and the
    principal in the form by which the SDK binds sessions to their owner. A handshake client that closes a
    response before it is complete cancels the call: without an event store nobody could fetch its answer.
    """

    def __init__(self, app: ByPrincipal, settings: HttpSettings, keeps: Callable[[str], bool]) -> None:
        """Put the gate before app. keeps: whether a session has programs that run, by its id."""
        self._app = app
        shared = settings.oauth is not None or len({name for name, _ in settings.tokens}) > 1
        self._verifier = _verifier(settings.oauth)
        self._sessions = SessionTable(settings.max_sessions, settings.idle_timeout, shared, keeps)
        self._settings = settings
        self._hosts = settings.host_rules()
        self._origins = settings.origin_rules()
        self._live: dict[anyio.CancelScope, bool] = {}
        """The requests under way, and whether each is to be answered before the server ends."""
        self._answered = anyio.Event()
        self._drained: anyio.Event | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the lifespan of the routes, which holds the sessions; at the end all requests have ended."""
        async with self._app.running():
            try:
                yield
            finally:
                await self._close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(scope, send)
        if scope["path"] in (HEALTH, READY):
            # For probes, which come by address and without a token: a status and nothing else.
            await answer.refuse(503 if scope["path"] == READY and self._drained is not None else 200)
            return
        status = self._judge(scope)
        oauth = self._settings.oauth
        if status is None and oauth is not None and scope["path"] in (WELL_KNOWN, urlsplit(oauth.metadata_url).path):
            await answer.tell(oauth.metadata())
            return
        if status is not None:
            await answer.refuse(status)
            return
        status, principal, served = await self._authenticate(scope)
        answer.principal = principal
        if status is not None:
            await answer.refuse(status, oauth)
            return
        body = await self._body(receive, answer)
        if body is None:
            return
        if _is_crowded(body):
            await answer.refuse(413)
            return
        header = _header(scope, b"mcp-session-id")
        session = header.decode("latin-1") if header else None
        scope[SCOPE_KEY] = Caller(self._settings.transport, session, principal)
        scope[SERVED_KEY] = served
        if principal is not None:
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=principal, scopes=[]))
        if session is None and scope["method"] == "POST" and self._settings.transport == "http":
            await self._make_room(scope, principal)
        live = anyio.CancelScope()
        self._live[live] = scope["method"] == "POST"
        try:
            with live, self._sessions.used(session):
                await self._app(scope, _replay(body, receive, answer), answer.send)
            self._note(scope, session, principal, answer)
            if answer.gone or live.cancelled_caught:
                await self._cancel_call(scope, body)
            if live.cancelled_caught:
                await answer.finish()
        finally:
            del self._live[live]
            if self._drained is not None and not any(self._live.values()):
                self._answered.set()
            if self._drained is not None and not self._live:
                self._drained.set()

    async def _authenticate(self, scope: Scope) -> tuple[int | None, str | None, str | None]:
        """Return the status of a refusal or None, the principal, and by whose settings it is served."""
        settings = self._settings
        if settings.tokens or self._verifier:
            given = _headers(scope, b"authorization")
            principal = principal_of(given, settings.tokens)
            served = principal
            if principal is None and self._verifier and (token := bearer(given)):
                grant = await self._verifier.grant(token)
                if grant and grant.scope is None:
                    return 403, grant.principal, None
                principal, served = (grant.principal, f"scope {grant.scope}") if grant else (None, None)
            if principal is None:
                return 401, None, None
        else:
            principal = served = None
        return (None if self._drained is None else 503), principal, served

    def _judge(self, scope: Scope) -> int | None:
        """Return the status of a refusal, who asks aside."""
        hosts = _headers(scope, b"host")
        host = parse_authority(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
        # An absolute target names the host a second time, which the routes would not look at.
        if host is None or not scope.get("raw_path", b"/").startswith(b"/"):
            return 421
        if not any(rule.admits(host, self._settings.scheme) for rule in self._hosts):
            return 421
        # Two servers in a row that each believe another of them take a body for the next request.
        if len(_headers(scope, b"content-length")) + len(_headers(scope, b"transfer-encoding")) > 1:
            return 400
        origins = _headers(scope, b"origin")
        if origins:
            origin = parse_origin(origins[0].decode("latin-1")) if len(origins) == 1 else None
            if origin is None or not any(rule.admits(origin) for rule in self._origins):
                return 403
        elif not {*_headers(scope, b"sec-fetch-site")} <= _OWN_PAGES:
            # A browser says where a request comes from that has no Origin, as that of an image in another site's page.
            return 403
        return None

    async def _body(self, receive: Receive, answer: "_Answer") -> bytes | None:
        """Return the whole body, or None if the request has been answered or left."""
        limit = self._settings.max_body
        declared = _header(answer.scope, b"content-length")
        if declared is not None and (not declared.isdigit() or len(declared) > 18 or int(declared) > limit):
            await answer.refuse(413)
            return None
        body = bytearray()
        with anyio.move_on_after(self._settings.body_timeout):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                body += message.get("body", b"")
                if len(body) > limit:
                    await answer.refuse(413)
                    return None
                if not message.get("more_body", False):
                    return bytes(body)
        await answer.refuse(408)
        return None

    def _note(self, scope: Scope, session: str | None, principal: str | None, answer: "_Answer") -> None:
        """Note a session that was opened or has ended, as the answer says."""
        if session is None and answer.session is not None:
            self._sessions.opened(answer.session, principal)
        elif session is not None and (answer.status == 404 or (scope["method"] == "DELETE" and answer.status == 200)):
            self._sessions.ended(session)

    async def _make_room(self, scope: Scope, principal: str | None) -> None:
        """End an idle session where this request may open one and there is no room."""
        version = _header(scope, b"mcp-protocol-version")
        if version is not None and version.decode("latin-1") not in HANDSHAKE_PROTOCOL_VERSIONS:
            return
        idle = self._sessions.to_end(principal)
        if idle is None:
            return
        headers = [(b"host", _header(scope, b"host") or b""), (b"mcp-session-id", idle.encode("latin-1"))]
        await self._ask(dict(scope) | {"method": "DELETE", "headers": headers}, b"")
        self._sessions.ended(idle)

    async def _ask(self, scope: Scope, body: bytes) -> None:
        """Make a request of our own for a session; its answer is of no interest."""
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def ignore(message: Message) -> None:
            return None

        try:
            with anyio.move_on_after(CLOSE_WAIT):
                await self._app(scope, receive, ignore)
        except Exception:
            log.debug("a session ended meanwhile", exc_info=True)

    async def _cancel_call(self, scope: Scope, body: bytes) -> None:
        """Tell the session that the request in body is cancelled, as its client would by a notification.

        The stateless protocol needs none of this: the SDK cancels a call whose response is closed.
        """
        version = _header(scope, b"mcp-protocol-version")
        session = _header(scope, b"mcp-session-id")
        modern = version is not None and version.decode("latin-1") not in HANDSHAKE_PROTOCOL_VERSIONS
        if self._settings.transport != "http" or scope["method"] != "POST" or session is None or modern:
            return
        try:
            request = from_json(body)
        except ValueError:
            return
        if not isinstance(request, dict) or "method" not in request or not isinstance(request.get("id"), (str, int)):
            return
        params = {"requestId": request["id"], "reason": "the response was closed"}
        notification = to_json({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        await self._ask(dict(scope), notification)

    async def _close(self) -> None:
        self._drained = anyio.Event()
        if any(self._live.values()) and self._settings.drain:
            with anyio.move_on_after(self._settings.drain):
                await self._answered.wait()
        for live in list(self._live):
            live.cancel()
        if self._live:
            with anyio.move_on_after(CLOSE_WAIT):
                await self._drained.wait()


class _Answer:
    """The response of one request: what was sent of it, and its line in the access log."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.scope = scope
        self.principal: str | None = None
        self.gone = False
        self.status = 0
        self.session: str | None = None
        self._send = send
        self._started = False
        self._complete = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            self.status = message["status"]
            opened = [value for name, value in message.get("headers", ()) if name.lower() == b"mcp-session-id"]
            if opened and self.status == 200:
                self.session = opened[0].decode("latin-1")
            self._log(self.status)
            date = (b"date", formatdate(usegmt=True).encode())
            message = {**message, "headers": [date, *message.get("headers", ())]}
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._complete = True
        await self._send(message)

    async def tell(self, document: bytes) -> None:
        """Answer with a JSON document that anybody may read."""
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(document)).encode())]
        await self.send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.send({"type": "http.response.body", "body": document})

    async def refuse(self, status: int, oauth: OAuthSettings | None = None) -> None:
        headers = [(b"content-length", b"0")]
        if status == 401 or (status == 403 and oauth):
            headers.append((b"www-authenticate", _challenge(status, oauth)))
        if status < 500:
            # Who is refused has no connection to hold on to.
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    async def finish(self) -> None:
        """End a response that was cut short, so that the connection can go."""
        if not self._started:
            await self.refuse(503)
        elif not self._complete:
            await self.send({"type": "http.response.body", "body": b""})

    def left(self) -> None:
        """Note that the client is gone."""
        self.gone = self.gone or not self._complete

    def _log(self, status: int) -> None:
        # The raw path: it holds no query, which may carry a session id, and no decoded line ends.
        path = self.scope.get("raw_path", b"").decode("ascii", "backslashreplace")
        client = self.scope.get("client") or ("-", 0)
        access_log.info("%s %s %s %d %s", client[0], self.scope["method"], path, status, self.principal or "-")


def _verifier(oauth: OAuthSettings | None) -> "TokenVerifier | None":
    if oauth is None:
        return None
    # It takes a tenth of a second to import.
    from .oauth import TokenVerifier

    return TokenVerifier(oauth)


def _challenge(status: int, oauth: OAuthSettings | None) -> bytes:
    """Return what a client needs in order to come back with a token (RFC 6750, RFC 9728)."""
    if oauth is None:
        return b"Bearer"
    lacking = f'error="insufficient_scope", scope="{oauth.scopes[0]}", ' if status == 403 else ""
    return f'Bearer {lacking}resource_metadata="{oauth.metadata_url}"'.encode("ascii", "replace")


def _replay(body: bytes, receive: Receive, answer: _Answer) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        if first:
            return first.pop()
        message = await receive()
        if message["type"] == "http.disconnect":
            answer.left()
        return message

    return replay


def _is_crowded(body: bytes) -> bool:
    if len(body) <= MAX_PARTS:
        return False
    try:
        data = from_json(body)
    except ValueError:  # which costs nothing, and is for the routes to answer
        return False
    return isinstance(data, dict) and too_many_values(data, len(body))


def _headers(scope: Scope, name: bytes) -> list[bytes]:
    headers: Headers = scope["headers"]
    return [value for key, value in headers if key == name]


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next(iter(_headers(scope, name)), None)
