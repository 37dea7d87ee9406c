"""A server of the SDK alone, on this server's pipes: one tool that answers a text and does nothing else.

What a call of it takes is what a call through the SDK cannot be below. As the peer of a comparison:

    python bench/stdio_calls.py --server "mcp-server-filesystem ." --call read_text_file '{"path": "README.md"}' \
        --peer "python bench/sdk_alone.py" --peer-call say '{"characters": 120}'
"""

import gc
from typing import Any

import anyio
import mcp_types as t
from mcp.server import Server, ServerRequestContext

from toolbox_mcp.server.transports.stdio.serve import serve

SCHEMA = {"type": "object", "properties": {"characters": {"type": "integer"}}}


async def tools(ctx: ServerRequestContext[Any, Any], params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    return t.ListToolsResult(tools=[t.Tool(name="say", input_schema=SCHEMA)])


async def say(ctx: ServerRequestContext[Any, Any], params: t.CallToolRequestParams) -> t.CallToolResult:
    count = (params.arguments or {}).get("characters", 1)
    return t.CallToolResult(content=[t.TextContent(type="text", text="x" * count)])


async def main() -> None:
    server: Server[Any] = Server("sdk-alone", version="1", on_list_tools=tools, on_call_tool=say)
    # What makes spans, which ours leaves out where nobody collects them.
    server.middleware.clear()
    gc.freeze()
    await serve(server)


if __name__ == "__main__":
    anyio.run(main)
