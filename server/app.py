"""The MCP server object around the pipeline: the listing, and calls in both protocol eras."""

import time
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mcp_types as t
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.methods import is_input_required
from opentelemetry import trace

from ..safety.text import visible_name
from ..tools.context import CallContext
from ..tools.progress import Report
from . import prompts
from .call.approvals import ClientAsk
from .call.context import call_context
from .call.pipeline import Pipeline
from .completions import Completions
from .log_messages import log_begin, log_end, wanted_level
from .resources.resources import Resources
from .resources.sessions import SessionStore
from .transports.caller import ANONYMOUS, Caller, at_session_end, caller

NAME = "toolbox-mcp"

ICON = t.Icon(
    src="data:image/svg+xml;base64,"
    + b64encode(
        b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='#1f6feb' stroke-width='2'>"
        b"<path d='M3 9h18v11H3zM8 9V5h8v4M3 14h7m4 0h7M10 12h4v4h-4z'/></svg>"
    ).decode(),
    mime_type="image/svg+xml",
    sizes=["any"],
)
"""A toolbox, for lists of servers."""


MAP = t.Resource(
    uri="toolbox://map",
    name="map",
    description="Map of the repository: its most used files with their definitions",
    mime_type="text/plain",
)
MAPPER = "code_outline"
"""The tool whose answer the map is."""


def instructions(listed: Collection[str], folders: Sequence[Path], *, closed: bool) -> str:
    """Return the instructions for using the listed tools together.

    folders: beside the base. closed: whether there are tools that the operator can open.
    """
    find = [name for name in ("glob", "grep_files", "tree") if name in listed]
    advice = []
    if find and "read_file" in listed:
        advice.append(f"Find with {', '.join(find)}, then read_file the lines that matter.")
    if {"edit_file", "write_file"} <= {*listed}:
        advice.append("Edit with edit_file rather than rewriting.")
    lines = ["Developer tools over one project folder; paths are relative to it.", " ".join(advice)]
    if folders:
        # Nothing else tells of them, as a listing begins at the base.
        lines[0] += f" Other folders, by absolute paths: {', '.join(visible_name(str(each)) for each in folders)}."
    lines.append("Answers are cut to a token budget: the cut says which argument gets the rest.")
    lines.append("A failure is {error, code, hint}: do what the hint says.")
    if closed:
        lines[-1] += " A tool that is not enabled can only be opened by the operator."
    return "\n".join(filter(None, lines))


