"""A blocking MCP client on the pipes of a server: as little as possible between the clock and the server."""

import io
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self


class Failed(Exception):
    """The server answered with an error, or ended."""


class LineClient:
    """One server process, and one request at a time or several with begin() and result().

    env: variables beside those of this process. cwd: where the server starts. arrived: when the latest message had
    come in whole, on the clock of time.perf_counter(); its parsing is not in it.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            # An installed server has its bytecode; without it each start compiles every module.
            env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
            | dict(env or {}),
            cwd=cwd,
        )
        assert self._process.stdin and self._process.stdout
        self._stdin = self._process.stdin
        self._lines = io.BufferedReader(self._process.stdout, 1 << 16)  # type: ignore[arg-type]
        self._number = 0
        self._early: dict[int, Any] = {}
        self.arrived = 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        self._write(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a request and return its result, passing over notifications."""
        return self.result(self.begin(method, params))

    def begin(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request and return its number, for result()."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params or {}})
        return self._number

    def answered(self, number: int) -> bool:
        """Return True if the answer to a request came in while another was waited for."""
        return number in self._early

    def initialize(self) -> Any:
        """Shake hands."""
        info = {"name": "bench", "version": "1"}
        result = self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Call a tool; a failing one raises."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise Failed(json.dumps(result)[:300])
        return result

    def close(self) -> None:
        """End the server the way a client does."""
        self._stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._stdin.write(rest) or 0 :]

    def result(self, number: int) -> Any:
        """Wait for the answer to a request and return its result; answers to others are kept."""
        while number not in self._early:
            line = self._lines.readline()
            if not line:
                raise Failed(f"the server ended with {self._process.wait()}")
            self.arrived = time.perf_counter()
            message = json.loads(line)
            if "id" in message and "method" not in message:
                self._early[message["id"]] = message
        message = self._early.pop(number)
        if "error" in message:
            raise Failed(json.dumps(message["error"])[:300])
        return message["result"]
