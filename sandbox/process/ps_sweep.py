"""Where no process can adopt orphans (macOS): a server's programs are found by the mark in their environment.

It has not been run: there was no macOS to run it on.

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

MARKER = "TOOLBOX_CALL"
"""Name of the environment variable that marks everything one call has started."""

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


def descendants(leader: int, marker: str) -> list[int]:
    """Return the pids of what a program started, itself left out, as ps shows it."""
    done = subprocess.run(
        ["/bin/ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,pgid=,state=,command="],
        capture_output=True,
        check=False,
        env={"PATH": "/bin:/usr/bin"},
    )
    return parse_ps(done.stdout.decode("utf-8", "replace"), leader, marker)


def parse_ps(listing: str, leader: int, marker: str) -> list[int]:
    """Pick the living descendants of a program from lines of `pid ppid pgid state command-with-environment`."""
    rows: dict[int, tuple[int, int, str, str]] = {}
    for line in listing.splitlines():
        fields = line.split(None, 4)
        if len(fields) >= 4 and all(field.isdecimal() for field in fields[:3]):
            rows[int(fields[0])] = (int(fields[1]), int(fields[2]), fields[3], fields[4] if len(fields) > 4 else "")
    ours = {leader}
    size = 0
    while size != len(ours):
        size = len(ours)
        for pid, (parent, group, _, command) in rows.items():
            if parent in ours or group == leader or f"{MARKER}={marker}" in command:
                ours.add(pid)
    return [pid for pid in ours - {leader, os.getpid()} if pid in rows and not rows[pid][2].startswith("Z")]


def alive(pid: int) -> bool:
    """Return True if there is a process with this pid; one that may not be signalled is there as well."""
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
