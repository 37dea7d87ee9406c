"""Each git tool that reads, beside plain git and mcp-server-git, on a repository that is made for it.

    python bench/git.py [--commits 10000] [--files 50000] [--peer "mcp-server-git"]

Prints milliseconds of a warm call, the median of 9.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

ROUNDS = 9
PAIRS = (
    ("git_status", {}, ["status", "--porcelain", "-b", "-uall"], "git_status", {}),
    ("git_diff", {}, ["diff"], "git_diff_unstaged", {}),
    ("git_log", {"count": 20}, ["log", "-20"], "git_log", {"max_count": 20}),
    ("git_show", {"ref": "HEAD"}, ["show", "HEAD"], "git_show", {"revision": "HEAD"}),
    ("git_blame", {"path": "d0/f0.txt"}, ["blame", "d0/f0.txt"], None, {}),
    ("git_grep", {"pattern": "needle"}, ["grep", "-n", "needle"], None, {}),
    ("git_branch", {}, ["branch"], "git_branch", {"branch_type": "local"}),
)


def made(folder: Path, commits: int, files: int) -> None:
    """Fill a repository by fast-import: files in the first commit, one change in each that follows."""
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    stream = subprocess.Popen(["git", "-C", folder, "fast-import", "--quiet"], stdin=subprocess.PIPE)
    assert stream.stdin
    who = "B <b@example.org>"
    for number in range(commits):
        stream.stdin.write(
            f"commit refs/heads/main\ncommitter {who} {1_700_000_000 + number} +0000\ndata 6\nchange".encode()
        )
        changed = range(files) if number == 0 else [number % files]
        for at in changed:
            text = f"file {at}\nchange {number}\n{'needle' if at % 500 == 0 else 'hay'}\n".encode()
            stream.stdin.write(f"\nM 100644 inline d{at % 100}/f{at}.txt\ndata {len(text)}\n".encode() + text)
        stream.stdin.write(b"\n")
    stream.stdin.close()
    assert stream.wait() == 0
    subprocess.run(["git", "-C", folder, "reset", "-q", "--hard"], check=True)
    (folder / "d0" / "f0.txt").write_text("changed\n")
    # Files as young as the index would be read again by each command that does not write the index.
    time.sleep(1.5)
    subprocess.run(["git", "-C", folder, "status"], check=True, capture_output=True)


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """Return the median milliseconds of a call, the first one left out."""
    await call()
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await call()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


async def measured(command: list[str], folder: Path, calls: list[tuple[str, dict[str, object]]]) -> list[float]:
    """Return the milliseconds of each call of a server."""
    server = StdioServerParameters(command=command[0], args=command[1:], cwd=folder, env=dict(os.environ))
    out = []
    async with Client(stdio_client(server)) as client:
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result
            out.append(await timed(lambda name=name, arguments=arguments: client.call_tool(name, arguments)))
    return out


async def main() -> None:
    """Make the repository and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--peer", help="command of mcp-server-git")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "repo"
        made(folder, args.commits, args.files)
        ours = [sys.executable, "-m", "toolbox_mcp", "--root", str(folder), "--set", "records=false"]
        mine = await measured(ours, folder, [(tool, given) for tool, given, *_ in PAIRS])
        peers: dict[str, float] = {}
        if args.peer:
            asked = [(tool, {"repo_path": str(folder)} | given) for *_, tool, given in PAIRS if tool]
            peers = dict(
                zip([tool for tool, _ in asked], await measured(args.peer.split(), folder, asked), strict=True)
            )
        print(
            f"{args.commits} commits, {args.files} files; milliseconds\n{'tool':12} {'ours':>8} {'git':>8} {'peer':>8}"
        )
        for (tool, _, command, peer, _), took in zip(PAIRS, mine, strict=True):

            async def plain(command: list[str] = command) -> None:
                subprocess.run(["git", "--no-pager", *command], cwd=folder, check=True, capture_output=True)  # noqa: ASYNC221 - it is what is measured

            print(f"{tool:12} {took:8.1f} {await timed(plain):8.1f} {peers.get(peer or '', float('nan')):8.1f}")


if __name__ == "__main__":
    asyncio.run(main())
