import asyncio
import gc
import json
import logging
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tests.patience import patience
from tests.tables import each_row
from toolbox_mcp.server.transports.http.bearer import digests
from toolbox_mcp.server.transports.http.connections import NO_LINGER, _Connection
from toolbox_mcp.server.transports.http.settings import HttpSettings

EXAMPLE = str(Path(__file__).with_name("example.py"))
ALICE, BOB = "alice-" + "a" * 32, "bob-" + "b" * 32
TOKENS = digests({"alice": ALICE, "bob": BOB})
BOTH = pytest.mark.parametrize("transport", ["http", "sse"])
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@asynccontextmanager
async def client(site, mode="auto", token=None):
    headers = {"authorization": f"Bearer {token}"} if token else None
    if site.path == "/sse":
        transport = sse_client(site.url, headers=headers)
        async with Client(transport, mode=mode) as found:
            yield found
    else:
        http = httpx2.AsyncClient(headers=headers, timeout=30)
        async with http, Client(streamable_http_client(site.url, http_client=http), mode=mode) as found:
            yield found


def call(number, tool, **arguments):
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def modern(number, tool, **arguments):
    message = call(number, tool, **arguments)
    message["params"]["_meta"] = MODERN
    return message


def modern_headers(tool):
    return {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": tool}


async def text(client, tool, **arguments):
    return (await client.call_tool(tool, arguments)).content[0].text


@BOTH
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdks_client_lists_calls_and_survives_a_crash(served, transport, mode):
    async with served(transport=transport) as site, client(site, mode) as found:
        assert found.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        assert len((await found.list_tools()).tools) > 3
        with pytest.raises(MCPError):
            await found.call_tool("crash", {})
        assert await text(found, "echo", text="fine") == "fine"


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_500_calls_in_turn_and_200_at_once_are_all_answered(served, example, transport, mode):
    async with served(transport=transport) as site, client(site, mode) as found:
        for number in range(500):
            assert await text(found, "echo", text=f"t{number}") == f"t{number}"
        answers = await asyncio.gather(*(text(found, "echo", text=f"t{number}") for number in range(200)))
        assert answers == [f"t{number}" for number in range(200)]
    assert example.running == 0


@BOTH
@each_row(
    ("host", "status"),
    [
        ("127.0.0.1:PORT", None),
        ("localhost:PORT", None),
        ("LOCALHOST:PORT", None),
        ("[::1]:PORT", None),
        ("127.0.0.1", 421),
        ("127.0.0.1:1", 421),
        ("127.0.0.1:PORT1", 421),
        ("evil.example", 421),
        ("evil.example:PORT", 421),
        ("127.0.0.1.evil.example:PORT", 421),
        ("localhost.evil.example:PORT", 421),
        ("localhost:PORT.evil.example", 421),
        ("localhost:PORT@evil.example", 421),
        ("evil.example#localhost:PORT", 421),
        ("127.1:PORT", 421),
        ("2130706433:PORT", 421),
        ("0.0.0.0:PORT", 421),
        ("[::ffff:127.0.0.1]:PORT", 421),
        ("", 421),
    ],
)
async def test_the_host_is_compared_whole(served, transport, host, status):
    async with served(transport=transport) as site:
        for method, path in (("POST", site.path), ("GET", "/messages/"), ("GET", "/nowhere")):
            head = site.head(method, path, host=host.replace("PORT", str(site.port)), content_length="0")
            got, headers, body = await site.send(head)
            assert (got == 421) is (status == 421)
            if status:
                assert (body, "www-authenticate" in headers) == (b"", False)


@pytest.mark.parametrize(
    "head",
    [
        "POST /mcp HTTP/1.0\r\ncontent-length: 0\r\n\r\n",
        "POST /mcp HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\nhost: evil.example\r\ncontent-length: 0\r\n\r\n",
        "POST http://evil.example/mcp HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\ncontent-length: 0\r\n\r\n",
        "POST http://evil.example/mcp HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 0\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    ],
)
async def test_a_missing_double_or_absolute_host_is_refused(served, head):
    async with served() as site:
        assert (await site.send(head.replace("PORT", str(site.port)).encode()))[0] in (400, 421)


@BOTH
@each_row(
    ("origin", "allowed"),
    [
        ("http://127.0.0.1:PORT", True),
        ("http://localhost:PORT", True),
        ("http://[::1]:PORT", True),
        ("https://app.example", True),
        ("https://app.example:443", True),
        ("http://app.example", False),
        ("https://app.example:444", False),
        ("https://app.example.evil.example", False),
        ("https://xapp.example", False),
        ("https://localhost:PORT", False),
        ("http://localhost:PORT.evil.example", False),
        ("http://localhost:9.evil.example", False),
        ("http://localhost", False),
        ("http://evil.example", False),
        ("http://localhost:PORT/", False),
        ("http://evil@localhost:PORT", False),
        ("null", False),
        ("", False),
        ("*", False),
        ("file://", False),
    ],
)
async def test_the_origin_is_compared_whole(served, transport, origin, allowed):
    async with served(transport=transport, allowed_origins=("https://app.example",)) as site:
        for method, path in (("POST", "/mcp"), ("POST", "/messages/"), ("DELETE", "/nowhere")):
            head = site.head(method, path, origin=origin.replace("PORT", str(site.port)), content_length="0")
            status, headers, body = await site.send(head)
            assert (status == 403) is not allowed
            assert not [name for name in headers if name.startswith("access-control")]
            assert allowed or body == b""


@BOTH
@pytest.mark.parametrize(
    ("authorization", "accepted"),
    [
        (f"Bearer {ALICE}", True),
        (f"bearer {BOB}", True),
        (None, False),
        ("", False),
        ("Bearer", False),
        (f"Basic {ALICE}", False),
        (f"Bearer {ALICE[:-1]}", False),
        (f"Bearer {ALICE}x", False),
        (f"Bearer {ALICE.upper()}", False),
        (f"Bearer {'x' * 5000}", False),
        (f"Bearer {TOKENS[0][1].hex()}", False),
    ],
)
async def test_every_route_needs_a_token_and_says_nothing_without(served, transport, authorization, accepted):
    async with served(transport=transport, tokens=TOKENS) as site:
        for method, path in (
            ("POST", "/mcp"), ("DELETE", "/mcp"), ("POST", "/messages/"), ("POST", "/sse"), ("GET", "/nowhere"),
            ("GET", f"/nowhere?token={ALICE}"), ("OPTIONS", "/mcp"),
        ):  # fmt: skip
            head = site.head(method, path, authorization=authorization, content_length="0")
            status, headers, body = await site.send(head)
            assert (status != 401) is accepted
            if not accepted:
                assert (body, headers["www-authenticate"]) == (b"", "bearer")


async def test_the_name_of_a_header_has_no_case(served):
    async with served(tokens=TOKENS) as site:
        head = site.head(authorization=None, AUTHORIZATION=f"Bearer {ALICE}", HOST=f"127.0.0.1:{site.port}", host=None)
        assert (await site.send(head.replace(b"\r\n\r\n", b"\r\ncontent-length: 0\r\n\r\n")))[0] == 400


@BOTH
async def test_a_body_above_the_limit_is_refused_declared_or_not(served, transport):
    async with served(transport=transport, max_body=1000) as site:
        path = "/mcp" if transport == "http" else "/messages/"
        assert (await site.send(site.head("POST", path, content_length="1001")))[0] == 413
        chunks = b"".join(b"64\r\n" + b"x" * 100 + b"\r\n" for _ in range(11))
        assert (await site.send(site.head("POST", path, transfer_encoding="chunked"), chunks))[0] == 413
        exact = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'.ljust(1000)
        assert (await site.send(site.head("POST", path, content_length="1000"), exact))[0] != 413


async def test_four_mebibytes_are_the_limit_by_default(served):
    async with served() as site:
        limit = 4 * 1024 * 1024
        assert (await site.send(site.head(content_length=str(limit + 1)), b"x" * (limit + 1)))[0] == 413
        body = json.dumps(modern(1, "echo", text="x" * (limit - 500))).encode()
        status, _, answer = await site.send(site.head(content_length=str(len(body)), **modern_headers("echo")), body)
        assert (status, len(answer) > limit - 500) == (200, True)


@BOTH
async def test_a_body_of_many_parts_is_refused(served, transport):
    async with served(transport=transport) as site:
        path = "/mcp" if transport == "http" else "/messages/"
        body = json.dumps(modern(1, "echo", text="x") | {"extra": [0] * 10_000}).encode()
        assert (await site.send(site.head("POST", path, content_length=str(len(body))), body))[0] == 413


async def test_nothing_is_kept_of_a_connection_that_the_client_reset(served, monkeypatch):
    lost = asyncio.Event()
    really = _Connection.connection_lost

    def connection_lost(self, exc):
        really(self, exc)
        lost.set()

    monkeypatch.setattr(_Connection, "connection_lost", connection_lost)
    async with served() as site:
        async with site.connected() as (reader, writer):
            writer.write(site.head(content_length=str(len(PING))) + PING)
            await site.answer(reader)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            writer.transport.abort()
            async with asyncio.timeout(10):
                await lost.wait()
        gc.collect()
        assert not [found for found in gc.get_objects() if isinstance(found, _Connection)]


async def drip(writer, data=b"x", times=10_000):
    """Send a byte at a time until the server hangs up."""
    try:
        for _ in range(times):
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0.01)
    except ConnectionError:
        pass


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda site: b"", id="silence"),
        pytest.param(lambda site: b"POST /mcp HTTP/1.1\r\nx-slow: ", id="head"),
        pytest.param(lambda site: site.head(content_length="100000"), id="body"),
        pytest.param(lambda site: site.head(transfer_encoding="chunked") + b"ffff\r\n", id="chunk"),
        pytest.param(lambda site: site.head(content_length="0") + b"GET /", id="second head"),
        pytest.param(lambda site: site.head("POST", host="evil.example", content_length="9999"), id="refused body"),
        pytest.param(lambda site: site.head("POST", content_length="99999999"), id="body too large"),
    ],
)
async def test_a_dripping_client_is_closed_while_others_are_served(served, transport, start):
    limits = {"head_timeout": 0.4, "body_timeout": 0.4}
    async with served(transport=transport, **limits) as site, site.connected() as (reader, writer):
        writer.write(start(site))
        dripping = asyncio.create_task(drip(writer, b"" if not start(site) else b"x"))
        assert (await site.send(site.head("GET", "/nowhere")))[0] == 404
        await site.closed(reader, 5)
        dripping.cancel()


