"""Where no process can adopt orphans (macOS): a server's programs are found by the mark in their environment.

Every program carries TOOLBOX_CALL=PID-RANDOM with the pid of the server that started it. A server ends what
carries its own pid when it ends, and when it starts what carries the pid of a server that is gone, because one that
was killed could not. What clears its environment is not found, and neither are programs of the system itself,
whose environment macOS does not show.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable

from .tree import MARKER

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""

_LOOK = 0.05  # seconds between two looks at the process table
_MARK = re.compile(rf"(?:^|\s){MARKER}=([0-9]+)-[0-9a-f]{{32}}(?:\s|$)")

Listing = Callable[[], str]
"""Returns lines of `pid command-with-environment`."""


def swept(main: Callable[[], int], listing: Listing | None = None) -> int:
    """Run main between two sweeps; return what it returns."""
    listing = listing or by_ps
    sweep(listing, lambda server: not alive(server))
    try:
        return main()
    finally:
        sweep(listing, lambda server: server == os.getpid())


def sweep(listing: Listing, whose: Callable[[int], bool], grace: float = GRACE) -> bool:
    """End the marked programs of the servers that whose picks; True when none is left."""
    deadline = time.monotonic() + grace
    asked: set[int] = set()
    while found := [pid for pid, server in marks(listing().splitlines()) if whose(server)]:
        over = time.monotonic() - deadline
        if over > grace:
            return False
        for pid in found:
            if over >= 0 or pid not in asked:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM if over < 0 else signal.SIGKILL)
        asked.update(found)
        time.sleep(_LOOK)
    return True


def marks(lines: Iterable[str]) -> list[tuple[int, int]]:
    """Return (pid, pid of its server) of each marked process but this one."""
    found: list[tuple[int, int]] = []
    for line in lines:
        pid, _, command = line.strip().partition(" ")
        if pid.isdecimal() and int(pid) != os.getpid() and (mark := _MARK.search(command)):
            found.append((int(pid), int(mark[1])))
    return found


def alive(pid: int) -> bool:
    """Tell whether there is a process with this pid; one that may not be signalled is there as well."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def by_ps() -> str:
    """Ask ps for the user's own processes with their environment; nothing where it does not answer."""
    try:
        done = subprocess.run(
            ["/bin/ps", "-x", "-E", "-ww", "-o", "pid=,command="],
            capture_output=True,
            check=False,
            timeout=5,
            env={"PATH": "/bin:/usr/bin"},
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
