"""Run a program to its end: capped, on a deadline, and with nothing left behind."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio import to_thread

from ...safety.text import clean as plain
from . import memory, tree
from .capture import Capture, HeadTailBuffer, Stream
from .child import CHUNK, DRAIN, GRACE, Child, Ended, Feeder, Usage, read_ready
from .spawn import Rlimits, start

if TYPE_CHECKING:
    from ..linux.zygote_client import Zygote

Seen = Callable[[str, bytes], None]
"""Takes a program's output as it comes: stdout or stderr, and a piece of it."""

_WATCH = 0.05  # seconds between two looks at the tree
_TIMED_OUT = 124  # exit code of a time-out, as of timeout(1)
_LONG = 256 * 1024
_ABRUPT = frozenset({"memory", "pids", "output"})  # what is above these bounds gets no time to end
_NEAR = 0.8  # an abort above this share of the memory limit is put down to memory


@dataclass(frozen=True)
class Limits:
    """Bounds on a program and everything it starts, watched every 50 ms; None is no bound.

    memory: bytes that the tree holds (without files; see memory.held). processes: how many live at once. output: bytes it
    writes on both streams together. rlimits: what the kernel enforces on each process.
    """

    memory: int | None = None
    processes: int | None = None
    output: int | None = None
    rlimits: Rlimits | None = None

    @property
    def watched(self) -> bool:
        """Whether the tree has to be looked at while it runs."""
        return self.memory is not None or self.processes is not None


@dataclass(frozen=True)
class Finished:
    """How a program ended and what it wrote.

    exit_code: 124 for a time-out, 128 + the signal, else the status. signal: its name or None. killed_by: None,
    wall, cpu, memory, pids, disk, syscall, output or external. duration_ms: wall time.
    """

    exit_code: int
    signal: str | None
    timed_out: bool
    killed_by: str | None
    duration_ms: int
    stdout: Stream
    stderr: Stream
    usage: Usage


async def run(
    zygote: "Zygote",
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | int,
    env: Mapping[str, str],
    timeout: float,
    stdin: bytes = b"",
    capture: Capture | None = None,
    limits: Limits | None = None,
    clean: Callable[[str], str] = plain,
    grace: float = 0,
    inspect: Callable[[], str | None] | None = None,
    seen: Seen | None = None,
) -> Finished:
    """Run a program to its end and return what it wrote.

    timeout: seconds of wall time, after which it is killed; with grace its group gets SIGTERM first, and so many
    seconds to end. inspect: called at each look at the tree; a cause that it names ends the program as a time-out does. seen: called with the name of a stream and every piece of it, kept or not. Whatever the program
    started is dead when this returns, also when it is cancelled. Raises ToolError(unavailable) where the program is not installed.
    """
    limits = limits or Limits()
    program = await start(zygote, argv, cwd=cwd, env=env, rlimits=limits.rlimits, stdin=bool(stdin))
    return await attend(
        program,
        timeout=timeout,
        stdin=stdin,
        capture=capture or Capture(),
        limits=limits,
        inspect=inspect,
        clean=clean,
        grace=grace,
        seen=seen,
    )


async def _done(stream: HeadTailBuffer, clean: Callable[[str], str]) -> Stream:
    """Return a stream as kept; a long one takes 40 ms a MiB, in a thread."""
    return await to_thread.run_sync(stream.done, clean) if stream.total > _LONG else stream.done(clean)


async def attend(
    child: Child,
    *,
    timeout: float,
    stdin: bytes,
    capture: Capture,
    limits: Limits,
    inspect: Callable[[], str | None] | None = None,
    clean: Callable[[str], str] = plain,
    grace: float = 0,
    seen: Seen | None = None,
) -> Finished:
    """Bring a program that has been started to its end: feed it, read it, watch it, bury it.

    timeout: seconds from this call on. inspect: called at each look at the tree; a cause that it names ends the
    program. limits.rlimits only tell what a death was due to.
    """
    began = time.monotonic()
    reading = _Reading(child, capture, limits, inspect, seen)
    try:
        if child.stdin is not None:
            Feeder(child.stdin, stdin, lambda: child.close("stdin"))
        cause = await reading.until_ended(began + timeout)
        if cause and grace and cause not in _ABRUPT:
            child.terminate()
            await asyncio.wait([child.ended], timeout=grace)
        child.kill()
        await reading.drained(DRAIN)
    except BaseException:
        await child.bury()
        raise
    ended = await child.bury()
    return Finished(
        exit_code=_TIMED_OUT if cause == "wall" else ended.status,
        signal=signal_name(ended.signal),
        timed_out=cause == "wall",
        killed_by=cause or cause_of(ended, limits, reading.peak),
        duration_ms=round((time.monotonic() - began) * 1000),
        stdout=await _done(reading.stdout, clean),
        stderr=await _done(reading.stderr, clean),
        usage=Usage(ended.usage.cpu_seconds, max(ended.usage.peak_memory, reading.peak)),
    )


