"""The operator's proxy gets judged addresses, and no names."""

import asyncio

import pytest

from toolbox_mcp.safety.web.policy import WebPolicy
from toolbox_mcp.tools.web._http import Http


@pytest.fixture
async def proxy():
    """Return a proxy on loopback: its port, what it was asked, and what it answers; it leads anywhere to a port of loopback."""
    asked: list[str] = []
    state = {"answer": b"HTTP/1.1 200 OK\r\n\r\n", "to": 0}
    tasks = set()

    async def pump(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(state["answer"])
        if b" 200 " in state["answer"]:
            there = await asyncio.open_connection("127.0.0.1", state["to"])
            await asyncio.wait(
                [asyncio.ensure_future(pump(reader, there[1])), asyncio.ensure_future(pump(there[0], writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            there[1].transport.abort()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], asked, state
    server.close()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_name_is_resolved_and_judged_here_and_the_proxy_gets_the_address(call, site, proxy):
    port, asked, state = proxy
    state["to"] = site.port

    async def resolve(host, port):
        return {"public.example": ["93.184.216.34"], "inner.example": ["10.0.0.1"]}.get(host, [])

    call.http = Http(WebPolicy(ports=(80,)), timeout=2.0, resolve=resolve, proxy=f"127.0.0.1:{port}")
    site.page("/a", "text", "text/plain")
    assert (await call("web_fetch", url="http://public.example/a")).endswith("text")
    assert asked[0].startswith("CONNECT 93.184.216.34:80 HTTP/1.1\r\n") and "public.example" not in asked[0]
    assert (await call("web_fetch", url="http://inner.example/a"))["code"] == "url_blocked"
    assert len(asked) == 1


@pytest.mark.parametrize("answer", [b"HTTP/1.1 403 Forbidden\r\n\r\n", b"nonsense\r\n\r\n", b"x" * 10_000, b""])
async def test_a_proxy_that_refuses_or_talks_nonsense_is_a_failure(call, proxy, answer):
    port, _, state = proxy
    state["answer"] = answer

    async def resolve(host, port):
        return ["93.184.216.34"]

    call.http = Http(WebPolicy(ports=(80,)), timeout=2.0, resolve=resolve, proxy=f"127.0.0.1:{port}")
    assert (await call("web_fetch", url="http://public.example/a"))["code"] == "fetch_failed"