def ask_and_do_not_read(port, request):
    """Return the poll events of a connection on which nothing was read, once it is over."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(request)
        watch = select.poll()
        watch.register(sock, 0)
        return watch.poll(10_000)


async def test_a_client_that_does_not_read_its_answer_is_closed(served):
    async with served(write_timeout=0.4) as site:
        body = json.dumps(modern(1, "bytes", count=50_000_000)).encode()
        request = site.head(content_length=str(len(body)), **modern_headers("bytes")) + body
        assert await asyncio.to_thread(ask_and_do_not_read, site.port, request)


async def test_more_streams_than_allowed_are_refused_until_one_ends(served):
    async with served(transport="sse", max_sessions=2) as site, client(site, "legacy"):
        async with client(site, "legacy"):
            assert (await site.send(site.head("GET")))[0] == 503
        async with asyncio.timeout(5), client(site, "legacy") as found:
            assert await text(found, "echo", text="room") == "room"


PING_AGAIN = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def test_where_there_is_no_room_the_longest_idle_session_ends(served):
    async with served(max_sessions=2) as site:
        first, second = await site.session(), await site.session()
        assert (await site.post(PING_AGAIN, mcp_session_id=first))[0] == 200
        third = await site.session()
        found = {name: (await site.post(PING_AGAIN, mcp_session_id=name))[0] for name in (first, second, third)}
        assert found == {first: 200, second: 404, third: 200}


async def test_a_session_with_a_stream_or_a_program_does_not_end_for_another(served):
    first: list[str] = []
    async with (
        served(max_sessions=2, keeps=lambda session: session in first) as site,
        site.connected() as (reader, writer),
    ):
        first.append(await site.session())
        second = await site.session()
        writer.write(site.head("GET", mcp_session_id=second, accept="text/event-stream"))
        assert (await site.answer(reader))[0] == 200
        opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
        assert (await site.post(opening))[0] == 503
        first.clear()
        third = await site.session()
        assert (await site.post(PING_AGAIN, mcp_session_id=third))[0] == 200


async def test_a_principal_ends_sessions_of_its_own_and_leaves_room_for_others(served):
    async with served(max_sessions=4, tokens=TOKENS) as site:
        site.token = ALICE
        alices = [await site.session() for _ in range(5)]
        site.token = BOB
        bobs = [await site.session() for _ in range(2)]
        found = {}
        for site.token, names in ((ALICE, alices), (BOB, bobs)):
            found.update({name: (await site.post(PING_AGAIN, mcp_session_id=name))[0] for name in names})
        assert [found[name] for name in alices] == [404, 404, 200, 200, 200]
        assert [found[name] for name in bobs] == [404, 200]


async def test_an_idle_session_ends_and_its_state_with_it(served, marks):
    async with served(idle_timeout=0.3) as site:
        session = await site.session()
        message = call(1, "echo", text="x", at_end="session")
        assert (await site.post(message, mcp_session_id=session))[0] == 200
        await marks.wait("session.over")
        assert (await site.post(message, mcp_session_id=session))[0] == 404


async def test_an_idle_sse_session_ends_though_its_stream_is_open(served):
    async with served(transport="sse", idle_timeout=0.3) as site, site.connected() as (reader, writer):
        writer.write(site.head("GET"))
        assert (await site.answer(reader))[0] == 200
        endpoint = await site.event(reader)
        async with asyncio.timeout(5):
            await reader.readuntil(b"0\r\n\r\n")
        assert (await site.send(site.head("POST", endpoint, content_length=str(len(PING))), PING))[0] == 404


async def test_a_session_over_http_belongs_to_the_principal_who_opened_it(served):
    async with served(tokens=TOKENS) as site:
        site.token = ALICE
        session = await site.session()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        site.token = BOB
        assert (await site.post(ping, mcp_session_id=session))[0] == 404
        assert (await site.send(site.head("GET", mcp_session_id=session)))[0] == 404
        assert (await site.send(site.head("DELETE", mcp_session_id=session)))[0] == 404
        assert (await site.post(ping, mcp_session_id="0" * 32))[0] == 404
        site.token = ALICE
        assert (await site.post(ping, mcp_session_id=session))[0] == 200


async def test_an_sse_session_belongs_to_the_principal_who_opened_it(served):
    async with served(transport="sse", tokens=TOKENS) as site, site.connected() as (reader, writer):
        site.token = ALICE
        writer.write(site.head("GET"))
        await site.answer(reader)
        endpoint = await site.event(reader)
        for token, status in ((BOB, 404), (ALICE, 202)):
            site.token = token
            assert (await site.send(site.head("POST", endpoint, content_length=str(len(PING))), PING))[0] == status
        assert await site.event(reader)
        assert (await site.send(site.head("POST", endpoint[:-1], content_length=str(len(PING))), PING))[0] == 404


@BOTH
async def test_a_handler_learns_who_calls(served, transport):
    async with served(transport=transport, tokens=TOKENS) as site:
        seen = {}
        for mode in ("legacy", "auto"):
            for token, name in ((ALICE, "alice"), (BOB, "bob")):
                async with client(site, mode, token) as found:
                    first, second = await text(found, "who"), await text(found, "who")
                    assert first == second
                    assert f"transport='{transport}'" in first
                    assert f"principal='{name}'" in first
                    assert ("session_id=None" in first) is (mode == "auto" and transport == "http")
                    seen[mode, name] = first
        assert len(set(seen.values())) == 4


async def test_a_stateless_request_cannot_claim_a_session(served):
    async with served(tokens=TOKENS) as site:
        site.token = ALICE
        session = await site.session()
        site.token = BOB
        status, _, body = await site.post(modern(1, "who"), mcp_session_id=session, **modern_headers("who"))
        assert status == 200
        told = json.loads(body)["result"]["content"][0]["text"]
        assert told == "Caller(transport='http', session_id=None, principal='bob')"


async def test_closing_the_response_cancels_a_handshake_call_and_no_other(served, marks, example):
    async with served() as site:
        session = await site.session()
        async with site.connected() as (_, first), site.connected() as (kept, second):
            for number, writer in ((1, first), (2, second)):
                body = json.dumps(call(number, "hold", name=f"h{number}")).encode()
                writer.write(site.head(content_length=str(len(body)), mcp_session_id=session) + body)
                await marks.wait(f"h{number}.started")
            first.close()
            await marks.wait("h1.cancelled")
            assert "h2.cancelled" not in marks.seen()
            example.holding["h2"].set()
            await site.answer(kept)
            assert (await site.event(kept))["result"]["content"][0]["text"] == "released h2"
        assert (await site.post({"jsonrpc": "2.0", "id": 3, "method": "ping"}, mcp_session_id=session))[0] == 200


async def test_closing_the_response_cancels_a_stateless_call(served, marks):
    async with served() as site:
        body = json.dumps(modern(1, "hold", name="h")).encode()
        async with site.connected() as (_, writer):
            writer.write(site.head(content_length=str(len(body)), **modern_headers("hold")) + body)
            await marks.wait("h.started")
        await marks.wait("h.cancelled")


async def test_ending_a_session_cancels_its_calls(served, marks):
    async with served() as site:
        session = await site.session()
        body = json.dumps(call(1, "hold", name="h")).encode()
        async with site.connected() as (_, writer):
            writer.write(site.head(content_length=str(len(body)), mcp_session_id=session) + body)
            await marks.wait("h.started")
            assert (await site.send(site.head("DELETE", mcp_session_id=session)))[0] == 200
            await marks.wait("h.cancelled")


async def test_closing_an_sse_stream_cancels_its_calls_and_ends_its_state(served, marks, example):
    async with served(transport="sse") as site:
        async with site.connected() as (reader, writer):
            writer.write(site.head("GET"))
            await site.answer(reader)
            endpoint = await site.event(reader)
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            for message in (
                {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                call(1, "hold", name="h", at_end="h"),
            ):
                body = json.dumps(message).encode()
                assert (await site.send(site.head("POST", endpoint, content_length=str(len(body))), body))[0] == 202
            await marks.wait("h.started")
        await marks.wait("h.cancelled")
        await marks.wait("h.over")


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"jsonrpc":"2.0"}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"\xff", "application/json", 400),
        (PING, "text/plain", 415),
    ],
)
async def test_a_malformed_message_over_sse_is_refused_and_the_session_lives(served, body, kind, status):
    async with served(transport="sse") as site, site.connected() as (reader, writer):
        writer.write(site.head("GET"))
        await site.answer(reader)
        endpoint = await site.event(reader)
        head = site.head("POST", endpoint, content_type=kind, content_length=str(len(body)))
        assert (await site.send(head, body))[0] == status
        assert (await site.send(site.head("POST", endpoint, content_length=str(len(PING))), PING))[0] == 202
        assert (await site.event(reader))["id"] == 1


@BOTH
@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_are_refused_without_cors(served, transport, method):
    async with served(transport=transport) as site:
        status, headers, _ = await site.send(site.head(method, content_length="0"))
        assert status in (400, 405)
        assert not [name for name in headers if name.startswith("access-control")]


async def test_the_access_log_holds_no_query_no_token_and_no_second_line(served, caplog):
    with caplog.at_level(logging.DEBUG, logger="toolbox_mcp.access"):
        async with served(tokens=TOKENS) as site:
            site.token = ALICE
            await site.send(site.head("GET", f"/x%0aforged?token={BOB}"))
            site.token = "wrong" * 10
            await site.send(site.head("GET", "/y"))
    lines = [r.getMessage() for r in caplog.records if r.name == "toolbox_mcp.access"]
    assert lines == ["127.0.0.1 GET /x%0aforged 404 alice", "127.0.0.1 GET /y 401 -"]


async def test_connections_above_the_limit_are_answered_503(served):
    async with served(max_connections=4) as site:
        held = []
        try:
            for _ in range(3):
                held.append(await asyncio.open_connection("127.0.0.1", site.port))
                held[-1][1].write(site.head("GET", "/nowhere"))
                assert (await held[-1][0].readline())[:12] == b"HTTP/1.1 404"
            assert (await ask(site))[:12] == b"HTTP/1.1 503"
            held.pop()[1].close()
            async with asyncio.timeout(5):
                while (got := await ask(site))[:12] != b"HTTP/1.1 404":
                    assert got[:12] == b"HTTP/1.1 503"
        finally:
            for _, writer in held:
                writer.close()


@pytest.mark.parametrize(("most", "idle"), [(16, 60), pytest.param(256, 500, marks=pytest.mark.slow)])
async def test_connections_that_send_no_request_keep_nobody_out(served, most, idle):
    async with served(max_connections=most, tokens=TOKENS) as site:
        held = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(idle)]
        try:
            # Without a token nobody holds a connection either.
            for _ in range(20):
                held.append(await asyncio.open_connection("127.0.0.1", site.port))
                held[-1][1].write(site.head("GET", "/nowhere"))
                assert (await held[-1][0].readline())[:12] == b"HTTP/1.1 401"
            site.token = ALICE
            assert [(await ask(site))[:12] for _ in range(3)] == [b"HTTP/1.1 404"] * 3
        finally:
            for _, writer in held:
                writer.close()


async def test_a_request_with_two_lengths_is_refused(served):
    async with served() as site:
        body = b"2\r\n{}\r\n0\r\n\r\n"
        refused = []
        for lengths in (
            {"content_length": str(len(body)), "transfer_encoding": "chunked"},
            {"transfer_encoding": "chunked"},
        ):
            async with site.connected() as (reader, writer):
                writer.write(site.head("POST", "/nowhere", connection="close", **lengths) + body)
                refused.append((await site.closed(reader))[:12])
        assert refused == [b"HTTP/1.1 400", b"HTTP/1.1 404"]


@each_row(
    ("site_of_page", "origin", "status"),
    [
        ("cross-site", None, b"403"),
        ("same-site", None, b"403"),
        ("anything", None, b"403"),
        ("same-origin", None, b"404"),
        ("none", None, b"404"),
        (None, None, b"404"),
        ("cross-site", "https://app.example", b"404"),
    ],
)
async def test_a_page_of_another_site_is_refused_also_without_an_origin(served, site_of_page, origin, status):
    async with served(allowed_origins=("https://app.example",)) as site:
        headers = {"sec_fetch_site": site_of_page, "origin": origin}
        given = {name: value for name, value in headers.items() if value}
        async with site.connected() as (reader, writer):
            writer.write(site.head("GET", "/nowhere", connection="close", **given))
            assert (await site.closed(reader))[9:12] == status


async def eventually(condition):
    """Wait for what the kernel shows and nothing announces."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def ask(site):
    async with site.connected() as (reader, writer):
        writer.write(site.head("GET", "/nowhere", connection="close"))
        return await site.closed(reader)


