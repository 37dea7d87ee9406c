"""What /proc tells of processes: one of them, its children, all below it; and signals that reach no later one."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

_SHORTEST, _LONGEST = 0.0005, 0.02  # seconds between two rounds of killing that meet the same processes
_PIECE = 4096  # bytes that are read of a file at once: all that most hold
_TICKS = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process as one look at it showed it. start (clock ticks since boot) tells it from a later one with its pid.

    dead: no thread of it is left. Whose first thread alone has ended is as alive as any, but /proc shows its state,
    memory and environment as those of a dead one; it tells them under the number of another thread (shown_as).
    """

    pid: int
    parent: int
    group: int
    session: int
    start: int
    dead: bool = False
    cpu_seconds: float = 0.0


def look(pid: int) -> Process | None:
    """Return the process pid, or None when there is none."""
    try:
        raw = _content(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The name stands in parentheses and may itself hold parentheses and spaces.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start=int(fields[19]),
        dead=fields[0] in (b"Z", b"X") and int(fields[17]) <= 1,
        cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
    )


def shown_as(pid: int) -> int:
    """Return the number under which /proc shows what a process holds: its own, or that of a thread that lives."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            raw = _content(f"/proc/{pid}/task/{thread}/stat")
            if raw[raw.rindex(b")") + 2 :][:1] not in (b"Z", b"X"):
                return int(thread)
    return pid


def children(pid: int) -> list[int]:
    """Return the pids of the children of every thread of pid."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        with contextlib.suppress(OSError):
            found += map(int, _content(f"/proc/{pid}/task/{thread}/children").split())
    return found


def descendants(pid: int) -> list[Process]:
    """Return every living or dead process below pid by parentage, parents first."""
    found: list[Process] = []
    waiting = [pid]
    seen = {pid}
    while waiting:
        for child in children(waiting.pop()):
            if child not in seen and (process := look(child)):
                seen.add(child)
                found.append(process)
                waiting.append(child)
    return found


def kill(process: Process, number: int = signal.SIGKILL) -> None:
    """Send a signal to this very process and to no later one with its pid."""
    if not hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            os.kill(process.pid, number)
        return
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        current = look(process.pid)
        if current and current.start == process.start:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def kill_children(reap: Callable[[], bool], give_up: Callable[[], bool] = lambda: False) -> bool:
    """Kill until no child is left; the process must be a subreaper. Return False when give_up() says so before.

    reap: reaps what has ended, and returns True if a child is left. A child keeps its pid and its group's number until it is reaped
    here, so no signal reaches a stranger. What a killed process leaves becomes a child; whoever forks on meanwhile is
    met in the next round, without a pause.
    """
    met: set[int] = set()
    pause = _SHORTEST
    ours = os.getpgrp()
    while reap():
        found = children(os.getpid())
        for pid in found:
            with contextlib.suppress(OSError):
                # One system call for a whole group: a fork bomb cannot outrun it.
                if (group := os.getpgid(pid)) != ours:
                    os.killpg(group, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if give_up():
            return False
        if not met.issuperset(found):
            met.update(found)
            pause = _SHORTEST
            continue
        # Below a child of another user, which cannot be killed, there may be what can.
        for process in descendants(os.getpid()):
            kill(process)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)
    return True


def terminate(pid: int, spare: frozenset[int] = frozenset()) -> None:
    """Ask all below a process to end. What is stopped is woken, or it could not."""
    for process in descendants(pid):
        if process.pid not in spare:
            kill(process, signal.SIGTERM)
            kill(process, signal.SIGCONT)


def _content(path: str) -> bytes:
    """Read a file of /proc; what Python does for a file object takes longer than that. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        pieces = []
        while piece := os.read(fd, _PIECE):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)
