"""The last moment of a server that something holds up."""

import json
import os
import subprocess
import sys

HELD_UP = """
import os, sys, threading
from toolbox_mcp.server.cli import main
from toolbox_mcp.server.transports import shutdown as stopping

def hold_up(*arguments):
    print("held up", file=sys.stderr, flush=True)
    threading.Event().wait()

os.fsync = hold_up
stopping.FORCE_EXIT_AFTER = 0.3
main(["--root", sys.argv[1], "--enable-exec"])
"""


def messages():
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    yield {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    write = {"name": "write_file", "arguments": {"path": "f", "content": "x"}}
    yield {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": write}


def test_a_server_ends_though_a_file_system_does_not_answer(tmp_path):
    (tmp_path / "root").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", HELD_UP, tmp_path / "root"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        text=True,
    ) as server:
        assert server.stdin is not None and server.stderr is not None
        try:
            server.stdin.write("".join(json.dumps(message) + "\n" for message in messages()))
            server.stdin.flush()
            assert server.stderr.readline() == "held up\n"
            told = server.communicate(timeout=30)[1]
        finally:
            server.terminate()
        assert server.returncode == 1
    assert "something held up the end for 0.3 s" in told
