"""Every tool that walks, on one folder of a million files: python bench/million.py --folder /dev/shm/million

Each call has to answer or to say what is wrong, within its time-out; what it says it changed has to be what it changed; after
all of it every file has to be where it was, with its content. Exits with 1 where something is not. Prints the time of each
call, the last line of its answer and the most memory that the server and what it ran had taken by then. Takes some minutes, and a file
system with a million free inodes; one in memory takes 4 KiB for each.
"""

import argparse
import hashlib
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from client import LineClient
from read import resident

NEEDLE = "a needle"
NEEDLES = 20


def make(folder: Path, entries: int) -> None:
    """Fill a folder with empty files, of which a few hold a line."""
    folder.mkdir(parents=True)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(entries):
        fd = os.open(f"{number:07}.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=at)
        if number % (entries // NEEDLES) == 0:
            os.write(fd, f"{NEEDLE} in file {number}\n".encode())
        os.close(fd)
    os.close(at)


def state(folder: Path) -> str:
    """Return a digest of all names, and of what the files hold."""
    digest = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        file = folder / name
        digest.update(f"{name} {file.read_text() if file.stat().st_size else ''}\n".encode())
    return digest.hexdigest()


def changed(folder: Path) -> int:
    """Return how many files hold the word that replaces another."""
    return sum("a pin" in (folder / name).read_text() for name in os.listdir(folder) if (folder / name).stat().st_size)


class Checked:
    """Calls a server and prints what came of it; counts what is wrong."""

    def __init__(self, client: LineClient) -> None:
        self._client = client
        self.wrong = 0

    def call(self, tool: str, **arguments: Any) -> str:
        """Return the text of an answer."""
        begun = time.perf_counter()
        result = self._client.request("tools/call", {"name": tool, "arguments": arguments})
        taken = time.perf_counter() - begun
        text = str(result["content"][0]["text"])
        last = text.rstrip("\n").rsplit("\n", 1)[-1]
        asked = " ".join(f"{name}={value}" for name, value in arguments.items())
        peak = resident(self._client.pid)[1]
        print(f"{taken:7.2f} s  {peak:5.0f} MB  {tool} {asked[:70]}: {last[:100]}", flush=True)
        self.check(not result.get("isError"), f"{tool} failed: {text[:300]}")
        return text

    def check(self, right: bool, otherwise: str) -> None:
        """Tell what is wrong, unless it is right."""
        if not right:
            self.wrong += 1
            print(f"WRONG: {otherwise}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the files are made; it must not be there")
    parser.add_argument("--entries", type=int, default=10**6)
    options = parser.parse_args()
    root: Path = options.folder
    many = root / "many"
    make(many, options.entries)
    before = state(many)
    command = [sys.executable, "-P", "-m", "toolbox_mcp", "--enable-exec", "--root", str(root)]
    with LineClient(command) as client:
        client.initialize()
        checked = Checked(client)
        for tool, arguments in (
            ("list_directory", {"path": "many"}),
            ("list_directory", {"path": "many", "pattern": "*.py"}),
            ("tree", {}),
            ("glob", {"pattern": "**/*.txt"}),
            ("glob", {"pattern": "**/*.py"}),
            ("grep_files", {"pattern": NEEDLE}),
            ("grep_files", {"pattern": "(?<=a )needle"}),
            ("grep_files", {"pattern": "0000.txt", "target": "path"}),
            ("grep_files", {"match": "block", "query": [f"{NEEDLE} in file 0"]}),
            ("replace_in_files", {"pattern": NEEDLE, "replacement": "a pin", "dry_run": True}),
        ):
            checked.call(tool, **arguments)
        checked.check(state(many) == before, "reading has changed something")
        text = checked.call("replace_in_files", pattern=NEEDLE, replacement="a pin")
        said = re.search(r" in (\d+) file", text)
        checked.check(said is not None and int(said[1]) == changed(many), "what it replaced is not what it said")
        if said and int(said[1]):
            checked.call("undo")
        checked.check(state(many) == before, "the replacement was not undone")
        checked.call("move_file", source="many", destination="moved")
        checked.check(state(root / "moved") == before, "the move has changed something")
        checked.call("undo")
        checked.check(state(many) == before, "the move was not undone")
        checked.call("delete_file", path="many", recursive=True)
        checked.check(not many.exists(), "it is still there")
        checked.call("undo")
        checked.check(state(many) == before, "the deletion was not undone")
        checked.call("delete_file", path="many", recursive=True, mode="permanent")
        checked.check(not many.exists(), "it is still there")
    left = [name for name in os.listdir(root) if name != ".trash"]
    checked.check(not left, f"something is left: {left[:5]}")
    print(f"{checked.wrong} wrong")
    sys.exit(checked.wrong > 0)


if __name__ == "__main__":
    main()
