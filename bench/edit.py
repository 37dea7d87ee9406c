"""Editing one file and replacing over 1,000, beside other servers, over stdio in one run.

    python bench/edit.py --server-filesystem "node .../mcp-server-filesystem" --desktop-commander "node .../dist/index.js"

The other servers edit one file a call, so replacing over many files is one call each for them; ours is also timed that way.
Every server gets a fresh copy of the same files, and what it left is compared with what was asked. Rounds alternate.
Commands may name FOLDER, the folder they work in. Ours syncs every file to the disk before it answers, and
its folder right after; --folder on a memory file system shows what is left without that.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from client import LineClient

EDITS = 40
FILES = 1000
ROUNDS = 3
LINE = "some text that stays, and an old word\n"
LINES = 130  # about 5 KB, as source files are


@dataclass
class Server:
    """How one server is started and asked to replace a text by another in one file."""

    name: str
    command: str
    edit: Callable[[str, str, str], tuple[str, dict[str, Any]]]
    environment: dict[str, str] = field(default_factory=dict)
    single: list[float] = field(default_factory=list)
    each: list[float] = field(default_factory=list)
    many: list[float] = field(default_factory=list)


def ours(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": path, "old_string": old, "new_string": new}


def filesystem(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": path, "edits": [{"oldText": old, "newText": new}]}


def commander(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_block", {"file_path": path, "old_string": old, "new_string": new}


def laid_out(folder: Path) -> list[Path]:
    """Make the files: each holds the word once at its end."""
    shutil.rmtree(folder, ignore_errors=True)
    files = []
    for number in range(FILES):
        file = folder / f"d{number // 50}" / f"f{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(LINE.replace("old", "other") * LINES + LINE)
        files.append(file)
    os.sync()
    return files


def clocked(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return (time.perf_counter() - begun) * 1000


def timed(server: Server, folder: Path) -> None:
    files = laid_out(folder)
    command = [part.replace("FOLDER", str(folder)) for part in shlex.split(server.command)]
    with LineClient(command) as client:
        client.initialize()
        for warm in range(5):
            tool, arguments = server.edit(
                str(files[0]), f"{'old' if warm == 0 else f'w{warm - 1}'} word", f"w{warm} word"
            )
            client.call(tool, arguments)
        last = "w4"
        for number in range(EDITS):
            tool, arguments = server.edit(str(files[0]), f"{last} word", f"e{number} word")
            server.single.append(clocked(partial(client.call, tool, arguments)))
            last = f"e{number}"
        expect(files[0], f"e{EDITS - 1} word\n")

        def one_by_one() -> None:
            for file in files[1:]:
                tool, arguments = server.edit(str(file), "an old word", "a new word")
                client.call(tool, arguments)

        server.each.append(clocked(one_by_one))
        for file in files[1:]:
            expect(file, "a new word\n")
        if server.edit is ours:
            wanted = {"pattern": "a new word", "replacement": "the last word"}
            server.many.append(clocked(lambda: client.call("replace_in_files", wanted)))
            for file in files[1:]:
                expect(file, "the last word\n")


def expect(file: Path, end: str) -> None:
    if not file.read_text().endswith(end):
        sys.exit(f"{file} does not end with {end!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own = f"{sys.executable} -P -m toolbox_mcp serve --root FOLDER --enable-exec"
    parser.add_argument("--server", default=own, help="the command of ours")
    parser.add_argument("--server-filesystem", help="the command of @modelcontextprotocol/server-filesystem")
    parser.add_argument("--desktop-commander", help="the command of @wonderwhy-er/desktop-commander")
    parser.add_argument("--folder", help="where to work; default: the folder for temporary files")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    servers = [Server("toolbox-mcp", asked.server, ours)]
    if asked.server_filesystem:
        servers.append(Server("server-filesystem", asked.server_filesystem, filesystem))
    if asked.desktop_commander:
        servers.append(Server("desktop-commander", asked.desktop_commander, commander))
    with tempfile.TemporaryDirectory(dir=asked.folder) as top:
        for _ in range(asked.rounds):
            for server in servers:
                timed(server, Path(top).resolve() / "files")
    print(json.dumps({"edits": EDITS, "files": FILES - 1, "rounds": asked.rounds}))
    print(f"{'ms':18} {'one edit':>10} {'(fastest)':>10} {'999 files, one call each':>26} {'in one call':>12}")
    for server in servers:
        many = f"{min(server.many):12.0f}" if server.many else f"{'-':>12}"
        print(
            f"{server.name:18} {statistics.median(server.single):10.2f} {min(server.single):10.2f} "
            f"{min(server.each):26.0f} {many}"
        )


if __name__ == "__main__":
    main()
