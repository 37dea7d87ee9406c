"""Real clients against a real server: where the clients are, how they are run, and the servers they speak to.

The clients are installed outside the repository by install_clients.py. Without them these tests are skipped; in CI
(CI=true) they fail instead.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SERVER = [str(Path(sys.executable).with_name("toolbox-mcp"))]
RUN_DEADLINE = 90.0
"""Seconds for one run of a client. They take 1 to 3 s on an idle machine."""
START_DEADLINE = 60.0
"""Seconds until a server listens; under 2 s on an idle machine."""


@dataclass(frozen=True)
class Done:
    """A client's run that has ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Return what it printed, read as JSON."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"not JSON; exit {self.code}\n{self.out}\n{self.err}") from None


@dataclass(frozen=True)
class Clients:
    """The installed clients and the only surroundings they see."""

    bin: Path
    modules: Path
    node: Path
    home: Path

    def run(self, name: str, *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Done:
        """Run one client to its end, with an empty home and no surroundings but what is listed here."""
        with self._started(name, args, cwd, env, stdin=subprocess.DEVNULL) as process:
            out, err = process.communicate()
        return Done(process.returncode, out, err)

    def talk(self, name: str, *args: str, lines: list[Any], until: int, env: Mapping[str, str]) -> Any:
        """Send JSON lines to a client's standard input and return what answers the id `until`."""
        with self._started(name, args, None, env, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            for line in lines:
                process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            for answer in map(json.loads, process.stdout):
                if answer.get("id") == until:
                    return answer
            raise AssertionError(f"{name} ended without an answer to {until}")

    @contextmanager
    def _started(
        self, name: str, args: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None, stdin: int
    ) -> Iterator[subprocess.Popen[str]]:
        """Run one client in a session of its own; all of that session ends with the block or at the deadline."""
        program = self.node if name == "node" else self.bin / name
        process = subprocess.Popen(
            [program, *args],
            cwd=cwd or self.home,
            env={
                "PATH": f"{self.node.parent}:/usr/bin:/bin",
                "HOME": str(self.home),
                "LANG": "C.UTF-8",
                "NO_COLOR": "1",
                "MCP_INSPECTOR_SECRET_STORE": "memory",
                # No client may call home: there is no model and no login in these tests.
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_ERROR_REPORTING": "1",
                **(env or {}),
            },
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        late = threading.Event()

        def end() -> None:
            late.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(RUN_DEADLINE, end)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            assert not late.is_set(), f"{name} did not end within {RUN_DEADLINE:.0f} s"


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    """The installed clients, with a home of their own."""
    script = HERE / "install_clients.py"
    found = subprocess.run([sys.executable, script, "--find"], capture_output=True, text=True, timeout=60, check=False)
    if found.returncode:
        reason = "the real clients are not installed: python tests/interop/install_clients.py"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    paths = {name: Path(path) for name, path in json.loads(found.stdout).items()}
    return Clients(paths["bin"], paths["modules"], paths["node"], tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text file, a picture and something outside of it that must stay unread."""
    outer = tmp_path_factory.mktemp("outer")
    (outer / "secret.txt").write_text("outside\n")
    root = outer / "project"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / "src" / "main.py").write_text("def main() -> None:\n    print('hello')\n")
    return root


def free_port() -> int:
    """Return a loopback port that nothing listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def listening(argv: list[str], port: int, home: Path, cwd: Path | None = None) -> Iterator[None]:
    """Run a server until the block ends; enter once it accepts connections. It must end on SIGTERM."""
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert process.stderr is not None
    said: list[str] = []
    accepts = threading.Event()

    def watch(lines: Iterator[str]) -> None:
        for line in lines:
            said.append(line)
            if f":{port}" in line:
                accepts.set()
        accepts.set()

    reader = threading.Thread(target=watch, args=(process.stderr,))
    reader.start()
    try:
        assert accepts.wait(START_DEADLINE), f"nothing said where it listens: {argv}\n{''.join(said)}"
        assert process.poll() is None, f"{argv} ended with {process.returncode}\n{''.join(said)}"
        with socket.create_connection(("127.0.0.1", port), timeout=START_DEADLINE):
            pass
        yield
        assert process.poll() is None, f"the server died: {process.returncode}\n{''.join(said)}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{argv} did not end on SIGTERM\n{''.join(said)}") from None
        finally:
            reader.join()
            process.stderr.close()


@dataclass(frozen=True)
class Endpoints:
    """One server as clients configure it, by transport: stdio is started by the client, the others are running."""

    stdio: list[str]
    http: str
    sse: str

    def entry(self, transport: str) -> dict[str, Any]:
        """Return the `mcpServers` entry that the Inspector, mcporter and others read."""
        if transport == "stdio":
            return {"command": self.stdio[0], "args": self.stdio[1:]}
        return {"type": "streamable-http" if transport == "http" else "sse", "url": getattr(self, transport)}


@pytest.fixture(scope="module")
def endpoints(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    """The real server over the project, on all three transports, with records in a home of its own."""
    home = tmp_path_factory.mktemp("server-home")
    command = [*SERVER, "--root", str(project)]
    http, sse = free_port(), free_port()
    with (
        listening([*command, "--transport", "http", "--port", str(http)], http, home),
        listening([*command, "--transport", "sse", "--port", str(sse)], sse, home),
    ):
        yield Endpoints(command, f"http://127.0.0.1:{http}/mcp", f"http://127.0.0.1:{sse}/sse")


@pytest.fixture(scope="session")
def serve() -> Callable[..., AbstractContextManager[None]]:
    """`with serve(argv, port, home):` runs any server that says its port on stderr once it listens."""
    return listening


@pytest.fixture(scope="session")
def free_ports() -> Callable[[], int]:
    """Gives a free loopback port at each call."""
    return free_port
