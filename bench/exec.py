"""What running a program costs through bash, beside other servers and beside a bare asyncio spawn.

    python bench/exec.py [--rounds 7] [--no-peers]

First `true`, then `seq 1 3000000`, in rounds that alternate between the servers: median milliseconds from the request
to the last byte of the answer, memory of the server with what it keeps running (resident, of each process its peak
since the start), tokens (o200k) of the text that a model gets. The bare spawn times itself, without pipes between.

Then a gibibyte of output through bash, with pings all the while: peak memory of the server before and after, and how
long pings took. The peers are left out of it: one holds all output in memory, the others stop long before.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peers
from client import Failed, LineClient

TRUE = ["true"]
SEQ = ["seq", "1", "3000000"]
FLOOD = ["head", "-c", str(1 << 30), "/dev/zero"]

SHORT = 10
"""Runs of `true` for one of `seq`."""

PAUSE = 0.01
"""Seconds between two pings, so that they do not become the load."""

OVERHEAD_GOAL, PING_GOAL = 2.0, 100.0  # milliseconds
FLAT = 8.0  # MB of growth that still count as flat: two streams of a quarter MiB in a few forms, and the answer


@dataclass
class Measured:
    """One server and what it took, in milliseconds."""

    name: str
    client: LineClient
    idle: float = 0.0
    true: list[float] = field(default_factory=list)
    seq: list[float] = field(default_factory=list)
    answer: Any = None

    def run(self, argv: Sequence[str]) -> float:
        """Run a program and return how long it took."""
        begin = time.perf_counter()
        self.answer = self.client.request("tools/call", call(self.name, argv))
        return self.answer.get("ms") or (self.client.arrived - begin) * 1000


def call(name: str, argv: Sequence[str]) -> dict[str, Any]:
    """Return the call that runs argv on a server."""
    if name == "mcp-shell-server":
        return {"name": "shell_execute", "arguments": {"command": list(argv), "directory": os.getcwd()}}
    if name == "cli-mcp-server":
        return {"name": "run_command", "arguments": {"command": " ".join(argv)}}
    if name == "desktop-commander":
        return {"name": "start_process", "arguments": {"command": " ".join(argv), "timeout_ms": 30_000}}
    return {"name": "bash", "arguments": {"command": argv[0], "args": list(argv[1:])}}


def command(name: str) -> list[str]:
    """Return what starts a server."""
    if name == "bare spawn":
        return [sys.executable, __file__, "--bare"]
    if name == "toolbox-mcp":
        allowed = [word for argv in (TRUE, SEQ, FLOOD) for word in ("--allow-command", argv[0])]
        ours = str(Path(sys.executable).with_name("toolbox-mcp"))
        return [ours, "--root", ".", "--enable-exec", *allowed, "--set", "command_timeout=120"]
    return peers.command(name)


def start(name: str, home: Path) -> LineClient:
    """Start a server in the present folder, with a home of its own."""
    home.mkdir()
    settings = home / ".claude-server-commander"
    settings.mkdir()
    (settings / "config.json").write_text(json.dumps({"telemetryEnabled": False, "defaultShell": "/bin/bash"}))
    names = ",".join(argv[0] for argv in (TRUE, SEQ))
    private = {"HOME": str(home)} | {
        f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("STATE", "CONFIG", "DATA")
    }
    peer = {"ALLOWED_DIR": os.getcwd(), "ALLOWED_COMMANDS": names, "ALLOWED_FLAGS": "all", "ALLOW_COMMANDS": names}
    client = LineClient(command(name), private | peer)
    try:
        if name != "bare spawn":
            client.initialize()
            client.request("tools/list")
        client.request("tools/call", call(name, TRUE))
    except BaseException:
        client.close()
        raise
    return client


async def bare() -> None:
    """Answer calls of bash by a spawn and nothing else."""
    for line in sys.stdin:
        request = json.loads(line)
        given = request["params"]["arguments"]
        begin = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            given["command"], *given["args"], stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await process.communicate()
        taken = (time.perf_counter() - begin) * 1000
        text = {"type": "text", "text": out.decode()}
        print(json.dumps({"id": request["id"], "result": {"ms": taken, "content": [text]}}), flush=True)


def tree(pid: int) -> list[int]:
    """Return pid and the processes below it."""
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def memory(pid: int, name: str) -> float:
    """Sum VmRSS or VmHWM over a tree, in MB."""
    total = 0
    for one in tree(pid):
        for line in Path(f"/proc/{one}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                total += int(line.split()[1])
    return total * 1024 / 1e6


def tokens(answer: Any) -> int:
    """Count the tokens of the texts of an answer, in slices that end with a line."""
    from toolbox_mcp.server.budget.tokenizers import tokenizer_for

    count = tokenizer_for("gpt-4o").count
    total = 0
    for part in answer["content"]:
        text, at = part.get("text", ""), 0
        while at < len(text):
            end = text.find("\n", at + 100_000) + 1 or len(text)
            total += count(text[at:end])
            at = end
    return total


def alternate(servers: Sequence[Measured], rounds: int) -> None:
    """Run one program on all servers in turn, then the other: 25 MB of answer would cool the caches for `true`."""
    for _ in range(rounds * SHORT):
        for server in servers:
            server.true.append(server.run(TRUE))
    for _ in range(rounds):
        for server in servers:
            server.seq.append(server.run(SEQ))


def show(servers: Sequence[Measured]) -> None:
    print(f"{'':18}{'true':>9}{'over bare':>11}{'seq':>10}{'over bare':>11}{'idle MB':>9}{'peak MB':>9}{'tokens':>16}")
    bare = {name: statistics.median(getattr(servers[0], name)) for name in ("true", "seq")}
    for server in servers:
        true, seq = statistics.median(server.true), statistics.median(server.seq)
        over = ("", "") if server is servers[0] else (f"{true - bare['true']:+.2f}", f"{seq - bare['seq']:+.0f}")
        count = f"{tokens(server.answer):,}" + (" (refused)" if server.answer.get("isError") else "")
        peak = memory(server.client.pid, "VmHWM")
        print(
            f"{server.name:18}{true:>9.2f}{over[0]:>11}{seq:>10.0f}{over[1]:>11}{server.idle:>9.0f}{peak:>9.0f}{count:>16}"
        )


def flood(client: LineClient) -> tuple[float, list[float], Any]:
    """Send a gibibyte through bash and pings meanwhile; return its seconds, theirs in ms, and the answer."""

    def ping() -> float:
        begin = time.perf_counter()
        client.request("ping")
        return (client.arrived - begin) * 1000

    begin = time.perf_counter()
    number = client.begin("tools/call", call("toolbox-mcp", FLOOD))
    pings = []
    while not client.answered(number):
        pings.append(ping())
        time.sleep(PAUSE)
    return time.perf_counter() - begin, pings, client.result(number)


def verdict(held: bool) -> str:
    return "held" if held else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-peers", action="store_true", help="only the bare spawn and this server")
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.bare:
        return asyncio.run(bare())
    names = ["bare spawn", "toolbox-mcp", *(() if given.no_peers else (*peers.PYTHON, "desktop-commander"))]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, contextlib.ExitStack() as stack:
        base = Path(folder).resolve()
        (base / "root").mkdir()
        stack.enter_context(contextlib.chdir(base / "root"))
        servers = []
        for name in names:
            try:
                client = stack.enter_context(start(name, base / name.replace(" ", "-")))
            except (peers.AbsentError, Failed, OSError) as why:
                print(f"{name} is left out: {why}")
            else:
                servers.append(Measured(name, client, memory(client.pid, "VmRSS")))
        print(f"load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}, {os.cpu_count()} cores", end="; ")
        print(f"medians of {given.rounds * SHORT} and {given.rounds} runs, milliseconds")
        alternate(servers, given.rounds)
        show(servers)
        print(f"load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}")
        ours = next(server for server in servers if server.name == "toolbox-mcp")
        over = statistics.median(ours.true) - statistics.median(servers[0].true)
        quick = statistics.quantiles(ours.true, n=10)[0] - statistics.quantiles(servers[0].true, n=10)[0]
        print(
            f"bash over a bare spawn: {over:.2f} ms (of the quickest tenths: {quick:.2f}), "
            f"goal {OVERHEAD_GOAL:.0f}: {verdict(over < OVERHEAD_GOAL)}"
        )
        with start("toolbox-mcp", base / "flood") as client:
            before = memory(client.pid, "VmHWM")
            seconds, pings, answer = flood(client)
            after = memory(client.pid, "VmHWM")
        got = answer["structuredContent"]["stdout_bytes"]
        assert got == 1 << 30, answer["structuredContent"]
        print(
            f"1 GiB of output in {seconds:.1f} s: peak memory {before:.1f} MB before, {after:.1f} MB after: "
            f"{verdict(after - before < FLAT)}"
        )
        print(
            f"{len(pings)} pings meanwhile: median {statistics.median(pings):.2f} ms, worst {max(pings):.2f} ms, "
            f"goal {PING_GOAL:.0f}: {verdict(max(pings) < PING_GOAL)}"
        )


if __name__ == "__main__":
    sys.exit(main())
