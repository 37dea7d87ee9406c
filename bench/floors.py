"""The least that three rows take from Python, beside other servers and ours, over stdio in turns.

    python bench/floors.py --trees FOLDER --filesystem "node .../mcp-server-filesystem FOLDER" \
        --commander "node .../desktop-commander/dist/index.js"

The bare server answers lines of JSON in a loop and does only what the contract asks for in so many words: it lists 1,000
entries with their sizes; writes an edited file beside its place, syncs it, puts it in and syncs the folder; runs rg and
passes its output on. The recording one does that in a thread beside an event loop, and inserts a row into SQLite before.
No schema, guard, budget, undo or deadline: what they take, a server with those cannot be below. The third one records too,
and its edits do what the contract asks of each: they open beneath a descriptor, refuse what is no regular file, refuse to
replace what has changed meanwhile, keep mode and attributes, tell the etag, and keep the old content for an undo; without
locks, and without telling apart what was written within a tick of the clock. What a call of ours takes beside its work is told
by one that has none: it makes a folder that is there. The other server's edits, which are not synced, are also timed with
syncs by the client, each by a process of its own. Ours syncs the folder right after its answer, the bare ones before. FOLDER
holds the trees of bench/read.py, or gets them. Ratios are medians over the rounds.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import shlex
import sqlite3
import stat
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from client import LineClient
from read import RARE, make_files, make_tree

from toolbox_mcp.safety.path_jail.openat2 import openat2
from toolbox_mcp.safety.path_jail.statuses import MOST, Lookup
from toolbox_mcp.safety.writes.renameat2 import exchange

WARM = 5
LINE = "some text that stays\n"
SYNCED = "filesystem and syncs"
EDITED = {"one edit": 5_000, "one edit in 100 KB": 100_000}
"""Bytes of the files that are edited."""


def answer(request: dict[str, Any], text: str) -> bytes:
    """Return the line that answers a request."""
    result = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n"


def done_for(request: dict[str, Any]) -> str:
    """Do what a request asks for, and return its text."""
    acts: dict[str, Callable[..., str]] = {
        "list": bare_list,
        "edit": bare_edit,
        "grep": bare_grep,
        "nothing": lambda path: "nothing",
    }
    return acts[request["params"]["name"]](**request["params"]["arguments"])


def bare_server() -> None:
    """Serve until the end of input."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request:
            os.write(1, answer(request, done_for(request) if request["method"] == "tools/call" else ""))


def recording_server(act: Callable[[dict[str, Any]], str] = done_for) -> None:
    """Serve from an event loop: insert a row into SQLite, act in a thread, answer, and complete the row 5 ms later."""
    loop = asyncio.new_event_loop()
    jobs: SimpleQueue[dict[str, Any]] = SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        rows = sqlite3.connect(Path(folder, "rows"), isolation_level=None)
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA wal_autocheckpoint = 0"):
            rows.execute(statement)
        rows.execute("CREATE TABLE calls (id INTEGER PRIMARY KEY, status TEXT, input TEXT, output TEXT)")

        def work() -> None:
            while True:
                request = jobs.get()
                try:
                    text = act(request)
                except BaseException:  # noqa: BLE001 - nobody would answer any more
                    traceback.print_exc()
                    os._exit(1)
                loop.call_soon_threadsafe(done, request, text)

        def done(request: dict[str, Any], text: str) -> None:
            os.write(1, answer(request, text))
            end = "UPDATE calls SET status = 'success', output = ? WHERE id = ?"
            loop.call_later(0.005, rows.execute, end, (text[:10_000], request["id"]))

        def take() -> None:
            lines = os.read(0, 1 << 18)
            if not lines:
                loop.stop()
            for request in map(json.loads, lines.splitlines()):
                if request["method"] == "tools/call":
                    begun = (request["id"], json.dumps(request["params"]))
                    rows.execute("INSERT INTO calls (id, status, input) VALUES (?, 'running', ?)", begun)
                    jobs.put(request)
                elif "id" in request:
                    os.write(1, answer(request, ""))

        Thread(target=work, daemon=True).start()
        loop.add_reader(0, take)
        loop.run_forever()


