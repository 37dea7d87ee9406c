"""Run a program to its end, or read it as a stream: capped, on a deadline, and with nothing left behind."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from toolbox_mcp.safety.text import clean as plain
from toolbox_mcp.sandbox import memory, tree
from toolbox_mcp.sandbox.capture import Capture, Keeper, Stream
from toolbox_mcp.sandbox.child import Child, Ended, Feeder, Program, Started, Usage, read_ready
from toolbox_mcp.sandbox.spawn import Rlimits, spawn

__all__ = [
    "Capture",
    "Ended",
    "Finished",
    "Limits",
    "Rlimits",
    "Seen",
    "Stream",
    "Streaming",
    "Usage",
    "attend",
    "run",
    "stream",
]

Seen = Callable[[str, bytes], None]
"""Takes a program's output as it comes: stdout or stderr, and a piece of it."""

_CHUNK = 64 * 1024  # what a pipe holds; one read a loop turn and stream keeps the loop responsive
_LITTLE = 4 * 1024  # bytes; a program that writes less at a time is left alone for a while
_SHORTEST, _LONGEST = 0.001, 0.004  # seconds of that; guesses at what fills no pipe, and what nobody waits for
_GRACE = 0.1  # seconds that a program's orphans have to finish writing once it ended
_DRAIN = 0.25  # seconds for the last bytes once everything is dead
_WATCH = 0.05  # seconds between two looks at the tree
_TIMED_OUT = 124  # exit code of a time-out, as of timeout(1)
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
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | int,
    env: Mapping[str, str],
    timeout: float,
    stdin: bytes = b"",
    capture: Capture | None = None,
    limits: Limits | None = None,
    pass_fds: Sequence[int] = (),
    clean: Callable[[str], str] = plain,
    grace: float = 0,
    seen: Seen | None = None,
) -> Finished:
    """Run a program to its end and return what it wrote.

    timeout: seconds of wall time, after which it is killed; with grace its group gets SIGTERM first, and so many
    seconds to end. seen: called with the name of a stream and every piece of it, kept or not. Whatever the program
    started is dead when this returns, also when it is cancelled. Raises ToolError(unavailable) where the program is not installed.
    """
    limits = limits or Limits()
    program = spawn(argv, cwd=cwd, env=env, rlimits=limits.rlimits, pass_fds=pass_fds, stdin=bool(stdin))
    return await attend(
        program, timeout=timeout, stdin=stdin, capture=capture, limits=limits, clean=clean, grace=grace, seen=seen
    )


async def attend(
    child: Child,
    *,
    timeout: float,
    stdin: bytes = b"",
    capture: Capture | None = None,
    limits: Limits | None = None,
    inspect: Callable[[], str | None] | None = None,
    clean: Callable[[str], str] = plain,
    grace: float = 0,
    seen: Seen | None = None,
) -> Finished:
    """Bring a program that has been started to its end: feed it, read it, watch it, bury it.

    timeout: seconds from this call on. inspect: called at each look at the tree; a cause that it names ends the
    program. limits.rlimits only tell what a death was due to.
    """
    limits = limits or Limits()
    began = time.monotonic()
    reading = _Reading(child, capture or Capture(), limits, inspect, seen)
    try:
        if child.stdin is not None:
            Feeder(child.stdin, stdin, lambda: child.close("stdin"))
        cause = await reading.until_ended(began + timeout)
        if cause == "wall" and grace:
            # Not reaped, so the number is still that of its group.
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGTERM)
            await asyncio.wait([child.ended], timeout=grace)
        child.sweep(leader=cause is not None)
        await reading.drained(_DRAIN)
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
        stdout=reading.stdout.done(clean),
        stderr=reading.stderr.done(clean),
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
        self.stdout = Keeper(capture)
        self.stderr = Keeper(capture)
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
            await self.drained(_GRACE)
            return None
        finally:
            if watching:
                watching.cancel()

    async def drained(self, seconds: float) -> None:
        """Wait until both streams are at their end, but no longer than that."""
        if not self._silent.done():
            await asyncio.wait([self._silent], timeout=seconds)

    def _read(self, name: str, fd: int, keeper: Keeper) -> None:
        data = read_ready(fd, _CHUNK)
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
        self.program.remember(found)
        living = {self.program.pid, *(process.pid for process in found if not process.dead)} - self.program.helpers
        held = memory.held(living, self.limits.memory)
        self.peak = max(self.peak, held)
        if self.limits.memory is not None and held > self.limits.memory:
            return "memory"
        if self.limits.processes is not None and len(living) > self.limits.processes:
            return "pids"
        return self.inspect() if self.inspect else None


