"""Read a program's output while it runs: on a deadline, and with nothing left behind."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from ...safety.text import clean
from .capture import Capture, HeadTailBuffer, Stream
from .child import CHUNK, DRAIN, GRACE, ChildProcess, Ended, Feeder, read_ready
from .spawn import spawn

_LITTLE = 4 * 1024  # bytes; a program that writes less at a time is left alone for a while
MIN_INTERVAL, MAX_INTERVAL = 0.001, 0.004  # seconds of that; guesses at what fills no pipe, and what nobody waits for
_ERRORS = Capture(4 * 1024, 12 * 1024)  # what is kept of stderr


class Streaming:
    """A program that is read while it runs."""

    def __init__(self, program: ChildProcess, deadline: float) -> None:
        self._program = program
        self._loop = asyncio.get_running_loop()
        self._errors = HeadTailBuffer(_ERRORS)
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
        self._program.kill()

    @property
    def stderr(self) -> Stream:
        """What the program wrote to stderr so far, cut in the middle."""
        return self._errors.done(clean)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield stdout as it comes, a little of it some milliseconds later.

        Ends with the stream, or at the deadline with timed_out set.
        """
        turn = 0
        pause = MIN_INTERVAL
        while (fd := self._program.stdout) is not None:
            data = read_ready(fd, CHUNK)
            if data:
                turn += 1
                if turn % 8 == 0:
                    await asyncio.sleep(0)
                yield data
                if len(data) >= _LITTLE:
                    pause = MIN_INTERVAL
                elif not self._program.ended.done():
                    # To be woken for each line would take the processors from the program.
                    await asyncio.wait([self._program.ended], timeout=min(pause, self._left))
                    pause = min(2 * pause, MAX_INTERVAL)
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
                await asyncio.wait([ready], timeout=GRACE)
                if not ready.done():
                    self._program.kill()
                    await asyncio.wait([ready], timeout=DRAIN)
                if not ready.done():
                    self._program.close("stdout")
                    return True
        finally:
            self._loop.remove_reader(fd)
        return ready.done()

    def _read_errors(self, fd: int) -> None:
        data = read_ready(fd, CHUNK)
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
    pass_fds: Sequence[int] = (),
    popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
) -> AsyncIterator[Streaming]:
    """Start a program whose stdout is read while it runs; with the block it ends, and everything it started.

    timeout: seconds from the start. popen: starts it, in place of subprocess.Popen. The reader sets the pace: the
    program waits when nobody reads.
    """
    program = spawn(argv, cwd=cwd, env=env, pass_fds=pass_fds, stdin=bool(stdin), popen=popen)
    try:
        if program.stdin is not None:
            Feeder(program.stdin, stdin, lambda: program.close("stdin"))
        yield Streaming(program, program.started + timeout)
    finally:
        await program.bury()
