"""Two servers behind the proxy with one database of records, and one of them is killed while 50 clients call."""

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests import postgres
from toolbox_mcp.sandbox.process.tree import descendants

CADDYFILE = Path(__file__).parents[2] / "packaging/docker/Caddyfile"
CADDY = str(Path(sys.executable).with_name("caddy"))
SERVER = str(Path(sys.executable).with_name("toolbox-mcp"))
CLIENTS = 50
CALLS = 10_000
DEADLINE = 240
"""Seconds for all calls: some 40 on two idle cores, the rest is room for a busy machine."""
MODERN = "2026-07-28"
LEGACY = "2025-11-25"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("postgres"),
    pytest.mark.skipif(postgres.programs() is None, reason="PostgreSQL is not installed"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(argv: list[str], env: dict[str, str], ready: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the block ends; enter once it says that it is ready."""
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if ready in line:
            break
    assert process.poll() is None, said
    # What it says from then on must not fill the pipe.
    drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()
        drain.wait(30)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a server with all that it has started, at once."""
    for pid in [process.pid, *(each.pid for each in descendants(process.pid))]:
        os.kill(pid, signal.SIGKILL)


@dataclass
class Client:
    """A principal that makes one call after another, in one era of the protocol."""

    number: int
    http: httpx.AsyncClient
    era: str
    session: str | None = None
    answered: dict[str, str] = field(default_factory=dict)
    refused: int = 0
    unanswered: list[str] = field(default_factory=list)
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def run(self, numbers: Iterator[int], on_answer: Any) -> None:
        for number in numbers:
            await self.call(f"call-{number}", number)
            on_answer()

    async def call(self, name: str, number: int) -> None:
        """Make one call under a name of its own; a session that is gone is begun again, a call in flight is not repeated."""
        tool = "write_file" if number % 4 == 0 else "calculator"
        arguments = (
            {"path": f"{name}.txt", "content": name} if tool == "write_file" else {"expression": f"{number} + 1"}
        )
        meta: dict[str, Any] = {"toolbox-mcp/context": {"execution_id": name}}
        if self.era == MODERN:
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN
            meta["io.modelcontextprotocol/clientCapabilities"] = {}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        for _ in range(3):
            if self.era == LEGACY and self.session is None and not await self.begin():
                self.refused += 1
                continue
            headers = {"mcp-method": "tools/call", "mcp-name": tool} if self.era == MODERN else {}
            answer = await self.post("tools/call", params, headers)
            if answer is None:
                self.unanswered.append(name)
                return
            if answer.status_code == 404:
                self.session = None
                self.refused += 1
                continue
            assert answer.status_code == 200, (answer.status_code, answer.text)
            assert "result" in body(answer), answer.text
            result = body(answer)["result"]
            assert result["isError"] is False, result
            self.answered[name] = result["_meta"]["call_id"]
            return
        raise AssertionError(f"{name} was refused three times")

    async def begin(self) -> bool:
        about = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = await self.post("initialize", about, {})
        if answer is None:
            return False
        self.session = answer.headers["mcp-session-id"]
        return True

    async def post(self, method: str, params: Any, headers: dict[str, str]) -> httpx.Response | None:
        """Return the answer, or None where the replica went away before it came."""
        era = {"mcp-protocol-version": self.era} if method != "initialize" else {}
        session = {"mcp-session-id": self.session} if self.session else {}
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}
        try:
            answer = await self.http.post("/mcp", json=message, headers=era | session | headers)
        except httpx.TransportError:
            return None
        # A stream that was begun may end without its event.
        return None if answer.status_code == 502 or (answer.status_code == 200 and "{" not in answer.text) else answer


def body(answer: httpx.Response) -> Any:
    text = answer.text
    return json.loads(text.split("data: ")[-1] if "data: " in text else text)


@dataclass
class Site:
    """The proxy's address, the servers behind it, and the database of their records."""

    url: str
    replicas: list[subprocess.Popen[str]]
    tokens: list[str]
    database: str
    project: Path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    programs = postgres.programs()
    assert programs is not None
    project = tmp_path / "project"
    project.mkdir()
    tokens = [f"{number:032}" for number in range(CLIENTS)]
    token_file = tmp_path / "tokens"
    token_file.write_text("".join(f"client-{number}:{token}\n" for number, token in enumerate(tokens)))
    token_file.chmod(0o600)
    with ExitStack() as stack:
        database = stack.enter_context(postgres.running(programs)).database()
        ports = [free_port(), free_port()]
        replicas = []
        for port in ports:
            home = tmp_path / f"home-{port}"
            home.mkdir()
            env = {
                "HOME": str(home),
                "PATH": os.environ["PATH"],
                "TOOLBOX_RECORDS_URL": database,
                "TOOLBOX_PRESET": "editor",
                "TOOLBOX_TOKEN_FILE": str(token_file),
                "TOOLBOX_ALLOWED_HOSTS": "127.0.0.1:*",
            }
            argv = [SERVER, "--root", str(project), "--transport", "http", "--port", str(port)]
            replicas.append(stack.enter_context(started(argv, env, "serving at")))
        site = f"http://127.0.0.1:{free_port()}"
        env = {
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "TOOLBOX_SITE": site,
            "TOOLBOX_REPLICAS": " ".join(f"127.0.0.1:{port}" for port in ports),
        }
        caddy = [CADDY, "run", "--adapter", "caddyfile", "--config", str(CADDYFILE)]
        stack.enter_context(started(caddy, env, "serving initial configuration"))
        yield Site(site, replicas, tokens, database, project)


@asynccontextmanager
async def connected(site: Site) -> AsyncIterator[list[Client]]:
    """Yield the clients, half of each era, each with a token and a connection of its own."""
    async with AsyncExitStack() as stack:
        clients = []
        for number, token in enumerate(site.tokens):
            headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
            http = httpx.AsyncClient(base_url=site.url, headers=headers, timeout=30)
            clients.append(Client(number, await stack.enter_async_context(http), (MODERN, LEGACY)[number % 2]))
        yield clients


async def test_a_replica_that_is_killed_loses_no_answered_call_and_repeats_none(site: Site) -> None:
    numbers = iter(range(CALLS))
    done = itertools.count(1)

    def on_answer() -> None:
        if next(done) == CALLS // 2:
            kill(site.replicas[0])

    async with connected(site) as clients, asyncio.timeout(DEADLINE):
        await asyncio.gather(*(client.run(numbers, on_answer) for client in clients))

    answered = {name: call_id for client in clients for name, call_id in client.answered.items()}
    unanswered = {name for client in clients for name in client.unanswered}
    with psycopg.connect(site.database) as db:
        rows = db.execute(
            "SELECT execution_id, call_id, status, server, principal FROM toolbox_mcp.calls ORDER BY number"
        ).fetchall()
    by_name = Counter(name for name, *_ in rows)
    assert [name for name, times in by_name.items() if times > 1] == []
    recorded = {name: (call_id, status) for name, call_id, status, *_ in rows}
    assert {name: recorded.get(name) for name in answered} == {name: (id, "success") for name, id in answered.items()}
    assert len(answered) + len(unanswered) == CALLS
    # A client has one call in flight at a time, and only those of the replica that was killed may have lost theirs.
    of_server: dict[str, set[str]] = {}
    for _, _, _, server, principal in rows:
        of_server.setdefault(principal, set()).add(server)
    lost = {f"client-{client.number}": client for client in clients if client.unanswered}
    assert all(len(client.unanswered) <= 1 for client in lost.values())
    assert all(len(of_server[principal]) == 2 for principal in lost)
    moved = [principal for principal, servers in of_server.items() if len(servers) == 2]
    assert 5 < len(moved) < CLIENTS - 5
    # What was in flight was written once or not at all, and no other file is missing.
    files = {path.name for path in site.project.iterdir()}
    # A write that the kill cut short leaves its temporary file, and the old content or the new.
    cut_short = {name for name in files if name.startswith(".toolbox-")}
    assert len(cut_short) <= len(unanswered)
    written = {name.removesuffix(".txt") for name in files - cut_short}
    assert {name for name in answered if int(name.removeprefix("call-")) % 4 == 0} <= written
    assert written <= set(answered) | unanswered
    assert all((site.project / f"{name}.txt").read_text() == name for name in written)