def build(
    pipeline: Pipeline,
    owners: SessionStore,
    resources: Resources,
    completions: Completions | None = None,
    present: Callable[[t.Tool], t.Tool] = lambda tool: tool,
) -> Server[Any]:
    """Return a server that lists the exposed tools, answers their calls and shows the resources of each caller."""
    exposure = pipeline.exposure

    @cache
    def listing() -> t.ListToolsResult:
        # At the first request: the schemas take longer than all else between the imports and the answer to initialize.
        return t.ListToolsResult(
            tools=[present(exposure.tools[name].to_mcp(structured=pipeline.structured)) for name in exposure.listed]
        )

    def schema(name: str) -> Mapping[str, Any] | None:
        return exposure.tools[name].to_mcp().input_schema if name in exposure.tools else None

    def arrive(ctx: ServerRequestContext[Any, Any]) -> Caller:
        who = caller(ctx)
        if who.session_id is not None and owners.begin(who.owner):

            async def ended() -> None:
                owners.drop(who.owner)

            # Where no end can be seen, the session is the life of the server.
            at_session_end(ctx, ended)
        if not who.owner.startswith(ANONYMOUS):
            owners.of(who.owner)
        return who

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: t.PaginatedRequestParams | None
    ) -> t.ListToolsResult:
        return listing()

    async def call_tool(ctx: ServerRequestContext[Any, Any], params: t.CallToolRequestParams) -> HandlerResult:
        if params.name not in exposure.tools:
            raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name[:100]}")
        who = arrive(ctx)
        state = owners.of(who.owner)
        level, since = wanted_level(ctx, state.log_level), time.monotonic()
        try:
            await log_begin(ctx, level, params.name)
            result = await pipeline.call(
                params.name,
                params.arguments or {},
                _context(ctx, who),
                report=_report(ctx),
                ask=ClientAsk(ctx, params),
                approved=state.approved,
            )
            await log_end(ctx, level, params.name, result, time.monotonic() - since)
            return result
        finally:
            resources.look(who.owner)
            if who.owner.startswith(ANONYMOUS):
                owners.drop(who.owner)

    async def list_resources(
        ctx: ServerRequestContext[Any, Any], params: t.PaginatedRequestParams | None
    ) -> t.ListResourcesResult:
        found = resources.listing(arrive(ctx).owner)
        return found.model_copy(update={"resources": [MAP, *found.resources]}) if MAPPER in exposure.listed else found

    async def list_templates(
        ctx: ServerRequestContext[Any, Any], params: t.PaginatedRequestParams | None
    ) -> t.ListResourceTemplatesResult:
        return resources.templates()

    async def read_resource(
        ctx: ServerRequestContext[Any, Any], params: t.ReadResourceRequestParams
    ) -> t.ReadResourceResult:
        who = arrive(ctx)
        if params.uri == MAP.uri and MAPPER in exposure.listed:
            answer = await pipeline.call(MAPPER, {}, _context(ctx, who))
            # With an approval to ask for, there is no answer yet.
            text = answer["content"][0]["text"] if isinstance(answer, dict) else f"{MAPPER} needs an approval"
            if not isinstance(answer, dict) or answer["isError"]:
                raise MCPError(t.INTERNAL_ERROR, text)
            return t.ReadResourceResult(
                contents=[t.TextResourceContents(uri=MAP.uri, mime_type="text/plain", text=text)]
            )
        return await resources.read(who.owner, ctx, str(params.uri))

    async def subscribe(ctx: ServerRequestContext[Any, Any], params: t.SubscribeRequestParams) -> t.EmptyResult:
        return await resources.subscribe(arrive(ctx).owner, ctx, str(params.uri))

    async def unsubscribe(ctx: ServerRequestContext[Any, Any], params: t.UnsubscribeRequestParams) -> t.EmptyResult:
        return resources.unsubscribe(arrive(ctx).owner, str(params.uri))

    async def set_level(ctx: ServerRequestContext[Any, Any], params: t.SetLevelRequestParams) -> t.EmptyResult:
        owners.of(arrive(ctx).owner).log_level = params.level
        return t.EmptyResult()

    async def list_prompts(
        ctx: ServerRequestContext[Any, Any], params: t.PaginatedRequestParams | None
    ) -> t.ListPromptsResult:
        return prompts.listing()

    async def get_prompt(ctx: ServerRequestContext[Any, Any], params: t.GetPromptRequestParams) -> t.GetPromptResult:
        written = prompts.written(params.name, params.arguments or {}, exposure.listed)
        if written is None:
            raise MCPError(t.INVALID_PARAMS, f"Unknown prompt: {params.name[:100]}")
        return written

    async def complete(ctx: ServerRequestContext[Any, Any], params: t.CompleteRequestParams) -> t.CompleteResult:
        if completions is None:
            return t.CompleteResult(completion=t.Completion(values=[]))
        return await completions.of(arrive(ctx).owner, params.ref, params.argument.name, params.argument.value)

    async def listen(
        ctx: ServerRequestContext[Any, Any], params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        return await resources.listen(arrive(ctx).owner, ctx, params)

    server: Server[Any] = Server(
        NAME,
        version=version(NAME),
        title="Toolbox",
        icons=[ICON],
        instructions=instructions(exposure.listed, pipeline.folders[1:], closed=bool(exposure.closed)),
        cache_hints={"tools/list": CacheHint(ttl_ms=3_600_000, scope="public")},
        get_tool_input_schema=schema,
        on_list_tools=list_tools,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=listen,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
    )
    # Not as on_call_tool, which takes models only.
    server.add_request_handler("tools/call", t.CallToolRequestParams, call_tool)
    # Not as on_set_logging_level, whose overload is deprecated together with the request.
    server.add_request_handler("logging/setLevel", t.SetLevelRequestParams, set_level)
    if _is_traced():
        from .telemetry import Telemetry

        server.middleware.append(Telemetry())
    else:
        # Making spans takes a tenth of a small call.
        server.middleware.clear()
    server.middleware.append(LateBoundary())
    return server


def _is_traced() -> bool:
    """Return True if somebody collects spans."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


class LateBoundary(ServerMiddleware[Any]):
    """The SDK's seal on what a client holds of an unfinished call, made when there is something to seal or to open.

    It imports cryptography, which most sessions never need.
    """

    def __init__(self) -> None:
        """Start without a key."""
        self._boundary: ServerMiddleware[Any] | None = None

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass on what holds no state; leave the rest to the SDK."""
        if self._boundary is None and (ctx.params or {}).get("requestState") is None:
            result = await call_next(ctx)
            if not is_input_required(result):
                return result

            async def answered(ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
                return result

            return await self._made()(ctx, answered)
        return await self._made()(ctx, call_next)

    def _made(self) -> ServerMiddleware[Any]:
        if self._boundary is None:
            from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

            self._boundary = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME)
        return self._boundary


def _context(ctx: ServerRequestContext[Any, Any], who: Caller) -> CallContext:
    assert ctx.request_id is not None
    return call_context(ctx.meta or {}, who, ctx.request_id, ctx.session.client_params)


def _report(ctx: ServerRequestContext[Any, Any]) -> Report | None:
    return None if (ctx.meta or {}).get("progress_token") is None else ctx.session.report_progress
