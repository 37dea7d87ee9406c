"""The conformance fixtures on this project's own stack: pipeline, MCP app and HTTP transport. Never part of a wheel.

    cd tests && python -m interop.fixture_server PORT ROOT

What a tool can be is one (fixtures_tools.py) and goes through the pipeline; what the suite wants beyond that stands
beside it (fixtures_raw.py, fixtures_content.py), in front of the same app and transport.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types as t
from interop.fixtures_content import add_content
from interop.fixtures_raw import Ctx, fixtures
from interop.fixtures_tools import TOOLS
from mcp.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from toolbox_mcp.server.build import build_server
from toolbox_mcp.server.config.load import load
from toolbox_mcp.server.transports.http.app import serve
from toolbox_mcp.server.transports.http.settings import HttpSettings


def add_fixtures(server: Server[Any]) -> None:
    """Put the raw fixtures beside the tools that the server has."""
    bus = InMemorySubscriptionBus()
    raw = fixtures(bus)
    list_ours = server.get_request_handler("tools/list")
    call_ours = server.get_request_handler("tools/call")
    schema_of_ours = server.get_tool_input_schema
    assert list_ours is not None and call_ours is not None and schema_of_ours is not None

    async def list_tools(ctx: Ctx, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        ours = await list_ours.handler(ctx, params)
        assert isinstance(ours, t.ListToolsResult)
        both = [*ours.tools, *(fixture.to_mcp() for fixture in raw.values())]
        return t.ListToolsResult(tools=sorted(both, key=lambda tool: tool.name))

    async def call_tool(ctx: Ctx, params: t.CallToolRequestParams) -> Any:
        if params.name in raw:
            return await raw[params.name].call(ctx, params)
        return await call_ours.handler(ctx, params)

    server.add_request_handler("tools/list", t.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", t.CallToolRequestParams, call_tool)
    server.add_request_handler("subscriptions/listen", t.SubscriptionsListenRequestParams, ListenHandler(bus))
    server.get_tool_input_schema = lambda name: raw[name].schema if name in raw else schema_of_ours(name)


async def main(port: int, root: str) -> None:
    """Serve until a signal comes; says on stderr where."""
    config = load(["--root", root, "--set", "records=false"], {}, cwd=Path(root))
    async with build_server(config, {}, TOOLS) as toolbox:
        add_fixtures(toolbox.server)
        add_content(toolbox.server)
        await serve(
            toolbox.server, HttpSettings(port=port), on_ready=lambda url: print(url, file=sys.stderr, flush=True)
        )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