def signal_name(number: int | None) -> str | None:
    """Return the name of a signal: `SIGKILL`."""
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def cause_of(ended: Ended, limits: Limits, peak: int) -> str | None:
    """Name what killed a program that nobody here killed, from its last signal and what it had used."""
    number = ended.signal
    cpu = limits.rlimits.cpu if limits.rlimits else None
    if number is None:
        return None
    if number == signal.SIGXCPU or (number == signal.SIGKILL and cpu is not None and ended.usage.cpu_seconds >= cpu):
        return "cpu"
    if number == signal.SIGSYS:
        return "syscall"
    if number == signal.SIGXFSZ:
        return "disk"
    crashed = number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGTRAP, signal.SIGBUS)
    if crashed and limits.memory and max(peak, ended.usage.peak_memory) > _NEAR * limits.memory:
        return "memory"
    return "external" if number == signal.SIGKILL else None


class _Reading:
    """Reads both streams of a program and watches its bounds until it ends."""

    def __init__(
        self,
        program: Child,
        capture: Capture,
        limits: Limits,
        inspect: Callable[[], str | None] | None,
        seen: Seen | None,
    ) -> None:
        self.program = program
        self.limits = limits
        self.inspect = inspect
        self.seen = seen
        self.stdout = HeadTailBuffer(capture)
        self.stderr = HeadTailBuffer(capture)
        self.peak = 0
        self._loop = asyncio.get_running_loop()
        self._open = {"stdout", "stderr"}
        self._silent: asyncio.Future[None] = self._loop.create_future()
        self._verdict: asyncio.Future[str] = self._loop.create_future()
        for name, keeper in (("stdout", self.stdout), ("stderr", self.stderr)):
            fd = getattr(program, name)
            self._loop.add_reader(fd, self._read, name, fd, keeper)

    async def until_ended(self, deadline: float) -> str | None:
        """Wait for the end, or for the reason to make one."""
        watched = self.limits.watched or self.inspect is not None
        watching = asyncio.ensure_future(self._watch()) if watched else None
        try:
            waits: list[asyncio.Future[None] | asyncio.Future[str]] = [self.program.ended, self._verdict]
            await asyncio.wait(
                waits,
                timeout=max(0.0, deadline - time.monotonic()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._verdict.done():
                return self._verdict.result()
            if not self.program.ended.done():
                return "wall"
            await self.drained(GRACE)
            return None
        finally:
            if watching:
                watching.cancel()

    async def drained(self, seconds: float) -> None:
        """Wait until both streams are at their end, but no longer than that."""
        if not self._silent.done():
            await asyncio.wait([self._silent], timeout=seconds)

    def _read(self, name: str, fd: int, keeper: HeadTailBuffer) -> None:
        data = read_ready(fd, CHUNK)
        if data is None:
            return
        if data:
            keeper.feed(data)
            if self.seen:
                self.seen(name, data)
            most = self.limits.output
            if most is not None and self.stdout.total + self.stderr.total > most and not self._verdict.done():
                self._verdict.set_result("output")
            return
        self.program.close(name)
        self._open.discard(name)
        if not self._open and not self._silent.done():
            self._silent.set_result(None)

    async def _watch(self) -> None:
        while not self._verdict.done():
            # The kernel's own limits hold until the first look; most programs end before it.
            await asyncio.sleep(_WATCH)
            cause = self._look()
            if cause and not self._verdict.done():
                self._verdict.set_result(cause)

    def _look(self) -> str | None:
        found = tree.descendants(self.program.pid)
        living = {self.program.pid, *(process.pid for process in found if not process.dead)} - self.program.helpers
        held = memory.held(living, self.limits.memory)
        self.peak = max(self.peak, held)
        if self.limits.memory is not None and held > self.limits.memory:
            return "memory"
        if self.limits.processes is not None and len(living) > self.limits.processes:
            return "pids"
        return self.inspect() if self.inspect else None