def bare_list(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    names = sorted(os.listdir(fd))
    look = Lookup(len(names))
    sizes = [size for at in range(0, len(names), MOST) for size in look(fd, names[at : at + MOST])[1]]
    os.close(fd)
    return "\n".join([f"file\t{size}\t{name}" for name, size in zip(names, sizes, strict=True)])


def bare_edit(path: str, old: str, new: str) -> str:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.count(old) == 1
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    os.write(fd, text.replace(old, new).encode())
    os.fsync(fd)
    os.close(fd)
    os.rename(path + ".new", path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return "edited"


def keeping_server() -> None:
    """Serve as the recording one does, with edits that keep all that an edit of ours has to keep."""
    beneath = openat2()
    assert beneath
    root = os.open("/", os.O_PATH)
    undo: list[tuple[str, bytes, str, os.stat_result]] = []

    def edit(request: dict[str, Any]) -> str:
        path, old, new = request["params"]["arguments"].values()
        folder, name = os.path.split(path[1:])
        at = beneath(root, path[1:], os.O_PATH, 0)
        assert stat.S_ISREG(os.fstat(at).st_mode)
        os.close(at)
        fd = beneath(root, path[1:], os.O_RDONLY | os.O_NONBLOCK, 0)
        seen = os.fstat(fd)
        data = os.read(fd, 1 << 20)
        text = data.decode()
        assert text.count(old) == 1
        changed = text.replace(old, new).encode()
        dir_fd = beneath(root, folder, os.O_RDONLY | os.O_DIRECTORY, 0)
        temporary = f".{name}.new"
        put = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=dir_fd)
        os.write(put, changed)
        for attribute in os.listxattr(fd):
            os.setxattr(put, attribute, os.getxattr(fd, attribute))
        os.fchmod(put, seen.st_mode)
        os.fsync(put)
        now = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        assert (now.st_ino, now.st_mtime_ns, now.st_size) == (seen.st_ino, seen.st_mtime_ns, seen.st_size)
        assert exchange(dir_fd, temporary, name)
        now = os.stat(temporary, dir_fd=dir_fd, follow_symlinks=False)
        assert (now.st_ino, now.st_mtime_ns, now.st_size) == (seen.st_ino, seen.st_mtime_ns, seen.st_size)
        os.fsync(dir_fd)
        os.unlink(temporary, dir_fd=dir_fd)
        undo.append((path, data, sha256(data).hexdigest(), os.fstat(put)))
        for each in (fd, put, dir_fd):
            os.close(each)
        return f"edited, etag {sha256(changed).hexdigest()[:16]}"

    recording_server(lambda request: edit(request) if request["params"]["name"] == "edit" else done_for(request))


def bare_grep(argv: list[str], path: str) -> str:
    return subprocess.run(
        argv, cwd=path, env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False
    ).stdout.decode()


class Row:
    """One thing that several contestants do in turns, and what each took in milliseconds."""

    def __init__(self, name: str, acts: dict[str, Callable[[], object]]) -> None:
        self.name = name
        self._acts = acts
        self._taken: dict[str, list[float]] = {who: [] for who in acts}

    def once(self, *, counts: bool) -> None:
        """Let each do it once, in any order."""
        for who in random.sample([*self._acts], len(self._acts)):
            begun = time.perf_counter()
            self._acts[who]()
            if counts:
                self._taken[who].append((time.perf_counter() - begun) * 1000)

    def told(self, peer: str) -> str:
        """Return a line: the median of each, and its ratio to the peer."""
        base = self._taken[peer]
        parts = [
            f"{who} {statistics.median(taken):.2f} ({statistics.median(map(float.__truediv__, taken, base)):.2f}x)"
            for who, taken in self._taken.items()
        ]
        return f"{self.name:22} {'  '.join(parts)}"


def edits(
    client: LineClient, tool: str, file: Path, size: int, arguments: Callable[[str, str], dict[str, Any]]
) -> Callable[[], object]:
    """Make a file of some size, and return what changes it at each call, to something else each time."""
    file.write_text(LINE * (size // len(LINE)) + "word 0\n")
    numbers = itertools.count(1)

    def act() -> None:
        number = next(numbers)
        client.call(tool, arguments(f"word {number - 1}\n", f"word {number}\n"))

    return act


def synced(act: Callable[[], object], file: Path) -> Callable[[], object]:
    """Return what does an act and syncs a file and its folder, as this server does before it answers."""

    def act_and_sync() -> None:
        act()
        for path in (file, file.parent):
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)

    return act_and_sync


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=Path, required=True)
    parser.add_argument("--filesystem", help="the command of @modelcontextprotocol/server-filesystem")
    parser.add_argument("--commander", help="the command of @wonderwhy-er/desktop-commander")
    parser.add_argument("--rg", default=str(Path(sys.executable).with_name("rg")), help="default: that of the wheel")
    parser.add_argument("--rounds", type=int, default=100)
    servers = {"bare": bare_server, "recording": recording_server, "keeping": keeping_server}
    parser.add_argument("--serve", choices=servers, help="be one of the bare servers")
    asked = parser.parse_args()
    if asked.serve:
        servers[asked.serve]()
        return
    trees = asked.trees.resolve()
    flat, small = str(make_files(trees / "flat")), str(make_tree(trees / "5000", 5000, (20, 120)))
    work = trees / "edited"
    work.mkdir(exist_ok=True)
    search = [asked.rg, "--no-config", "--hidden", "--no-require-git", "--line-number", "--regexp", RARE, "./"]
    own = f"{sys.executable} -P -m toolbox_mcp --enable-exec --set max_output_tokens=10000000 --root"
    commands = {
        **{who: [sys.executable, __file__, "--trees", str(trees), "--serve", who] for who in servers},
        "ours": [*shlex.split(own), str(trees)],
    }
    for who in ("filesystem", "commander"):
        if given := getattr(asked, who):
            commands[who] = shlex.split(given)
    if asked.filesystem:
        # One that is called twice as often as the others has what it needs at hand.
        commands[SYNCED] = commands["filesystem"]
    clients = {who: LineClient(command) for who, command in commands.items()}
    try:
        for client in clients.values():
            client.initialize()
        if "commander" in clients:
            # What it tells its makers would go nowhere here, and takes 20 ms.
            clients["commander"].call("set_config_value", {"key": "telemetryEnabled", "value": False})
        report(clients, flat, small, work, search, asked.rounds)
    finally:
        for client in clients.values():
            client.close()


def edit_acts(clients: dict[str, LineClient], work: Path, size: int) -> dict[str, Callable[[], object]]:
    """Return what edits a file of some size, each contestant its own."""
    work.mkdir(exist_ok=True)

    def theirs(who: str) -> Callable[[], object]:
        file = work / who

        def arguments(old: str, new: str) -> dict[str, Any]:
            return {"path": str(file), "edits": [{"oldText": old, "newText": new}]}

        return edits(clients[who], "edit_file", file, size, arguments)

    def plain(who: str, tool: str, *names: str) -> Callable[[], object]:
        file = work / who
        return edits(clients[who], tool, file, size, lambda *texts: dict(zip(names, (str(file), *texts), strict=True)))

    bare = {who: plain(who, "edit", "path", "old", "new") for who in ("bare", "recording", "keeping")}
    return {
        "filesystem": theirs("filesystem"),
        SYNCED: synced(theirs(SYNCED), work / SYNCED),
        **bare,
        "ours": plain("ours", "edit_file", "path", "old_string", "new_string"),
    }


def report(clients: dict[str, LineClient], flat: str, small: str, work: Path, search: list[str], rounds: int) -> None:
    """Time the rows for which there is somebody to compare with."""
    bare, recording, ours = clients["bare"], clients["recording"], clients["ours"]
    acts: dict[str, Callable[[], object]] = {
        "rg": lambda: subprocess.run(
            search, cwd=small, env={}, stdin=subprocess.DEVNULL, capture_output=True, check=False
        ),
        "bare": lambda: bare.call("grep", {"argv": search, "path": small}),
        "recording": lambda: recording.call("grep", {"argv": search, "path": small}),
        "ours": lambda: ours.call("grep_files", {"path": small, "pattern": RARE}),
    }
    timed = [("rg", Row("grep over 5,000 files", acts))]
    if peer := clients.get("commander"):
        acts = {
            "commander": lambda: peer.call("list_directory", {"path": flat, "depth": 1}),
            "bare": lambda: bare.call("list", {"path": flat}),
            "recording": lambda: recording.call("list", {"path": flat}),
            "ours": lambda: ours.call("list_directory", {"path": flat}),
        }
        timed.append(("commander", Row("list 1,000 entries", acts)))
    acts = {
        "recording": lambda: recording.call("nothing", {"path": str(work)}),
        "ours": lambda: ours.call("create_directory", {"path": str(work)}),
    }
    timed.append(("recording", Row("a folder that is there", acts)))
    if "filesystem" in clients:
        timed += [
            ("filesystem", Row(name, edit_acts(clients, work / str(size), size))) for name, size in EDITED.items()
        ]
    for peer_name, row in timed:
        for number in range(rounds + WARM):
            row.once(counts=number >= WARM)
        print(row.told(peer_name))


if __name__ == "__main__":
    main()
