"""A running program, with its pipes and its end in the hands of the event loop."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Protocol

from anyio import CancelScope

from . import tree
from .tree import Origin, Process

if sys.platform != "win32":
    import resource

CHUNK = 64 * 1024
"""Bytes of one read: what a pipe holds. One read a loop turn and stream keeps the loop responsive."""
GRACE = 0.1
"""Seconds that a program's orphans have to finish writing once it ended."""
DRAIN = 0.25
"""Seconds for the last bytes once everything is dead."""

_KILL_DEADLINE = 1.0  # seconds in which everything a program started is dead
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes
_POLL = 0.01  # seconds between looks where the system does not report an end by itself


@dataclass(frozen=True)
class Usage:
    """What a program used: CPU seconds of it and its waited-for children, peak resident bytes of the largest (0: unknown)."""

    cpu_seconds: float = 0.0
    peak_memory: int = 0


@dataclass(frozen=True)
class Ended:
    """How the leader ended: its exit status, or the signal (number) that ended it."""

    status: int
    signal: int | None
    usage: Usage


class NotStarted(Exception):
    """A program could not be started in this way; in another one it may be."""


class Started(Protocol):
    """A process that was just started, with our ends of its pipes: descriptors, which the one who takes it closes."""

    stdin: int | None
    stdout: int | None
    stderr: int | None

    @property
    def pid(self) -> int:
        """Its number, which is nobody else's before collect()."""
        ...

    def is_over(self) -> bool:
        """Tell whether it can be collected."""
        ...

    def collect(self) -> Ended | None:
        """Give its number back, once, and say how it ended; None where it has not."""
        ...


