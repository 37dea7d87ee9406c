"""The read tools beside two peers over stdio, and beside rg and fd on the same trees, in one run.

    python bench/read.py --trees /var/tmp/trees --fd fdfind \
        --filesystem "mcp-server-filesystem /var/tmp/trees" --commander "node .../desktop-commander/dist/index.js"

Makes the trees where they are missing. Everything alternates within a round, in any order, so that a busy machine, and what
a contestant leaves running behind its answer, disturb all alike; the first round is dropped. Prints medians in ms, what
they are of ours, and the memory of the servers. Give peers a home of their own and no network (`unshare -n env HOME=...`):
desktop-commander reports home unless told not to.
"""

import argparse
import os
import random
import shlex
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from client import LineClient

Act = Callable[[], object]

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "return",
    "def",
    "class",
    "import",
    "self",
    "value",
    "Error",
    "count",
    "index",
    "lines",
]
RARE = "needle in a haystack"
COMMON = r"Error\d\d7\b"
KINDS = ("py", "rb", "js", "txt")


def make_tree(root: Path, files: int, lines: tuple[int, int]) -> Path:
    """Make a tree of so many files, the same each time, unless it is there."""
    if root.exists():
        return root
    work = root.with_name(root.name + ".unfinished")
    chance = random.Random(files)
    for number in range(files):
        folder = work / f"package{number // 400:03}" / f"module{number // 20:04}"
        if number % 20 == 0:
            folder.mkdir(parents=True)
        text = "\n".join(
            " ".join(f"{chance.choice(WORDS)}{chance.randrange(1000)}" for _ in range(8))
            for _ in range(chance.randrange(*lines))
        )
        if number % (files // 20) == 7:
            text += f"\n{RARE}"
        (folder / f"file{number % 20:02}.{chance.choice(KINDS)}").write_text(text + "\n")
    (work / "package000" / ".gitignore").write_text("*.log\nout/\n/local.*\n")
    (work / ".gitignore").write_text("*.pyc\n__pycache__/\n.env\n*.egg-info/\n/dist\n")
    work.rename(root)
    return root


def make_files(root: Path) -> Path:
    """Make a folder of 1,000 entries with a file of 100 KB in it."""
    if not root.exists():
        root.mkdir()
        (root / "100k.txt").write_text(
            "".join(f"{n:07} some text that fills a line of the file\n" for n in range(2000))
        )
        for n in range(999):
            (root / f"entry{n:04}.txt").touch()
    return root


def quiet(argv: list[str], cwd: Path) -> Act:
    """Return what runs a program and reads what it prints."""
    return lambda: subprocess.run(argv, cwd=cwd, env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def walked(tree: Path) -> Act:
    """Return what goes through a tree by os.scandir in this process, by no rules and for nothing."""

    def act() -> None:
        todo = [str(tree)]
        while todo:
            with os.scandir(todo.pop()) as entries:
                todo += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]

    return act


def commander_search(client: LineClient, **arguments: Any) -> Act:
    """Return what starts a search of desktop-commander and asks until it has ended, as a client has to."""

    def act() -> None:
        text = client.call("start_search", arguments)["content"][0]["text"]
        session = next(word for word in text.replace("\n", " ").split(" ") if word.startswith("search_"))
        while True:
            more = client.call("get_more_search_results", {"sessionId": session, "offset": 0, "length": 10_000})
            if "Status: COMPLETED" in more["content"][0]["text"] or "isComplete" in str(more):
                return
            time.sleep(0.001)

    return act


def rows(
    clients: Mapping[str, LineClient], flat: Path, small: Path, large: Path | None, rg: str, fd: str | None
) -> dict[str, dict[str, Act]]:
    """Return what is timed: for each row, an act of each contestant that has one."""
    out: dict[str, dict[str, Act]] = {}

    def row(name: str, **acts: tuple[str, dict[str, Any]] | Act) -> None:
        out[name] = {}
        for who, act in acts.items():
            if callable(act):
                out[name][who] = act
            elif who in clients:
                out[name][who] = lambda client=clients[who], act=act: client.call(*act)  # type: ignore[misc]

    def all_with(name: str, cwd: Path, glob: str) -> dict[str, Act]:
        return {"fd": quiet([fd, "--hidden", "--glob", glob], cwd)} if fd else {}

    text = str(flat / "100k.txt")
    row(
        "read 100 KB",
        ours=("read_file", {"path": text}),
        filesystem=("read_text_file", {"path": text}),
        commander=("read_file", {"path": text, "length": 10_000}),
    )
    row(
        "list 1,000",
        ours=("list_directory", {"path": str(flat)}),
        filesystem=("list_directory_with_sizes", {"path": str(flat)}),
    )
    row(
        "list 1,000 unsized",
        ours=("list_directory", {"path": str(flat), "sizes": False}),
        filesystem=("list_directory", {"path": str(flat)}),
        commander=("list_directory", {"path": str(flat), "depth": 1}),
    )
    # Theirs tell no sizes here, ours does.
    row(
        "list 1,000, theirs unsized",
        ours=("list_directory", {"path": str(flat)}),
        filesystem=("list_directory", {"path": str(flat)}),
        commander=("list_directory", {"path": str(flat), "depth": 1}),
    )
    for name, tree in (("5,000", small), ("80,000", large)):
        if tree is None:
            continue
        files: dict[str, Any] = {"rg": quiet([rg, "--no-config", "--files", "--hidden", "--no-require-git"], tree)}
        row(
            f"tree {name}",
            ours=("tree", {"path": str(tree), "max_depth": 9}),
            filesystem=("directory_tree", {"path": str(tree)}),
            commander=("list_directory", {"path": str(tree), "depth": 9}),
        )
        row(
            f"glob {name}, 1 hit",
            ours=("glob", {"pattern": "**/module0007/file03.*", "base": str(tree)}),
            filesystem=("search_files", {"path": str(tree), "pattern": "**/module0007/file03.*"}),
            **files,
            **all_with(name, tree, "file03.*"),
        )
        row(
            f"glob {name}, all visited",
            ours=("glob", {"pattern": "**/*.nowhere", "base": str(tree)}),
            filesystem=("search_files", {"path": str(tree), "pattern": "**/*.nowhere"}),
            scandir=walked(tree),
            **files,
            **all_with(name, tree, "*.nowhere"),
        )
        plain = [rg, "--no-config", "--hidden", "--no-require-git", "--line-number"]
        for kind, pattern in (("20 hits", RARE), ("many hits", COMMON)):
            search: dict[str, Any] = {"path": str(tree), "pattern": pattern}
            more: dict[str, Any] = {"rg": quiet([*plain, "--regexp", pattern, "./"], tree)}
            if "commander" in clients:
                options = {"searchType": "content", "contextLines": 0, "ignoreCase": False, "maxResults": 200}
                more["commander"] = commander_search(clients["commander"], **search, **options)
            row(f"grep {name}, {kind}", ours=("grep_files", search), **more)
    return out


def resident(pid: int) -> tuple[float, float]:
    """Return what a process and everything below it hold, and the peak of the process itself, in MB."""
    held, peak = 0.0, 0.0
    todo = [pid]
    while todo:
        one = todo.pop()
        try:
            fields = dict(line.split(":", 1) for line in Path(f"/proc/{one}/status").read_text().splitlines())
            todo += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            continue
        held += int(fields.get("VmRSS", "0").split()[0]) / 1024
        peak = max(peak, int(fields.get("VmHWM", "0").split()[0]) / 1024)
    return held, peak


def spent(pid: int) -> float:
    """Return the CPU time of a process and everything that it started, in ms; what ended counts once it is reaped."""
    total = 0.0
    tick = 1000 / os.sysconf("SC_CLK_TCK")
    todo = [pid]
    while todo:
        one = todo.pop()
        for task in Path(f"/proc/{one}/task").glob("*"):
            try:
                total += int((task / "schedstat").read_text().split()[0]) / 1e6
                todo += map(int, (task / "children").read_text().split())
            except OSError:
                continue
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[13]) + int(fields[14])) * tick
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=Path, required=True, help="folder for the trees, kept between runs")
    parser.add_argument("--server", help="command of this server, when not the installed one")
    parser.add_argument("--filesystem", help="command of @modelcontextprotocol/server-filesystem")
    parser.add_argument("--commander", help="command of desktop-commander")
    parser.add_argument("--fd", help="the program fd, where it is installed")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--small", action="store_true", help="leave out the tree of 80,000 files")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    options = parser.parse_args()
    options.trees.mkdir(parents=True, exist_ok=True)
    trees = options.trees.resolve()
    flat = make_files(trees / "flat")
    small = make_tree(trees / "5000", 5_000, (20, 200))
    large = None if options.small else make_tree(trees / "80000", 80_000, (5, 60))
    scripts = Path(sysconfig.get_path("scripts"))
    rg = str(scripts / "rg")
    ours = shlex.split(options.server or f"{scripts / 'toolbox-mcp'}")
    commands = {"ours": [*ours, "--root", str(trees), "--set", "max_output_tokens=10000000"]}
    for who in ("filesystem", "commander"):
        if getattr(options, who):
            commands[who] = shlex.split(getattr(options, who))
    with ExitStack() as stack:
        clients = {who: stack.enter_context(LineClient(command)) for who, command in commands.items()}
        for client in clients.values():
            client.initialize()
        if "commander" in clients:
            for key, value in (("telemetryEnabled", False), ("fileReadLineLimit", 100_000)):
                clients["commander"].call("set_config_value", {"key": key, "value": value})
        idle = {who: resident(client.pid)[0] for who, client in clients.items()}
        table = {
            name: acts
            for name, acts in rows(clients, flat, small, large, rg, options.fd).items()
            if options.only in name
        }
        times: dict[tuple[str, str], list[float]] = {}
        used: dict[tuple[str, str], float] = {}
        for number in range(options.rounds + 1):
            for name, acts in table.items():
                for who, act in random.sample([*acts.items()], len(acts)):
                    before = spent(clients[who].pid) if who in clients else 0.0
                    begin = time.perf_counter()
                    act()
                    took = (time.perf_counter() - begin) * 1000
                    if number:
                        times.setdefault((name, who), []).append(took)
                        if who in clients:
                            used[name, who] = used.get((name, who), 0.0) + spent(clients[who].pid) - before
        contestants = ["ours", "filesystem", "commander", "rg", "fd", "scandir"]
        print(f"load {os.getloadavg()[0]:.1f}; median ms, and ours as a share of theirs")
        print(f"{'':<26}" + "".join(f"{who:>18}" for who in contestants))
        for name, acts in table.items():
            median = {who: statistics.median(times[name, who]) for who in acts}
            cells = [
                f"{median[who]:.1f}" + ("" if who == "ours" else f" ({median['ours'] / median[who]:.2f})")
                if who in median
                else ""
                for who in contestants
            ]
            print(f"{name:<26}" + "".join(f"{cell:>18}" for cell in cells))
        print("CPU ms of a call, which a busy machine does not change")
        for name in table:
            cells = [f"{used[name, who] / options.rounds:.1f}" if (name, who) in used else "" for who in contestants]
            print(f"{name:<26}" + "".join(f"{cell:>18}" for cell in cells))
        for who, client in clients.items():
            held, peak = resident(client.pid)
            print(f"memory of {who}: {idle[who]:.0f} MB idle, {held:.0f} after, {peak:.0f} at most in one process")


if __name__ == "__main__":
    sys.exit(main())
