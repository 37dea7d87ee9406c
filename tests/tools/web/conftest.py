import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable

import pytest

from toolbox_mcp.safety.web.policy import WebPolicy
from toolbox_mcp.tools.web import _transport
from toolbox_mcp.tools.web._http import Http


class Site:
    """A server on loopback that answers as the test says, and notes each request."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.connections = 0
        self.answers: dict[str, bytes | Callable[[asyncio.StreamWriter], object]] = {}
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task
        self.tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # The test is over; asyncio would log it.
        finally:
            self.tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = [
                int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length:")
            ]
            body = (await reader.readexactly(length[0])).decode() if length else ""
            self.requests.append(head + body)
            answer = self.answers.get(head.split()[1], b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)  # type: ignore[misc]
            writer.close()
            await writer.wait_closed()

    def page(
        self,
        path: str,
        body: str | bytes,
        kind: str = "text/html; charset=utf-8",
        status: str = "200 OK",
        **headers: str,
    ) -> None:
        """Answer a path."""
        data = body.encode() if isinstance(body, str) else body
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join(
            [f"HTTP/1.1 {status}", f"content-type: {kind}", f"content-length: {len(data)}", "connection: close", *lines]
        )
        self.answers[path] = head.encode() + b"\r\n\r\n" + data

    def redirect(self, path: str, there: str, status: str = "302 Found") -> None:
        """Redirect a path."""
        self.page(path, "", status=status, location=there)


@pytest.fixture
async def sites() -> AsyncIterator[Callable[..., object]]:
    servers = []

    async def start(context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Site:
        site = Site()
        server = await asyncio.start_server(site.serve, host, 0, ssl=context)
        site.port = server.sockets[0].getsockname()[1]
        servers.append((server, site))
        return site

    yield start
    for server, site in servers:
        server.close()
        for task in (tasks := [*site.tasks]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def site(sites):
    return await sites()


class Names:
    """A scripted resolver: answers by name, each call the next one where there are several; counts."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self.answers.get(host, [[]])
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def names(call, monkeypatch):
    """Give the server a resolver of the test's, for which 93.184.216.34 is where the test's site listens."""
    made = Names()
    call.http = Http(WebPolicy(ports=tuple(range(1, 65536))), timeout=1.0, resolve=made)
    return made


@pytest.fixture
def public(monkeypatch):
    """Have connections to addresses of the documentation's example host end at loopback: the last step of a judged way."""
    real = _transport.httpcore.AnyIOBackend.connect_tcp
    reached = []

    async def connect(self, host, port, **more):
        reached.append(host)
        stream = await real(self, "127.0.0.1" if host in ("93.184.216.34", "2606:4700::1111") else host, port, **more)
        return _Named(stream, host)

    monkeypatch.setattr(_transport.httpcore.AnyIOBackend, "connect_tcp", connect)
    return reached


class _Named:
    """A stream that says that it leads to the address that was asked for."""

    def __init__(self, stream, host):
        self._stream, self._host = stream, host

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def get_extra_info(self, info):
        return (self._host, 0) if info == "server_addr" else self._stream.get_extra_info(info)


@pytest.fixture
def here(call, site):
    """Let the tools reach the site, and return its address."""
    call.http = Http(WebPolicy(private_allow=(f"127.0.0.1:{site.port}",)), timeout=2.0)
    return f"http://127.0.0.1:{site.port}"
