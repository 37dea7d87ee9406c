"""Confinement of the server itself by Landlock, inherited by everything it starts.

What it does not stop: reading (level write), stat, chmod, chown and extended attributes, the
network. Inside it nobody can mount, so bubblewrap and other back ends with a mount namespace
do not work.
"""

import os
import sys
import threading
from collections.abc import Iterable
from typing import Literal

from .isolate.interpreter import PACKAGE, import_path, prefixes

Level = Literal["write", "strict"]

SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr")
"""Folders that are readable at level strict, where they exist."""

DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
)
"""Devices that stay writable; nothing that is written to them is kept."""

LEAST_ABI = 3
"""Landlock ABI that is needed: below, truncate() empties a file that may not be written."""


class ConfineError(Exception):
    """The process cannot be confined as asked. The message is one line for the operator."""


def apply(level: Level, *, write: Iterable[str | os.PathLike[str]], read: Iterable[str | os.PathLike[str]] = ()) -> int:
    """Confine this process for good and return the Landlock ABI in force.

    level write: no change outside the write folders. strict: no reading and executing either
    outside them, the read folders, the interpreter and the system's folders. Must run before
    any thread starts. Raises ConfineError where that is not possible, or a folder is missing.
    """
    if sys.platform != "linux":
        raise ConfineError(f"confine: {level} needs Linux")
    from .linux import landlock

    running = max(len(os.listdir("/proc/self/task")), threading.active_count())
    if running > 1:
        raise ConfineError(f"confine: {level} must be applied while one thread runs, and {running} do")
    if landlock.abi() < LEAST_ABI:
        raise ConfineError(
            f"confine: {level} needs Landlock ABI {LEAST_ABI} (Linux 6.2), and this kernel has {landlock.abi()}"
        )
    changes = landlock.CHANGE | landlock.Right.MAKE_SOCK
    handled = changes | landlock.Right.MAKE_CHAR | landlock.Right.MAKE_BLOCK
    if level == "strict":
        handled |= landlock.READ
    rules = [(path, landlock.READ | changes) for path in _existing(write)]
    rules += [(path, landlock.READ) for path in _existing(read)]
    rules += [(path, landlock.READ | landlock.Right.WRITE_FILE) for path in DEVICES]
    rules += [(path, landlock.READ) for path in (*SYSTEM, *prefixes(), PACKAGE, *import_path())]
    try:
        return landlock.restrict(rules, handled=handled, tcp=False, scopes=False)
    except OSError as e:
        raise ConfineError(f"confine: {level} is not possible: {e.strerror or e}") from None


def _existing(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    found = []
    for path in paths:
        if not os.path.exists(path):
            raise ConfineError(f"confine: {os.fspath(path)} does not exist")
        found.append(os.path.realpath(path))
    return found
