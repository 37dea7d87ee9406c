"""The real server, over stdio, with programs that do not want to end: whatever ends the server ends them."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no subreaper")

PROMISED = 2.0
SHAPES = {
    "child": "sleep 600 & echo $!; wait",
    "background grandchild": "sh -c 'sleep 600 & echo $!; wait' & wait",
    "setsid grandchild": "setsid sh -c 'echo $$; exec sleep 600' & wait",
    "double-fork daemon": "sh -c 'setsid env -i sh -c \"echo \\$\\$; exec sleep 600\" & exit 0'; exec sleep 600",
    "SIGTERM ignorer": "trap '' TERM; echo $$; while :; do sleep 1; done",
}


class Client:
    """Speaks JSON-RPC with a server, line by line."""

    def __init__(self, root, state):
        env = {"PATH": os.environ["PATH"], "HOME": str(state), "XDG_STATE_HOME": str(state), "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "toolbox_mcp", "--root", root, "--enable-exec", "--enable-shell", "--allow-command", "sh"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, start_new_session=True, cwd=root,
        )  # fmt: skip
        self.id = 0
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.ask("initialize", hello)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.id += 1
        self.send({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.id:
                return answer["result"]

    def call(self, name, **arguments):
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), result
        return result["structuredContent"]

    def server(self):
        """Return the pid of the server behind the guardian."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return int(file.read().split()[0])


@pytest.fixture
def client(tmp_path):
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    state.mkdir()
    made = Client(str(root), state)
    yield made
    made.process.kill()
    made.process.wait()
    for pipe in (made.process.stdin, made.process.stdout):
        with suppress(OSError):
            pipe.close()


ENDS = {
    "stdin EOF": lambda client: client.process.stdin.close(),
    "SIGTERM": lambda client: client.process.terminate(),
    "SIGINT": lambda client: client.process.send_signal(signal.SIGINT),
    "SIGKILL of the guardian": lambda client: client.process.kill(),
    "SIGKILL of the server": lambda client: os.kill(client.server(), signal.SIGKILL),
    "SIGKILL of the client's group": lambda client: os.killpg(client.process.pid, signal.SIGKILL),
}


@pytest.mark.parametrize("end", ENDS)
def test_no_background_process_survives_the_server(client, end):
    handles = {}
    try:
        handles["server"] = os.pidfd_open(client.server())
        for shape, text in SHAPES.items():
            started = client.call("process_start", command="sh", args=["-c", text])
            output = client.call("process_output", id=started["id"], wait_for=r"^\d+\n")["stdout"]
            handles[shape] = os.pidfd_open(int(output))
        ENDS[end](client)
        deadline = time.monotonic() + PROMISED
        left = [
            name
            for name, handle in handles.items()
            if not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]
        ]
        assert left == []
    finally:
        for handle in handles.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


def test_no_program_of_a_call_survives_the_server(client):
    client.id += 1
    arguments = {"command": "echo $$ > pid; setsid sleep 600 & wait", "shell": "sh"}
    client.send(
        {"jsonrpc": "2.0", "id": client.id, "method": "tools/call", "params": {"name": "shell", "arguments": arguments}}
    )
    found = []
    deadline = time.monotonic() + 10
    root = client.process.args[client.process.args.index("--root") + 1]
    while not found and time.monotonic() < deadline:
        with suppress(FileNotFoundError, ValueError), open(os.path.join(root, "pid")) as file:
            found = [int(file.read())]
        select.select([], [], [], 0.01)
    handle = os.pidfd_open(found[0])
    client.process.stdin.close()
    try:
        assert select.select([handle], [], [], PROMISED)[0]
    finally:
        os.close(handle)
