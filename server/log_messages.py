"""Log messages to a client about its own calls, where it asks for them.

A client of the handshake era asks by logging/setLevel for its session, a stateless one by `_meta` of each request.
Nobody hears of another's calls, and nothing of the server's own log is sent.
"""

from typing import Any, Final, get_args

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from ..safety.errors import Code

LEVELS: Final[tuple[t.LoggingLevel, ...]] = get_args(t.LoggingLevel)
"""From the least to the most severe."""


def wanted_level(ctx: ServerRequestContext[Any, Any], of_session: t.LoggingLevel | None) -> t.LoggingLevel | None:
    """Return the least level that the client of a request asked for; None for no messages."""
    if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return of_session
    level = (ctx.meta or {}).get(t.LOG_LEVEL_META_KEY)
    return level if level in LEVELS else None


async def log_begin(ctx: ServerRequestContext[Any, Any], wanted: t.LoggingLevel | None, tool: str) -> None:
    """Tell the client that a call of a tool begins (debug)."""
    await _send(ctx, wanted, "debug", {"tool": tool, "event": "begin"})


async def log_end(
    ctx: ServerRequestContext[Any, Any], wanted: t.LoggingLevel | None, tool: str, result: Any, seconds: float
) -> None:
    """Tell the client how a call ended: answered (info), refused (warning), failed inside the server (error).

    result: what the pipeline returned.
    """
    if wanted is None:
        return
    data: dict[str, Any] = {"tool": tool, "event": "end", "ms": round(seconds * 1000)}
    if not isinstance(result, dict):
        return await _send(ctx, wanted, "info", data | {"event": "input_required"})
    data["call_id"] = result["_meta"]["call_id"]
    if not result["isError"]:
        return await _send(ctx, wanted, "info", data)
    failure = result["structuredContent"]
    level: t.LoggingLevel = "error" if failure["code"] == Code.TOOL_EXCEPTION else "warning"
    await _send(ctx, wanted, level, data | {"code": failure["code"], "error": failure["error"]})


async def _send(
    ctx: ServerRequestContext[Any, Any], wanted: t.LoggingLevel | None, level: t.LoggingLevel, data: dict[str, Any]
) -> None:
    if wanted is None or LEVELS.index(level) < LEVELS.index(wanted):
        return
    params = t.LoggingMessageNotificationParams(level=level, logger="toolbox-mcp", data=data)
    await ctx.session.send_notification(t.LoggingMessageNotification(params=params), related_request_id=ctx.request_id)
