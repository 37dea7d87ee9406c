"""Start to initialize, tools/list and the round trip of a call on stdio, beside another server.

    python bench/stdio_calls.py --server "toolbox-mcp --root ." --call read_file '{"path": "README.md"}' \
        --peer "mcp-server-filesystem ." --peer-call read_text_file '{"path": "README.md"}'

Starts and rounds of calls of the two alternate, so that a busy machine disturbs both alike.
"""

import argparse
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from client import LineClient

ROUNDS = 4


@dataclass
class Measured:
    """What one server took, in milliseconds."""

    command: list[str]
    call: tuple[str, str] | None
    initialize: list[float] = field(default_factory=list)
    first_list: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    lists: list[float] = field(default_factory=list)


def clocked(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1000


def measure_start(found: Measured) -> None:
    """Time a start up to the answer of initialize, and of the first tools/list."""
    begin = time.perf_counter()
    with LineClient(found.command) as client:
        client.initialize()
        found.initialize.append((time.perf_counter() - begin) * 1000)
        client.request("tools/list")
        found.first_list.append((time.perf_counter() - begin) * 1000)


def measure_calls(found: Measured, count: int) -> None:
    """Time calls and lists of a server that is warm."""
    with LineClient(found.command) as client:
        client.initialize()
        client.request("tools/list")
        if found.call is not None:
            tool, arguments = found.call[0], json.loads(found.call[1])
            for _ in range(50):
                client.call(tool, arguments)
            found.calls += [clocked(lambda: client.call(tool, arguments)) for _ in range(count)]
        found.lists += [clocked(lambda: client.request("tools/list")) for _ in range(max(10, count // 20))]


def row(name: str, ours: Sequence[float], theirs: Sequence[float] | None, share: float) -> str:
    """Return one line: ours, theirs and the ratio at this quantile."""

    def at(values: Sequence[float]) -> float:
        return statistics.quantiles(values, n=1000, method="inclusive")[round(share * 1000) - 1]

    line = f"{name:<28}{at(ours):>12.3f}"
    return line if not theirs else f"{line}{at(theirs):>12.3f}{at(ours) / at(theirs):>9.2f}x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="command of the server")
    parser.add_argument("--call", nargs=2, metavar=("TOOL", "JSON"), help="the call to time")
    parser.add_argument("--peer", help="command of the server to compare with")
    parser.add_argument("--peer-call", nargs=2, metavar=("TOOL", "JSON"), help="its call")
    parser.add_argument("--starts", type=int, default=15)
    parser.add_argument("--calls", type=int, default=2000)
    given = parser.parse_args()
    ours = Measured(shlex.split(given.server), given.call and tuple(given.call))
    servers = [ours]
    if given.peer:
        servers.append(Measured(shlex.split(given.peer), given.peer_call and tuple(given.peer_call)))
    for found in servers:
        # Once to fill the caches of the file system and of bytecode.
        measure_start(Measured(found.command, None))
    for _ in range(given.starts):
        for found in servers:
            measure_start(found)
    for _ in range(ROUNDS):
        for found in servers:
            measure_calls(found, given.calls // ROUNDS)
    peer = servers[1] if given.peer else Measured([], None)
    print(f"{'milliseconds':<28}{'server':>12}" + (f"{'peer':>12}{'ratio':>10}" if given.peer else ""))
    print(row("start to initialize p50", ours.initialize, peer.initialize, 0.5))
    print(row("start to tools/list p50", ours.first_list, peer.first_list, 0.5))
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        print(row(f"tools/list {name}", ours.lists, peer.lists, share))
    if ours.calls:
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            print(row(f"call {name}", ours.calls, peer.calls, share))


if __name__ == "__main__":
    sys.exit(main())