class Streaming:
    """A program that is read while it runs."""

    def __init__(self, program: Program, capture: Capture, deadline: float) -> None:
        self._program = program
        self._loop = asyncio.get_running_loop()
        self._errors = Keeper(capture)
        self._deadline = deadline
        self.timed_out = False
        fd = program.stderr
        assert fd is not None
        self._loop.add_reader(fd, self._read_errors, fd)

    @property
    def pid(self) -> int:
        """The program's process, of which at least a zombie is left within the block."""
        return self._program.pid

    def kill(self) -> None:
        """End the program with everything it started; stdout ends, too."""
        self._program.sweep(leader=True)

    @property
    def stderr_tail(self) -> str:
        """What the program wrote to stderr so far, cut in the middle."""
        return self._errors.done(plain).text

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield stdout as it comes, a little of it some milliseconds later.

        Ends with the stream, or at the deadline with timed_out set.
        """
        turn = 0
        pause = _SHORTEST
        while (fd := self._program.stdout) is not None:
            data = read_ready(fd, _CHUNK)
            if data:
                turn += 1
                if turn % 8 == 0:
                    await asyncio.sleep(0)
                yield data
                if len(data) >= _LITTLE:
                    pause = _SHORTEST
                elif not self._program.ended.done():
                    # To be woken for each line would take the processors from the program.
                    await asyncio.wait([self._program.ended], timeout=min(pause, self._left))
                    pause = min(2 * pause, _LONGEST)
            elif data == b"":
                self._program.close("stdout")
            elif not await self._readable(fd):
                self.timed_out = True
                return

    async def lines(self, separator: bytes = b"\n", longest: int = 1 << 20) -> AsyncGenerator[bytes, None]:
        """Yield stdout in pieces that a byte divides, without it; a piece is cut after `longest` bytes."""
        rest = bytearray()
        async for data in self.chunks():
            first, *others = data.split(separator)
            # What is beyond the bound is dropped at once, so that an endless line takes no more than that.
            rest += first[: longest - len(rest)]
            if not others:
                continue
            yield bytes(rest)
            for piece in others[:-1]:
                yield piece[:longest]
            rest = bytearray(others[-1][:longest])
        if rest:
            yield bytes(rest)

    async def wait(self) -> Ended:
        """Kill what is left of the program after its own end, or at the deadline, and tell how it ended."""
        if not self._program.ended.done():
            await asyncio.wait([self._program.ended], timeout=self._left)
        self.timed_out = self.timed_out or not self._program.ended.done()
        return await self._program.bury()

    @property
    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    async def _readable(self, fd: int) -> bool:
        ready: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
        try:
            await asyncio.wait(
                [ready, self._program.ended],
                timeout=self._left,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not ready.done() and self._program.ended.done():
                # The leader is gone and its orphans may hold the pipe open for ever.
                await asyncio.wait([ready], timeout=_GRACE)
                if not ready.done():
                    self._program.sweep(leader=False)
                    await asyncio.wait([ready], timeout=_DRAIN)
                if not ready.done():
                    self._program.close("stdout")
                    return True
        finally:
            self._loop.remove_reader(fd)
        return ready.done()

    def _read_errors(self, fd: int) -> None:
        data = read_ready(fd, _CHUNK)
        if data:
            self._errors.feed(data)
        elif data == b"":
            self._program.close("stderr")


@asynccontextmanager
async def stream(
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | int,
    env: Mapping[str, str],
    timeout: float,
    stdin: bytes = b"",
    stderr: Capture | None = None,
    limits: Limits | None = None,
    pass_fds: Sequence[int] = (),
    popen: Callable[..., subprocess.Popen[bytes] | Started] = subprocess.Popen,
) -> AsyncIterator[Streaming]:
    """Start a program whose stdout is read while it runs; with the block it ends, and everything it started.

    Only the rlimits of limits apply. popen: starts it, in place of subprocess.Popen. The reader sets the pace: the program waits when nobody reads.
    """
    rlimits = limits.rlimits if limits else None
    program = spawn(argv, cwd=cwd, env=env, rlimits=rlimits, pass_fds=pass_fds, stdin=bool(stdin), popen=popen)
    try:
        if program.stdin is not None:
            Feeder(program.stdin, stdin, lambda: program.close("stdin"))
        yield Streaming(program, stderr or Capture(4 * 1024, 12 * 1024), program.started + timeout)
    finally:
        await program.bury()