async def test_a_start_that_settings_refuse_raises_their_line(served):
    with pytest.raises(ValueError, match="bearer token"):
        async with served(host="0.0.0.0"):
            pass


async def test_a_port_in_use_raises_oserror(served, example):
    from toolbox_mcp.server.transports.http.app import serving

    async with served() as site:
        with pytest.raises(OSError, match="in use"):
            async with serving(example.server, HttpSettings(port=site.port)):
                pass


async def test_a_server_that_is_told_to_end_answers_what_is_under_way(served, marks, example):
    async with AsyncExitStack() as outside, AsyncExitStack() as inside:
        site = await inside.enter_async_context(served(drain=20))
        reader, writer = await outside.enter_async_context(site.connected())
        stream, opening = await outside.enter_async_context(site.connected())
        body = json.dumps(modern(1, "hold", name="h")).encode()
        writer.write(site.head("POST", content_length=str(len(body)), **modern_headers("hold")) + body)
        await marks.wait("h.started")
        # A stream is no call, and does not hold the end up.
        opening.write(site.head("GET", mcp_session_id=await site.session(), accept="text/event-stream"))
        assert (await site.answer(stream))[0] == 200
        answer = asyncio.create_task(site.closed(reader, 15))
        asyncio.get_running_loop().call_later(0.2, example.holding["h"].set)
        await inside.aclose()
        assert b"released h" in await answer


