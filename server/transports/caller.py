"""Who is calling: the transport, its session and the bearer principal of one request."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal
from uuid import uuid4

from mcp.server.context import ServerRequestContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

SCOPE_KEY = "toolbox_mcp.caller"
"""Where the HTTP gate leaves the Caller in the ASGI scope."""

SESSION_END_KEY = "toolbox_mcp.session_end"
"""Where a transport with sessions of its own leaves the function that registers an end callback."""


ANONYMOUS: Final = "anonymous:"
"""How the owner of a request without a session and without a token begins: it owns nothing beyond that request."""


@dataclass(frozen=True)
class Caller:
    """One caller as the transport knows it.

    session_id: the constant `stdio` on pipes and in memory, the session's id over HTTP and SSE, None for a
    request outside of any session. principal: the name of the bearer token, None without tokens.
    """

    transport: Literal["stdio", "http", "sse"]
    session_id: str | None
    principal: str | None

    @cached_property
    def owner(self) -> str:
        """The key that state belongs to: the session, else the principal, else this request alone."""
        if self.session_id is not None:
            return f"session:{self.session_id}"
        return f"principal:{self.principal}" if self.principal is not None else f"{ANONYMOUS}{uuid4().hex}"


STDIO_CALLER: Final = Caller("stdio", "stdio", None)
"""The one client on pipes or in memory."""


def caller(ctx: ServerRequestContext[Any, Any]) -> Caller:
    """Return who sent this request.

    A session id counts only where the transport checked it. The stateless protocol has no sessions and ignores
    the session header, so there it would be a claim by the client about somebody else's session.
    """
    if ctx.request is None:
        return STDIO_CALLER
    found: Caller = ctx.request.scope[SCOPE_KEY]
    if found.transport == "http" and ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return replace(found, session_id=None)
    return found


def at_session_end(ctx: ServerRequestContext[Any, Any], clean_up: Callable[[], Awaitable[None]]) -> bool:
    """Run clean_up once when the session of this request ends, however it ends.

    Returns False where no session's end can be seen: a stateless request over HTTP, and a stateless client on
    pipes, whose session is the life of the server.
    """
    if ctx.request is not None and SESSION_END_KEY in ctx.request.scope:
        ctx.request.scope[SESSION_END_KEY](clean_up)
        return True
    if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return False
    # The SDK keeps the connection's exit stack behind the session and offers no public way to it.
    ctx.session._connection.exit_stack.push_async_callback(clean_up)
    return True
