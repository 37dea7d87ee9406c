"""The real server, with programs that do not want to end: whatever ends the server, or the call, ends them."""

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.patience import patience

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no subreaper")

PROMISED = 2.0
# Each writes the pid of what does not want to end into the file $1. END: what its leader does then.
SHAPES = {
    "child": "sleep 600 >/dev/null 2>&1 & echo $! > $1; END",
    "background grandchild": "sh -c 'sleep 600 >/dev/null 2>&1 & echo $! > $0; wait' $1 & END",
    "setsid grandchild": "setsid sh -c 'echo $$ > $0; exec sleep 600' $1 & END",
    "double-fork daemon": "sh -c 'setsid env -i sh -c \"echo \\$\\$ > \\$0; exec sleep 600\" $0 >/dev/null 2>&1 & exit 0' $1; END",
    "SIGTERM ignorer": "(trap '' TERM; sh -c 'echo $PPID > $0' $1; while :; do sleep 1; done) & END",
}
LEADER = {"stays": "sleep 600", "ends": "until [ -s $1 ]; do sleep 0.01; done"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Server:
    """A server of its own over a folder, spoken to in JSON-RPC."""

    def __init__(self, folder, *options):
        self.root, state = folder / "root", folder / "state"
        self.root.mkdir(exist_ok=True)
        state.mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "HOME": str(state), "XDG_STATE_HOME": str(state), "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "toolbox_mcp", "--root", self.root, "--enable-exec", "--allow-command", "sh",
             "--set", "structured_output=true", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True, cwd=self.root,
        )  # fmt: skip
        self.id = 0

    def request(self, method, params):
        self.id += 1
        return {"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}

    def call(self, name, **arguments):
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), result
        return result["structuredContent"]

    def begin(self, name, **arguments):
        """Send a call without waiting for its answer; return its id."""
        message = self.request("tools/call", {"name": name, "arguments": arguments})
        self.send(message)
        return message["id"]

    def cancel(self, id_):
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}})

    def pid(self):
        """Return the pid of the server behind the guardian."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def close(self):
        # Asked, and not killed: a guardian and a server that are killed at the same moment cannot end their programs.
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(OSError):
                pipe.close()


class Stdio(Server):
    def __init__(self, folder, *options):
        super().__init__(folder, *options)
        self.ask("initialize", HELLO)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        message = self.request(method, params)
        self.send(message)
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == message["id"]:
                return answer["result"]


class Listening(Server):
    """A server on a port that it picks."""

    def __init__(self, transport, folder, *options):
        super().__init__(folder, "--transport", transport, "--port", "0", *options)
        self.address = self.process.stderr.readline().split(b"//")[1].split(b"/")[0].decode()
        self.open = []

    def connection(self):
        made = http.client.HTTPConnection(self.address, timeout=30)
        self.open.append(made)
        return made

    def hang_up(self):
        for connection in self.open:
            connection.close()

    def close(self):
        self.hang_up()
        super().close()


class Http(Listening):
    def __init__(self, folder, *options):
        super().__init__("http", folder, *options)
        self.headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        answer = self._post(self.request("initialize", HELLO))
        self.headers |= {"mcp-session-id": answer.getheader("mcp-session-id"), "mcp-protocol-version": "2025-11-25"}
        self._read(answer)
        self._read(self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def _post(self, message, method="POST"):
        connection = self.connection()
        connection.request(method, "/mcp", json.dumps(message), self.headers)
        return connection.getresponse()

    def _read(self, answer):
        lines = answer.read().decode().splitlines()
        answer.close()
        found = [line.removeprefix("data:") for line in lines if line.startswith(("data:", "{"))]
        return [json.loads(line) for line in found if line.strip()]

    def send(self, message):
        # The answer of a call that is to run on is left unread.
        self.connection().request("POST", "/mcp", json.dumps(message), self.headers)

    def ask(self, method, params):
        message = self.request(method, params)
        return next(each["result"] for each in self._read(self._post(message)) if each.get("id") == message["id"])

    def end_session(self):
        self._read(self._post({}, "DELETE"))


class Sse(Listening):
    def __init__(self, folder, *options):
        super().__init__("sse", folder, *options)
        connection = self.connection()
        connection.request("GET", "/sse")
        self.stream = connection.getresponse()
        self.messages = self._event()
        self.posts = self.connection()
        self.ask("initialize", HELLO)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _event(self):
        """Return the data of the next event; comments have none."""
        for line in self.stream:
            if line.startswith(b"data: "):
                return line.removeprefix(b"data: ").decode().strip()
        raise AssertionError("the stream ended")

    def send(self, message):
        self.posts.request("POST", self.messages, json.dumps(message), {"content-type": "application/json"})
        answer = self.posts.getresponse()
        answer.read()
        assert answer.status == 202

    def ask(self, method, params):
        message = self.request(method, params)
        self.send(message)
        while True:
            answer = json.loads(self._event())
            if answer.get("id") == message["id"]:
                return answer["result"]

    def hang_up(self):
        # The response holds the socket as well.
        self.stream.close()
        super().hang_up()

    end_session = hang_up


TRANSPORTS = {"stdio": Stdio, "http": Http, "sse": Sse}
# What ends programs is the same for all; the others are looked at with the attacks.
EACH = ["stdio", pytest.param("http", marks=pytest.mark.attack), pytest.param("sse", marks=pytest.mark.attack)]


def each(transport, *values):
    """Return a row of a table for one transport."""
    return pytest.param(transport, *values, marks=() if transport == "stdio" else pytest.mark.attack)


@contextmanager
def serving(transport, folder, *options):
    made = TRANSPORTS[transport](folder, *options)
    try:
        yield made
    finally:
        made.close()


class Victims:
    """What was started in every shape, held by pidfds, so that no pid is ever mistaken."""

    def __init__(self):
        self.handles = {}
        self.started = 0

    def hold(self, name, pid):
        # What has ended by now is what is promised.
        with suppress(ProcessLookupError):
            self.handles[name] = os.pidfd_open(pid)

    def start(self, server, leader="stays", how="process_start"):
        """Start each shape, in the background or as a call; return what each call was answered, or its id."""
        given = {}
        for shape, text in SHAPES.items():
            self.started += 1
            file = server.root / f"pid{self.started}.{server.process.pid}"
            arguments = {"command": "sh", "args": ["-c", text.replace("END", LEADER[leader]), "sh", str(file)]}
            given[shape] = server.call(how, **arguments) if how == "process_start" else server.begin(how, **arguments)
            self.hold(f"{shape} by {how}", _written(file))
        return given

    def left(self, seconds=PROMISED):
        """Return the names of those that are still there after so many seconds, at most."""
        deadline = time.monotonic() + patience(seconds)
        return [
            name
            for name, handle in self.handles.items()
            if not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]
        ]

    def alive(self):
        return [name for name, handle in self.handles.items() if not select.select([handle], [], [], 0)[0]]

    def close(self):
        for handle in self.handles.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


def _written(file):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError, ValueError):
            text = file.read_text()
            if text.endswith("\n"):
                return int(text)
        select.select([], [], [], 0.005)
    raise AssertionError(f"nothing was written to {file}")


@pytest.fixture
def victims():
    made = Victims()
    yield made
    made.close()


ENDS = {
    "stdin EOF": lambda server: server.process.stdin.close(),
    "SIGTERM": lambda server: server.process.terminate(),
    "SIGINT": lambda server: server.process.send_signal(signal.SIGINT),
    "SIGHUP": lambda server: server.process.send_signal(signal.SIGHUP),
    "SIGKILL of the guardian": lambda server: server.process.kill(),
    "SIGKILL of the server": lambda server: os.kill(server.pid(), signal.SIGKILL),
    "SIGTERM of the server": lambda server: os.kill(server.pid(), signal.SIGTERM),
    "crash": lambda server: os.kill(server.pid(), signal.SIGSEGV),
    "SIGKILL of the client's group": lambda server: os.killpg(server.process.pid, signal.SIGKILL),
    "SIGKILL of the server's group": lambda server: os.killpg(server.pid(), signal.SIGKILL),
}
SERVER_ENDS = [each(t, end) for t in TRANSPORTS for end in ENDS if t == "stdio" or end != "stdin EOF"]


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "end"), SERVER_ENDS)
def test_nothing_survives_the_server(tmp_path, victims, transport, end):
    with serving(transport, tmp_path) as server:
        victims.hold("server", server.pid())
        victims.start(server)
        victims.start(server, how="bash")
        ENDS[end](server)
        assert victims.left() == []


LIMITS = {
    "its time-out": ("--set", "command_timeout=2"),
    "its deadline": ("--set", 'tool_timeouts={"bash": 2}'),
}
# Over stdio hanging up is the end of the server, over SSE that of the session.
CALL_ENDS = [each(t, way) for t in TRANSPORTS for way in ("its own end", *LIMITS, "cancellation")] + [
    each("http", "hanging up")
]


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "way"), CALL_ENDS)
def test_nothing_survives_a_call(tmp_path, victims, transport, way):
    limit = LIMITS.get(way, ())
    with serving(transport, tmp_path, *limit) as server:
        calls = victims.start(server, "ends" if way == "its own end" else "stays", "bash")
        if way == "cancellation":
            for id_ in calls.values():
                server.cancel(id_)
        elif way == "hanging up":
            server.hang_up()
        # A limit is counted from the beginning of the call, which is before its programs are there.
        assert victims.left(PROMISED * (2 if limit else 1)) == []
        assert server.ask("ping", {}) == {}


@pytest.mark.slow
@pytest.mark.parametrize("transport", EACH)
@pytest.mark.parametrize("leader", LEADER)
def test_nothing_survives_process_kill(tmp_path, victims, transport, leader):
    with serving(transport, tmp_path) as server:
        for started in victims.start(server, leader).values():
            server.call("process_kill", id=started["id"])
        assert victims.left() == []
        assert server.ask("ping", {}) == {}


@pytest.mark.attack
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_nothing_survives_the_end_of_a_session(tmp_path, victims, transport):
    with serving(transport, tmp_path) as server:
        victims.start(server)
        victims.start(server, how="bash")
        server.end_session()
        # Those that do not listen are given 2 s before they are killed.
        assert victims.left(PROMISED + 0.5) == []
        assert server.process.poll() is None


@pytest.mark.slow
@pytest.mark.parametrize("transport", EACH)
@pytest.mark.parametrize(
    "end", ["SIGTERM", "SIGKILL of the guardian", "SIGKILL of the server", "SIGKILL of the client's group"]
)
def test_a_server_ends_its_own_programs_and_not_those_of_another_one(tmp_path, victims, transport, end):
    others = Victims()
    try:
        # The same folder and the same state, as two clients on one project have them.
        with serving(transport, tmp_path) as server, serving(transport, tmp_path) as other:
            victims.start(server)
            others.hold("server", other.pid())
            others.start(other)
            ENDS[end](server)
            assert victims.left() == []
            server.process.wait(patience(PROMISED))
            assert others.alive() == list(others.handles)
            assert other.ask("ping", {}) == {}
    finally:
        others.close()


def test_a_call_from_the_command_line_leaves_nothing_behind(tmp_path, victims):
    for name in ("root", "state"):
        (tmp_path / name).mkdir()
    file = tmp_path / "pid"
    line = SHAPES["double-fork daemon"].replace("END", LEADER["stays"])
    arguments = json.dumps({"command": "sh", "args": ["-c", line, "sh", str(file)]})
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "state"), "LANG": "C.UTF-8"}
    argv = [
        sys.executable,
        "-P",
        "-m",
        "toolbox_mcp",
        "call",
        "bash",
        arguments,
        "--root",
        tmp_path / "root",
        "--enable-exec",
        "--allow-command",
        "sh",
    ]
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        victims.hold("daemon", _written(file))
        os.killpg(process.pid, signal.SIGKILL)
        assert victims.left() == []
