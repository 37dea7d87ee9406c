import asyncio
import importlib.util
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.patience import patience

EXAMPLE = Path(__file__).with_name("example.py")
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("transport_example", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Marks:
    """What the example reports about its calls, over a named pipe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._seen: set[str] = set()

    def seen(self) -> set[str]:
        """Return the marks left so far."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._fd, 65536):
                self._seen.update(chunk.decode().split())
        return self._seen

    async def wait(self, name: str, seconds: float = 10) -> None:
        """Wait until the example has left this mark."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        loop.add_reader(self._fd, changed.set)
        try:
            async with asyncio.timeout(seconds):
                while name not in self.seen():
                    changed.clear()
                    await changed.wait()
        finally:
            loop.remove_reader(self._fd)

    def close(self) -> None:
        """Take the pipe away."""
        os.close(self._fd)


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[Marks]:
    """Return the marks that an example leaves."""
    found = Marks(tmp_path / "marks")
    yield found
    found.close()


@pytest.fixture
def example(marks: Marks) -> Any:
    """Return the example server, in this process."""
    return _load().Example(marks.path)


class Wire:
    """A client on the pipes of an example process, in bytes and lines."""

    def __init__(self, process: asyncio.subprocess.Process, modern: bool) -> None:
        self.process = process
        self.modern = modern
        self.errors = b""
        assert process.stdin and process.stdout
        self.stdin, self.stdout = process.stdin, process.stdout

    def write(self, *lines: bytes | dict[str, Any]) -> None:
        """Send lines as they are, or messages, in one write."""
        self.stdin.write(
            b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
        )

    def request(self, number: int | str, method: str, **params: Any) -> dict[str, Any]:
        """Return a request of this wire's era."""
        if self.modern:
            params["_meta"] = MODERN_META
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

    def call(self, number: int | str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return a call of a tool."""
        return self.request(number, "tools/call", name=tool, arguments=arguments)

    async def read(self, seconds: float = 10) -> dict[str, Any]:
        """Return the next message."""
        async with asyncio.timeout(seconds):
            line = await self.stdout.readline()
        assert line.endswith(b"\n"), f"the wire ended with {line!r}"
        message: dict[str, Any] = json.loads(line)
        return message

    async def answer(self, number: int | str) -> dict[str, Any]:
        """Return the next answer, which has to be this one."""
        message = await self.read()
        assert message.get("id") == number, message
        return message

    async def text(self, number: int | str) -> str:
        """Return the text of the next answer, which has to be this one."""
        text: str = (await self.answer(number))["result"]["content"][0]["text"]
        return text

    async def open(self) -> None:
        """Shake hands, where the era has that."""
        if self.modern:
            return
        info = {"name": "test", "version": "1"}
        self.write(self.request(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info))
        await self.answer(0)
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def reading(self, wanted: bool) -> None:
        """Stop reading what the server writes, or go on."""
        transport = self.stdout._transport  # type: ignore[attr-defined]
        if not transport.is_closing():
            (transport.resume_reading if wanted else transport.pause_reading)()

    def hang_up(self) -> None:
        """Close the reading end."""
        self.stdout._transport.close()  # type: ignore[attr-defined]

    async def ended(self, seconds: float = 2) -> int:
        """Return the exit status; the promise is two seconds."""
        # asyncio's wait() also waits for the pipes, which a client that does not read never sees closed.
        over = asyncio.Event()
        handle = os.pidfd_open(self.process.pid)
        asyncio.get_running_loop().add_reader(handle, over.set)
        try:
            async with asyncio.timeout(patience(seconds)):
                await over.wait()
        finally:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)
        self.reading(True)
        return await self.process.wait()


@pytest.fixture
def wired(marks: Marks, tmp_path: Path) -> Any:
    """Return a context manager that starts the example on pipes."""

    @asynccontextmanager
    async def start(*options: str, modern: bool = False, shake: bool = True) -> AsyncIterator[Wire]:
        stderr = os.open(tmp_path / "stderr", os.O_WRONLY | os.O_CREAT)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLE), "stdio", str(marks.path), *options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=64 * 1024 * 1024,
            start_new_session=True,
        )
        os.close(stderr)
        wire = Wire(process, modern)
        try:
            if shake:
                await wire.open()
            yield wire
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            wire.reading(True)
            wire.stdin.close()
            with suppress(ConnectionError):
                await wire.stdin.wait_closed()
            await process.wait()
            while await wire.stdout.read(1 << 20):
                pass

    return start


class Site:
    """A client of a server over HTTP, in bytes where the bytes matter."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = int(url.rsplit(":", 1)[1].split("/")[0])
        self.path = "/" + url.rsplit("/", 1)[1]
        self.token: str | None = None

    def head(self, method: str = "POST", path: str | None = None, **headers: str | None) -> bytes:
        """Return a request head that a server accepts, changed by headers (`_` for `-`, None to leave one out)."""
        given: dict[str, str | None] = {
            "host": f"127.0.0.1:{self.port}",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "authorization": f"Bearer {self.token}" if self.token else None,
        }
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {path or self.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in given.items() if value is not None]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connect."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def answer(self, reader: asyncio.StreamReader, seconds: float = 10) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of one answer; of a stream, the status and headers."""
        async with asyncio.timeout(seconds):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            return int(head[0].split()[1]), headers, body

    async def send(self, head: bytes, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
        """Send one request on a connection of its own and return its answer."""
        async with self.connected() as (reader, writer):
            writer.write(head + body)
            return await self.answer(reader)

    async def post(self, message: dict[str, Any], **headers: str | None) -> tuple[int, dict[str, str], bytes]:
        """Post a message."""
        body = json.dumps(message).encode()
        return await self.send(self.head(content_length=str(len(body)), **headers), body)

    async def session(self) -> str:
        """Open a handshake session and return its id."""
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        status, headers, _ = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert status == 200
        session = headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.post(ready, mcp_session_id=session))[0] == 202
        return session

    async def event(self, reader: asyncio.StreamReader, seconds: float = 10) -> dict[str, Any] | str:
        """Return the data of the next event: a message, or the endpoint of an SSE session."""
        async with asyncio.timeout(seconds):
            while not (line := await reader.readline()).startswith(b"data: "):
                assert line, "the stream ended"
        data = line[6:].strip()
        return json.loads(data) if data.startswith(b"{") else data.decode()

    async def closed(self, reader: asyncio.StreamReader, seconds: float = 10) -> bytes:
        """Wait until the server closes the connection; return what came before."""
        found = b""
        async with asyncio.timeout(seconds):
            with suppress(ConnectionError):
                while chunk := await reader.read(65536):
                    found += chunk
        return found


@pytest.fixture
def served(example: Any) -> Any:
    """Return a context manager that serves the example over HTTP in this process."""
    from toolbox_mcp.server.transports.http.app import serving
    from toolbox_mcp.server.transports.http.settings import HttpSettings

    @asynccontextmanager
    async def start(keeps: Any = lambda session: False, **settings: Any) -> AsyncIterator[Site]:
        async with serving(example.server, HttpSettings(port=0, **settings), keeps=keeps) as url:
            yield Site(url)

    return start
