"""Calls of a client on pipes whose message holds nothing but a tool's name, arguments and metadata.

What the SDK does on the way from a message to a handler and back (three models of the request, a context, two of the
result) takes as long as a small call itself, and comes to nothing for such a message. Everything else goes that way.
"""

from collections.abc import Awaitable, Coroutine
from typing import Any, Final

from mcp.server.connection import Connection
from mcp_types import PROTOCOL_VERSION_META_KEY, InputRequiredResult, JSONRPCRequest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from ...tools.progress import Report
from ..resources.resources import Resources
from ..resources.sessions import Owners
from ..transports.caller import PIPES
from .context import call_context
from .pipeline import Pipeline, Result

_PARTS: Final = frozenset({"name", "arguments", "_meta"})
_PROGRESS: Final = "progressToken"
_VERSIONS: Final = frozenset(HANDSHAKE_PROTOCOL_VERSIONS)


class DirectCalls:
    """Answers calls as the SDK does with the handler of server/app.py."""

    def __init__(self, pipeline: Pipeline, owners: Owners, resources: Resources) -> None:
        self._pipeline = pipeline
        self._tools = pipeline.exposure.tools
        self._owners = owners
        self._resources = resources

    def begin(
        self, connection: Connection, request: JSONRPCRequest, report: Report, *, alone: bool
    ) -> Result | Coroutine[Any, Any, Result] | None:
        """Return the result of a request or, where something has to be waited for, what gives it when it is awaited.

        alone: as for Pipeline.begin(). None for a request that has to go through the SDK. That is also the first call of
        a session, at which its state is made.
        """
        params = request.params
        if request.method != "tools/call" or params is None or not params.keys() <= _PARTS:
            return None
        if not connection.initialize_accepted or connection.protocol_version not in _VERSIONS:
            return None
        name, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
        if not isinstance(name, str) or name not in self._tools or self._pipeline.may_ask(name):
            return None
        if not isinstance(arguments, dict | None) or not isinstance(meta, dict | None):
            return None
        if not self._owners.knows(PIPES.owner):
            return None
        reports = None
        if meta:
            if PROTOCOL_VERSION_META_KEY in meta:
                return None
            if _PROGRESS in meta:
                token = meta[_PROGRESS]
                if isinstance(token, bool) or not isinstance(token, str | int):
                    return None
                reports = report
        begun = self._pipeline.begin(
            name,
            arguments or {},
            call_context(meta or {}, PIPES, request.id, connection.client_params),
            report=reports,
            approved=self._owners.of(PIPES.owner).approved,
            alone=alone,
        )
        if not isinstance(begun, dict):
            return self._awaited(begun)
        self._resources.look(PIPES.owner)
        return _shaped(begun)

    async def _awaited(self, begun: Awaitable[Result | InputRequiredResult]) -> Result:
        try:
            result = await begun
        finally:
            self._resources.look(PIPES.owner)
        # A call that asks nobody needs no further input.
        assert isinstance(result, dict)
        return _shaped(result)


def _shaped(result: Result) -> Result:
    # It tells apart what only the stateless era has.
    del result["resultType"]
    return result