class Spawned:
    """What subprocess.Popen has started."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        """Take it out of Popen's hands."""
        self._popen = popen
        self.stdin = _taken(popen.stdin)
        self.stdout = _taken(popen.stdout)
        self.stderr = _taken(popen.stderr)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._popen.pid

    def is_over(self) -> bool:
        """Tell whether it can be collected: while a thread of it is left, /proc says that it is dead."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    def collect(self) -> Ended | None:
        """Collect it."""
        ended = self._collected()
        # Else Popen would warn of a child that it has not seen the end of.
        self._popen.returncode = ended.status if ended else 128 + signal.SIGKILL
        return ended

    def _collected(self) -> Ended | None:
        try:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
        except ChildProcessError:
            return Ended(0, None, Usage())
        if pid == 0:
            return None
        # A forked child starts with its parent's peak, which exec keeps: what is not above ours says nothing.
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = used.ru_maxrss * _RSS_UNIT if used.ru_maxrss > ours else 0
        return ended_with(os.waitstatus_to_exitcode(status), Usage(round(used.ru_utime + used.ru_stime, 4), peak))


def ended_with(code: int, usage: Usage | None = None) -> Ended:
    """Return what an exit status says or, below zero, the number of a signal."""
    usage = usage or Usage()
    return Ended(code, None, usage) if code >= 0 else Ended(128 - code, -code, usage)


class Child(Protocol):
    """A running program as the runner needs it; Program is one, a sandboxed program another.

    helpers: pids below (and maybe including) pid that are not the program's own.
    """

    stdin: int | None
    stdout: int | None
    stderr: int | None
    ended: asyncio.Future[None]

    @property
    def pid(self) -> int:
        """The process whose descendants are watched."""
        ...

    @property
    def helpers(self) -> frozenset[int]:
        """Pids that do not count."""
        ...

    def remember(self, processes: Iterable[Process]) -> None:
        """Note descendants while their parentage can still be seen."""
        ...

    def sweep(self, *, leader: bool) -> int:
        """Begin to kill what the program started, with leader=True itself too."""
        ...

    def close(self, name: str) -> None:
        """Close one of the pipe ends."""
        ...

    async def bury(self) -> Ended:
        """See everything dead, and let go of it."""
        ...


class Pipes:
    """Our non-blocking ends of the pipes to a program; None where there is none, or no longer."""

    def __init__(self, stdin: int | None, stdout: int | None, stderr: int | None) -> None:
        """Take the descriptors; close() closes them."""
        self._loop = asyncio.get_running_loop()
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    def close(self, name: str) -> None:
        """Close one of them, if it is still open."""
        fd = getattr(self, name)
        if fd is not None:
            setattr(self, name, None)
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
            os.close(fd)

    def close_all(self) -> None:
        """Close what is still open."""
        for name in ("stdin", "stdout", "stderr"):
            self.close(name)


class Program(Pipes):
    """A running program: its leader process, the pipes to it, and everything it starts.

    ended: resolves when the leader has exited; the leader stays a zombie until reap(), so that its pid cannot come
    to mean something else.
    """

    def __init__(self, started: Started, marker: str, locks: int = 0) -> None:
        super().__init__(started.stdin, started.stdout, started.stderr)
        self._started = started
        self.pid = started.pid
        self.helpers: frozenset[int] = frozenset()
        self.started = time.monotonic()
        seen = tree.look(self.pid)
        self.origin = Origin(self.pid, seen.start if seen else 0, marker, locks)
        self.known: dict[int, Process] = {}
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._pidfd: int | None = None
        self._poll: asyncio.TimerHandle | None = None
        self._result: Ended | None = None
        if hasattr(os, "pidfd_open"):
            # No descriptor is left, or it was collected already, by whom it fell to when the one who started it died.
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._exited)
        else:
            self._look_again()

    def remember(self, processes: Iterable[Process]) -> None:
        """Note descendants while their parentage can still be seen."""
        self.known.update((process.pid, process) for process in processes)

    def family(self) -> list[Process]:
        """Return what the program started that still exists; nothing once the leader is reaped.

        From then on its number may be that of somebody else's process, group or session.
        """
        if self._result is not None:
            return []
        found = tree.family(self.origin, self.known.values())
        self.remember(found)
        return found

    def sweep(self, *, leader: bool) -> int:
        """Kill everything the program started, with leader=True itself too; return how many were alive.

        One quick round that does not wait; bury() makes sure. Once the leader is reaped there is nothing to kill.
        """
        if self._result is not None:
            return 0
        age = time.monotonic() - self.started
        found = tree.end(self.origin, self.known.values(), leader=leader, thorough=leader or age > 1)
        self.remember(found)
        return len(found)

    async def bury(self) -> Ended:
        """Kill the program with everything it started, see them dead, collect it and close the pipes.

        Cancellation does not interrupt this, and it takes a second at most.
        """
        try:
            if self._result is None:
                over = self.ended.done()
                alive = self.sweep(leader=not over)
                if alive or not over:
                    with CancelScope(shield=True):
                        await self._until_dead()
        finally:
            ended = self.reap()
        return ended

    async def _until_dead(self) -> None:
        deadline = time.monotonic() + _KILL_DEADLINE
        pause = 0.0005
        while time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)
            if self.sweep(leader=True) == 0 and (self.ended.done() or self._started.is_over()):
                return

    def reap(self) -> Ended:
        """Collect the leader and the dead it left to us, and let go of every descriptor."""
        if self._result is None:
            # Else unkillable for a second: in an uninterruptible sleep of the kernel. It stays a child.
            self._result = self._started.collect() or ended_with(-signal.SIGKILL)
            tree.reap(self.known.values())
        self._forget()
        self.close_all()
        return self._result

    def _exited(self) -> None:
        self._forget()
        if not self.ended.done():
            self.ended.set_result(None)

    def _look_again(self) -> None:
        if self._started.is_over():
            self._exited()
        else:
            self._poll = self._loop.call_later(_POLL, self._look_again)

    def _forget(self) -> None:
        if self._poll:
            self._poll.cancel()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


def _taken(pipe: IO[bytes] | None) -> int | None:
    """Take a pipe out of another's hands, non-blocking."""
    if pipe is None:
        return None
    fd = os.dup(pipe.fileno())
    pipe.close()
    os.set_blocking(fd, False)
    return fd


def read_ready(fd: int, size: int) -> bytes | None:
    """Read what a non-blocking descriptor has: b"" at its end, None when there is nothing yet."""
    try:
        return os.read(fd, size)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


class Feeder:
    """Writes bytes to a pipe as fast as the reader takes them, and closes it behind the last or a broken pipe."""

    def __init__(self, fd: int, data: bytes, close: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._rest = memoryview(data)
        self._close = close
        self._loop.add_writer(fd, self._write)

    def _write(self) -> None:
        try:
            sent = os.write(self._fd, self._rest[: 256 * 1024]) if self._rest else 0
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._rest = memoryview(b"")
        else:
            self._rest = self._rest[sent:]
        if not self._rest:
            with contextlib.suppress(OSError):
                self._close()
