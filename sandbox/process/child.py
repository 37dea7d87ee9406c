"""A running program, with its pipes and its end in the hands of the event loop."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Protocol

from anyio import CancelScope

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


class Started:
    """A process that subprocess.Popen has started, with our ends of its pipes: descriptors, which the taker closes.

    Its number is nobody else's before collect().
    """

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
        """Return True if it can be collected: while a thread of it is left, /proc says that it is dead."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    def collect(self) -> Ended | None:
        """Give its number back, once, and return how it ended; None where it has not."""
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
    """Return the meaning of an exit status or, below zero, the number of a signal."""
    usage = usage or Usage()
    return Ended(code, None, usage) if code >= 0 else Ended(128 - code, -code, usage)


class Child(Protocol):
    """A running program: SupervisedProcess on Linux; ChildProcess elsewhere, and for what starts nothing itself.

    pid: the process whose descendants are watched. program: the program's own, where it is known. helpers: pids at
    and below pid that are not the program's own. ended: resolves when the program has ended, with the result; gone:
    when nothing that it started is left.
    """

    stdin: int | None
    stdout: int | None
    stderr: int | None
    pid: int
    program: int | None
    helpers: frozenset[int]
    started: float
    ended: asyncio.Future[None]
    gone: asyncio.Future[None]
    result: Ended | None

    def terminate(self) -> None:
        """Ask the program and all that it started to end."""
        ...

    def kill(self) -> None:
        """Begin to kill the program and all that it started."""
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


class ChildProcess(Pipes):
    """A child of this process, which leads a session: its pipes and its end.

    It stays a zombie until bury(), so that its pid cannot come to mean something else. What it starts is ended with
    its group, and where there is no subreaper (macOS) by its mark.
    """

    def __init__(self, started: Started, marker: str = "") -> None:
        super().__init__(started.stdin, started.stdout, started.stderr)
        self._started = started
        self._marker = marker
        self.pid = started.pid
        self.program: int | None = self.pid
        self.helpers: frozenset[int] = frozenset()
        self.started = time.monotonic()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._pidfd: int | None = None
        self._poll: asyncio.TimerHandle | None = None
        self.result: Ended | None = None
        if hasattr(os, "pidfd_open"):
            # No descriptor is left, or it was collected already, by whom it fell to when the one who started it died.
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._exited)
        else:
            self._look_again()

    def terminate(self) -> None:
        """Ask it and its group to end. What is stopped is woken, or it could not."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it and its group; once it is collected there is nothing to kill."""
        self._signal(signal.SIGKILL)

    async def bury(self) -> Ended:
        """Kill it, see it dead, collect it and close the pipes. Cancellation does not interrupt this."""
        try:
            self.kill()
            if not self.ended.done() and not self._started.is_over():
                with CancelScope(shield=True):
                    await asyncio.wait([self.ended], timeout=_KILL_DEADLINE)
        finally:
            if not self.gone.done():
                # Else unkillable for a second: in an uninterruptible sleep of the kernel. It stays a child.
                self.result = self._started.collect() or ended_with(-signal.SIGKILL)
                self.gone.set_result(None)
            self._exited()
            self.close_all()
        assert self.result is not None
        return self.result

    def _signal(self, number: int) -> None:
        if self.gone.done():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        if sys.platform != "linux":
            from .ps_sweep import descendants

            for pid in descendants(self.pid, self._marker):
                with contextlib.suppress(OSError):
                    os.kill(pid, number)

    def _exited(self) -> None:
        if self._poll:
            self._poll.cancel()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if not self.ended.done():
            self.ended.set_result(None)

    def _look_again(self) -> None:
        if self._started.is_over():
            self._exited()
        else:
            self._poll = self._loop.call_later(_POLL, self._look_again)


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