async def test_probes_are_answered_by_any_name_and_without_a_token(served):
    async with served(tokens=TOKENS) as site, httpx2.AsyncClient() as http:
        base = site.url.removesuffix("/mcp")
        found = [await http.get(f"{base}{path}", headers={"host": "10.0.0.7:80"}) for path in ("/healthz", "/readyz")]
        assert [(each.status_code, each.text) for each in found] == [(200, ""), (200, "")]


@pytest.fixture
def certificate(tmp_path):
    return certified(tmp_path)


def certified(tmp_path):
    """Make a certificate and its key; those that are there give way."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
    return cert, secret


async def test_tls_serves_and_closes_a_handshake_that_drips(served, certificate):
    cert, key = certificate
    async with served(tls_cert=cert, tls_key=key, head_timeout=0.4) as site:
        assert site.url.startswith("https://")
        async with site.connected() as (reader, writer):
            writer.write(b"\x16")
            dripping = asyncio.create_task(drip(writer, b"\x03"))
            trusted = ssl.create_default_context(cafile=str(cert))
            async with httpx2.AsyncClient(verify=trusted) as http:
                url = site.url.replace("127.0.0.1", "localhost")
                async with Client(streamable_http_client(url, http_client=http)) as found:
                    assert await text(found, "echo", text="over TLS") == "over TLS"
            await site.closed(reader, 5)
            dripping.cancel()


@pytest.mark.parametrize("first_bytes", [b"", b"\x16\x03\x01"])
async def test_handshakes_that_do_not_end_keep_nobody_out(served, certificate, first_bytes):
    cert, key = certificate
    trusted = ssl.create_default_context(cafile=str(cert))
    async with served(tls_cert=cert, tls_key=key, max_connections=16) as site:
        held = []
        try:
            for _ in range(60):
                held.append(await asyncio.open_connection("127.0.0.1", site.port))
                held[-1][1].write(first_bytes)
            async with httpx2.AsyncClient(verify=trusted) as http:
                url = site.url.replace("127.0.0.1", "localhost")
                async with Client(streamable_http_client(url, http_client=http)) as found:
                    assert await text(found, "echo", text="over TLS") == "over TLS"
            # Of one address a quarter of all connections may be silent; the oldest go for others.
            for reader, _ in held[:40]:
                await site.closed(reader, 5)
            assert not held[-1][0].at_eof()
        finally:
            for _, writer in held:
                writer.close()


async def test_a_renewed_certificate_is_served_without_a_new_start(served, certificate, tmp_path):
    cert, key = certificate

    async def shown(site):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=context)
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return x509.load_der_x509_certificate(found)

    async with served(tls_cert=cert, tls_key=key) as site:
        first = await shown(site)
        renewed = x509.load_pem_x509_certificate(certified(tmp_path)[0].read_bytes())
        assert await shown(site) == renewed != first
        cert.write_text("half of a")
        assert await shown(site) == renewed


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_open_streams_and_calls_within_two_seconds(marks, transport, end):
    with started(transport, marks) as process:
        try:
            site = Where(process.stdout.readline().strip())
            tasks = []
            for index, mode in enumerate(("legacy", "legacy", "auto")):
                tasks.append(asyncio.create_task(hold(site, mode, f"h{index}")))
                await marks.wait(f"h{index}.started")
            process.send_signal(end)
            assert await asyncio.to_thread(process.wait, patience(2)) == end
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert {"stopping", "h0.cancelled", "h1.cancelled", "h2.cancelled"} <= marks.seen()
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


def started(transport, marks):
    command = [sys.executable, EXAMPLE, transport, str(marks.path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Where:
    def __init__(self, url):
        self.url, self.path = url, "/" + url.rsplit("/", 1)[1]


async def hold(site, mode, name):
    async with client(site, mode) as found:
        await found.call_tool("hold", {"name": name})


@pytest.mark.slow
async def test_nothing_is_left_of_many_clients(served):
    async with served() as site:
        await site.session()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            async with client(site, "legacy") as found:
                assert await text(found, "echo", text="x") == "x"
        await eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)
