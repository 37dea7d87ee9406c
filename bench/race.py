"""Swap folders and files against links while a victim opens them: how often does it see what lies outside?

`python bench/race.py --seconds 60` runs every case; a second process swaps with RENAME_EXCHANGE all the time.
"""

import argparse
import ctypes
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Engine, Roots
from toolbox_mcp.safety.writes.atomic import read_whole, replace
from toolbox_mcp.safety.writes.fs_ops import remove

INSIDE, OUTSIDE = b"inside", b"outside"
RENAMEAT2 = {"x86_64": 316, "aarch64": 276}
EXCHANGE, HERE = 2, -100


@dataclass
class Count:
    """tries: how often the victim went for the path. done: got what lies inside. escapes: what lies outside."""

    tries: int = 0
    done: int = 0
    escapes: int = 0


def swap(one: bytes, other: bytes) -> None:
    """Exchange two names for as long as this process lives."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    number = RENAMEAT2[platform.machine()]
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(1000):
            call(number, HERE, one, HERE, other, EXCHANGE)


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Let a second process swap two names meanwhile."""
    with subprocess.Popen([sys.executable, __file__, "--swap", one, other]) as process:
        try:
            yield
            if process.poll() is not None:
                sys.exit(f"nothing was swapped: the second process ended with {process.returncode}")
        finally:
            process.kill()


def scene(base: Path) -> Path:
    """Make a root with a folder and a file, links to their like outside and to .git, and return it."""
    root = base / "root"
    for folder, text in (("root/folder", INSIDE), ("outside", OUTSIDE), ("root/.git", OUTSIDE)):
        (base / folder).mkdir(parents=True)
        (base / folder / "file").write_bytes(text)
    (root / "file").write_bytes(INSIDE)
    (root / "folder_link").symlink_to(base / "outside")
    (root / "file_link").symlink_to("../outside/file")
    (root / "git_link").symlink_to(".git")
    return root.resolve()


def realpath_and_check(root: Path, path: str) -> bytes:
    """Read a file as most servers do."""
    full = os.path.realpath(root / path)
    if not Path(full).is_relative_to(root):
        raise PermissionError(path)
    with open(full, "rb") as file:
        return file.read()


def run(read: Callable[[], bytes], until: Callable[[Count], bool]) -> Count:
    """Read until told to stop, and count."""
    count = Count()
    while not until(count):
        count.tries += 1
        try:
            data = read()
        except (ToolError, OSError):
            continue
        count.done += data == INSIDE
        count.escapes += data == OUTSIDE
    return count


READS = {"folder": ("folder/file", "folder", "folder_link"), "leaf": ("file", "file", "file_link")}
WRITES = {**READS, "git": ("folder/file", "folder", "git_link")}


def naive(base: Path, case: str, until: Callable[[Count], bool]) -> Count:
    """Race realpath-and-check."""
    root = scene(base)
    path, one, other = READS[case]
    with swapping(root / one, root / other):
        return run(lambda: realpath_and_check(root, path), until)


def reads(base: Path, case: str, engine: Engine, until: Callable[[Count], bool]) -> Count:
    """Race the jail's readers."""
    root = scene(base)
    roots = Roots([root], engine=engine)
    path, one, other = READS[case]
    try:
        with swapping(root / one, root / other):
            return run(lambda: read_whole(roots.place(path), 1000)[0], until)
    finally:
        roots.close()


def target_reads(base: Path, case: str, engine: Engine, until: Callable[[Count], bool]) -> Count:
    """Race what opens a file and tells where its links lead."""
    root = scene(base)
    roots = Roots([root], engine=engine)
    path, one, other = READS[case]

    def read() -> bytes:
        fd, _ = roots.place(path).with_status().open_target()
        with open(fd, "rb") as file:
            return file.read(1000)

    try:
        with swapping(root / one, root / other):
            return run(read, until)
    finally:
        roots.close()


def writes(base: Path, case: str, engine: Engine, until: Callable[[Count], bool]) -> Count:
    """Race the jail's writers and removers. An escape is any change in the folders that must not change."""
    root = scene(base)
    roots = Roots([root], engine=engine)
    path, one, other = WRITES[case]
    kept = [base / "outside", root / ".git"]

    def act() -> bytes:
        replace(roots.place(path), INSIDE)
        replace(roots.place(path + ".more"), INSIDE)
        remove(roots.place(path + ".more", follow=False))
        return INSIDE

    def unchanged() -> bool:
        return all(os.listdir(folder) == ["file"] and (folder / "file").read_bytes() == OUTSIDE for folder in kept)

    try:
        with swapping(root / one, root / other):
            count = run(act, until)
        count.escapes += not unchanged()
        return count
    finally:
        roots.close()


def seconds(number: float) -> Callable[[Count], bool]:
    """Stop after so many seconds."""
    end = time.monotonic() + number
    return lambda count: time.monotonic() > end


def main() -> None:
    """Run every case and print a line each; exit 1 when the jail was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for each case")
    parser.add_argument("--only", default="", help="cases whose line begins so, such as `read walk`")
    parser.add_argument("--swap", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.swap:
        swap(*map(os.fsencode, chosen.swap))
        return
    escaped = 0
    races = {"read": reads, "target": target_reads, "write": writes}
    for kind, cases in (("naive", READS), ("read", READS), ("target", READS), ("write", WRITES)):
        for engine in [None] if kind == "naive" else list(Engine):
            for case in cases:
                label = f"{kind} {engine.value if engine else 'realpath'} {case}"
                if not label.startswith(chosen.only):
                    continue
                with tempfile.TemporaryDirectory() as name:
                    until = seconds(chosen.seconds)
                    base = Path(name)
                    if engine is None:
                        count = naive(base, case, until)
                    else:
                        count = races[kind](base, case, engine, until)
                        escaped += count.escapes
                print(f"{label:24} {count.tries:9,} tries {count.done:9,} done {count.escapes:5} escapes", flush=True)
    sys.exit(escaped > 0)


if __name__ == "__main__":
    main()
