"""A small server behind the real transports: python example.py stdio | http PORT | sse PORT [name=value ...]."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
from mcp import MCPError
from mcp.server import Server

from toolbox_mcp.server.transports.caller import at_session_end, caller

ANY = {"type": "object"}
TOOLS = [
    t.Tool(name=name, description=name, input_schema=ANY)
    for name in ("bytes", "crash", "echo", "hold", "print", "stubborn", "surrogate", "who")
]


class Example:
    """Tools that make what happens to a call visible from outside, by marks on a named pipe."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks
        self.holding: dict[str, asyncio.Event] = {}
        self.running = 0
        self.most = 0
        self.server: Server[Any] = Server(
            "example", version="1", on_list_tools=self.list_tools, on_call_tool=self.call_tool
        )

    async def over(self, name: str) -> None:
        self.mark(f"{name}.over")

    def mark(self, name: str) -> None:
        """Report what happened."""
        with open(self.marks, "w") as pipe:
            pipe.write(f"{name}\n")

    def mark_start(self) -> None:
        """Leave a mark once the server serves."""
        inner = self.server.lifespan

        @asynccontextmanager
        async def marking(server: Server[Any]) -> AsyncIterator[Any]:
            async with inner(server) as state:
                self.mark("ready")
                yield state

        self.server.lifespan = marking

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=TOOLS)

    async def call_tool(self, ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return t.CallToolResult(content=[t.TextContent(text=await self.answer(ctx, params))])
        finally:
            self.running -= 1

    async def answer(self, ctx: Any, params: t.CallToolRequestParams) -> str:
        a = params.arguments or {}
        if "at_end" in a:
            assert at_session_end(ctx, lambda: self.over(a["at_end"]))
        match params.name:
            case "echo":
                return a["text"]
            case "bytes":
                return "x" * a["count"]
            case "crash":
                raise RuntimeError("secret")
            case "print":
                return shout(a["text"])
            case "surrogate":
                return "a\udc80b"
            case "stubborn":
                return await self.hold(a["name"], stubborn=True)
            case "who":
                return repr(caller(ctx))
            case "hold":
                return await self.hold(a["name"])
        raise MCPError(t.INVALID_PARAMS, f"Unknown tool: {params.name}")

    async def hold(self, name: str, stubborn: bool = False) -> str:
        """Run until released or cancelled; leave a mark for the start and the end."""
        self.mark(f"{name}.started")
        release = self.holding.setdefault(name, asyncio.Event())
        try:
            await release.wait()
        except asyncio.CancelledError:
            self.mark(f"{name}.cancelled")
            with anyio.CancelScope(shield=stubborn):
                await (release.wait() if stubborn else anyio.lowlevel.checkpoint())
            raise
        return f"released {name}"


def shout(text: str) -> str:
    """Write to every stdout there is; return what stdin holds."""
    print(text, flush=True)
    os.write(1, b"from fd 1\n")
    os.system("echo from a child")
    return sys.stdin.read()


def main() -> None:
    kind, marks, *rest = sys.argv[1:]
    example = Example(Path(marks))
    if kind == "stdio":
        from toolbox_mcp.server.transports.stdio.serve import serve

        options: dict[str, Any] = {name: int(value) for name, value in (word.split("=") for word in rest)}
        if options.pop("ready", None):
            example.mark_start()
        stop = partial(example.mark, "stopping")
        sys.exit(asyncio.run(serve(example.server, on_stop=stop, **options)))
    else:
        from toolbox_mcp.server.transports.http.app import serve
        from toolbox_mcp.server.transports.http.settings import HttpSettings

        settings = HttpSettings(transport=kind, port=0, **json.loads(rest[0] if rest else "{}"))
        ready, stop = partial(print, flush=True), partial(example.mark, "stopping")
        sys.exit(asyncio.run(serve(example.server, settings, on_ready=ready, on_stop=stop)))


if __name__ == "__main__":
    main()
