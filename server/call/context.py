"""The context of a call: what the client says of itself and of what it is doing."""

from collections.abc import Mapping
from typing import Any

from mcp_types import InitializeRequestParams, RequestId

from ...tools.context import CallContext
from ..transports.caller import Caller

CONTEXT_KEY = "toolbox-mcp/context"
"""Where a client puts its call context in _meta (TOOLS.md §6.1)."""

_NOTHING: Mapping[str, Any] = {}


def call_context(
    meta: Mapping[str, Any], who: Caller, request: RequestId, introduced: InitializeRequestParams | None
) -> CallContext:
    """Return who calls, from the _meta of the request, what the transport knows and how the client introduced itself."""
    sent = meta.get(CONTEXT_KEY)
    told: Mapping[str, Any] = sent if isinstance(sent, dict) else _NOTHING
    params = told.get("params")
    client = introduced.client_info if introduced else None
    return CallContext(
        id=_word(told.get("execution_id")) or f"{who.owner}:{request}",
        tenant_id=_word(told.get("tenant_id")),
        agent=_word(told.get("agent")),
        client=(client.name[:200], client.version[:200]) if client else None,
        session=who.owner,
        principal=who.principal,
        params=params if isinstance(params, dict) else {},
    )


def _word(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None
