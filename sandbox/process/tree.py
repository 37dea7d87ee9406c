"""Process trees: who descends from a program, and how all of them end.

A program's descendants are found by five marks, because each of them can be shed: parentage (lost by a double
fork), the session and the process group (left by setsid), a random marker in the environment that the program was
started with (lost where it is cleared), and on Linux a random number as the soft limit of file locks, which is
inherited whatever happens and which no kernel since 2.4.25 enforces.
"""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MARKER = "TOOLBOX_CALL"
"""Name of the environment variable that marks everything one call has started."""

FILE_LOCKS = 10
"""The number of the limit that carries the mark; Python has no name for it."""

_FEW = 64
"""Pids that are looked up one by one; a guess at where listing all begins to be quicker."""
_PIECE = 4096  # bytes that are read of a file at once: all that most hold
_LOCKS = re.compile(rb"^Max file locks +([0-9]+) ", re.MULTILINE)
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class Process:
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


@dataclass(frozen=True)
class Origin:
    """What marks the descendants of one program: its leader (pid, session and group at once), its marker, its limit.

    locks: the soft limit of file locks that it was started with, 0 where it has none of its own.
    """

    pid: int
    start: int
    marker: str
    locks: int = 0


def look(pid: int) -> Process | None:
    """Return what the system says about pid, or None when there is no such process."""
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


def marked(pid: int, marker: str) -> bool:
    """Tell whether pid was started with MARKER=marker in its environment."""
    environment = _environment(pid) or _environment(shown_as(pid))
    return f"{MARKER}={marker}".encode() in environment.split(b"\0")


def _environment(pid: int) -> bytes:
    """Return what a process was started with; nothing of one that is gone, closed to us, or without a first thread."""
    try:
        return _content(f"/proc/{pid}/environ")
    except OSError:
        return b""


def limited(pid: int, locks: int) -> bool:
    """Tell whether pid has this soft limit of file locks, which it inherits from a program started with it."""
    try:
        found = _LOCKS.search(_content(f"/proc/{pid}/limits"))
    except OSError:
        return False
    return found is not None and int(found[1]) == locks


def family(
    origin: Origin, known: Iterable[Process] = (), *, thorough: bool = True, childless: bool = False
) -> list[Process]:
    """Return the descendants of origin that still exist, its leader left out, dead ones (zombies) included.

    known: processes that an earlier look attributed to origin; they count as long as their start time fits.
    thorough=False looks only at processes with a higher pid than the leader's, which is everything unless pids
    have wrapped around since. childless: the leader is dead, so what were its children are others' by now.
    """
    if not _has_proc():
        return [process for process in _by_ps(origin) if process.pid != origin.pid]
    last = 0 if thorough else _last_pid()
    known = list(known)
    if last == origin.pid and not known:
        return []  # nobody was born since
    seen: dict[int, Process] = {}
    for process in _candidates(origin) if thorough or last < origin.pid else _born_since(origin, last):
        seen[process.pid] = process
    ours = {p.pid for p in known if (now := seen.get(p.pid) or look(p.pid)) and now.start == p.start}
    for process in () if childless else descendants(origin.pid):
        seen[process.pid] = process
        ours.add(process.pid)
    for process in seen.values():
        mine = origin.pid in (process.session, process.group)
        if mine or marked(process.pid, origin.marker) or (origin.locks and limited(process.pid, origin.locks)):
            ours.add(process.pid)
    for pid in tuple(ours):
        for process in descendants(pid):
            seen[process.pid] = process
            ours.add(process.pid)
    ours -= {origin.pid, os.getpid()}
    found = [seen.get(pid) or look(pid) for pid in ours]
    return [process for process in found if process and process.start >= origin.start]


def end(origin: Origin, known: Iterable[Process] = (), *, leader: bool, thorough: bool = True) -> list[Process]:
    """Kill what descends from origin, and with leader=True the leader; return those that were alive.

    One round, without waiting: call it again until it returns nothing, for a process that was just forking
    may be missed once. The leader must not have been reaped yet: its pid holds the group's number.
    """
    me = look(origin.pid)
    mine = me is not None and me.start == origin.start
    if mine and leader:
        # One system call for the whole group: a fork bomb cannot outrun it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(origin.pid, signal.SIGKILL)
    childless = mine and me is not None and me.dead
    found = family(origin, known, thorough=thorough, childless=childless)
    living = [process for process in found if not process.dead]
    for process in living:
        kill(process)
    if mine and leader and me is not None and not me.dead:
        kill(me)
        living.append(me)
    return living


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


def reap(processes: Iterable[Process]) -> None:
    """Collect those of the processes that a subreaper has inherited and that are dead."""
    for process in processes:
        current = look(process.pid)
        if current and current.dead and current.start == process.start and current.parent == os.getpid():
            with contextlib.suppress(OSError):
                os.waitpid(process.pid, os.WNOHANG)


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


def _has_proc() -> bool:
    return sys.platform == "linux"


def _last_pid() -> int:
    """Return the last pid given out in this namespace, to a process or a thread."""
    return int(_content("/proc/loadavg").split()[4])


def _candidates(origin: Origin, lowest: int = 0) -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) > lowest and (process := look(int(name))) and process.start >= origin.start:
            yield process


def _born_since(origin: Origin, last: int) -> Iterator[Process]:
    """Yield the processes with a higher pid than the leader's, up to the last pid given out.

    A few numbers are asked for one by one: listing every process takes longer, and grows with what others run. Some
    are those of threads, which /proc shows too when asked; they belong to whom their process belongs to.
    """
    first = origin.pid
    while first < last <= origin.pid + _FEW:
        for pid in range(first + 1, last + 1):
            if (process := look(pid)) and process.start >= origin.start:
                yield process
        first, last = last, _last_pid()
    if first != last:
        yield from _candidates(origin, origin.pid if first < last else 0)


def _by_ps(origin: Origin) -> list[Process]:
    """Where there is no /proc (macOS): ask ps, with the environment, of which the marker is a part."""
    import subprocess

    done = subprocess.run(
        ["/bin/ps", "-A", "-E", "-ww", "-o", "pid=,ppid=,pgid=,state=,command="],
        capture_output=True,
        check=False,
        env={"PATH": "/bin:/usr/bin"},
    )
    return parse_ps(done.stdout.decode("utf-8", "replace"), origin)


def parse_ps(listing: str, origin: Origin) -> list[Process]:
    """Pick the descendants of origin from lines of `pid ppid pgid state command-with-environment`."""
    rows: dict[int, tuple[int, int, str, str]] = {}
    for line in listing.splitlines():
        fields = line.split(None, 4)
        if len(fields) >= 4 and all(field.isdecimal() for field in fields[:3]):
            rows[int(fields[0])] = (int(fields[1]), int(fields[2]), fields[3], fields[4] if len(fields) > 4 else "")
    ours = {origin.pid}
    size = 0
    while size != len(ours):
        size = len(ours)
        for pid, (parent, group, _, command) in rows.items():
            if parent in ours or group == origin.pid or f"{MARKER}={origin.marker}" in command:
                ours.add(pid)
    ours.discard(os.getpid())
    return [
        Process(pid, rows[pid][0], rows[pid][1], rows[pid][1], origin.start, rows[pid][2].startswith("Z"))
        for pid in ours
        if pid in rows
    ]
