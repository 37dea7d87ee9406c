"""One background process: its output as it comes, its input, its end."""

import asyncio
import contextlib
import os
import termios
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...safety.errors import Code, ToolError
from .child import CHUNK, Child, Ended, read_ready
from .output_buffer import OutputBuffer
from .runner import signal_name
from .spawn import Rlimits, start

if TYPE_CHECKING:
    from ..linux.zygote_client import Zygote

Status = Literal["running", "exited", "killed"]
Matcher = Callable[[str], Awaitable[bool]]
"""Tells whether a text holds what is waited for."""

INPUT_SECONDS = 5.0
"""Seconds in which a process has to take its input."""

TERM_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL."""

_LOOK = 0.02  # seconds between two looks at the time at which a process is killed
_DRAIN = 0.1  # seconds for the last output of a process that ended
_MATCH_EVERY = 0.05  # seconds between two searches in output that keeps coming
_REST = 0.005  # seconds of not reading a stream whose unread output is dropped anyway: some 50 MB/s
_WINDOW = (24, 80)  # lines and columns of a terminal, as most programs assume where they cannot ask
_END_OF_FILE = b"\x04"  # ^D, which a terminal in its usual mode takes for the end of input


@dataclass(frozen=True)
class Output:
    """What came since the last read. matched: None where nothing was waited for. dropped: bytes lost, both streams."""

    status: Status
    exit_code: int | None
    stdout: str
    stderr: str
    matched: bool | None
    dropped: int
    signal: str | None = None


class BackgroundProcess:
    """A process that outlives the call that started it. Made by start_background(), ended by kill()."""

    def __init__(
        self, program: Child, *, terminal: int | None, accepts_input: bool, on_output: Callable[[str], None]
    ) -> None:
        """Read a program. terminal: our end of the one that it runs on. on_output gets the name of a stream."""
        self._loop = asyncio.get_running_loop()
        self._on_output = on_output
        self._terminal = terminal
        self._program = program
        self.pid = program.pid if program.program is None else program.program
        self.started = time.monotonic()
        self.ended: float | None = None
        self._ended: Ended | None = None
        self._killed = False
        self._ending: asyncio.Task[None] | None = None
        self._deadline = float("inf")
        self._silent = asyncio.Event()
        self._accepts_input = accepts_input
        self._writing = asyncio.Lock()
        self._changed = asyncio.Event()
        names = ("stdout", "stderr") if terminal is None else ("stdout",)
        self._streams = {name: OutputBuffer() for name in names}
        self._open: dict[str, int] = {}
        for name in self._streams:
            fd = getattr(program, name) if terminal is None else terminal
            self._open[name] = fd
            self._loop.add_reader(fd, self._read, name)
        self._finishing = self._loop.create_task(self._finish())

    @property
    def status(self) -> Status:
        """Return the state of the process; killed: ended by a signal."""
        if self.ended is None:
            return "running"
        return "killed" if self._killed or (self._ended and self._ended.signal) else "exited"

    @property
    def is_alive(self) -> bool:
        """Whether the process, or something that it started, is alive."""
        return not self._finishing.done()

    @property
    def exit_code(self) -> int | None:
        """Return the exit status, 128 + the signal, or None while it runs."""
        return self._ended.status if self._ended else None

    @property
    def signal(self) -> str | None:
        """Return the name of the signal that ended it."""
        return signal_name(self._ended.signal) if self._ended else None

    def peek(self, stream: str) -> str:
        """Return the unread output of a stream without taking it."""
        return self._streams[stream].peek() if stream in self._streams else ""

    async def output(self, wait: float, matcher: Matcher | None) -> Output:
        """Take the unread output, after waiting at most wait seconds for some, or for the matcher to find its own."""
        deadline = self._loop.time() + wait
        matched = False
        while True:
            self._changed.clear()
            over = self.ended is not None
            if matcher:
                for unread in self._streams.values():
                    matched = matched or (unread.waiting and await matcher(unread.peek()))
                enough = matched
            else:
                enough = any(unread.waiting for unread in self._streams.values())
            left = deadline - self._loop.time()
            if enough or over or left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
                    if matcher:
                        await asyncio.sleep(min(_MATCH_EVERY, max(0.0, deadline - self._loop.time())))
        return self.take(matched if matcher else None)

    def take(self, matched: bool | None = None) -> Output:
        """Take the unread output as it is."""
        last = self.ended is not None
        taken = {name: unread.take(last=last and name not in self._open) for name, unread in self._streams.items()}
        return Output(
            status=self.status,
            exit_code=self.exit_code,
            stdout=taken["stdout"].text,
            stderr=taken["stderr"].text if "stderr" in taken else "",
            matched=matched,
            dropped=sum(each.dropped for each in taken.values()),
            signal=self.signal,
        )

    async def write(self, data: bytes, *, end: bool) -> None:
        """Give the process input, and with end the end of it. ToolError where it takes none."""
        async with self._writing:
            fd = self._program.stdin if self._terminal is None else self._terminal
            if not self._accepts_input:
                raise ToolError(Code.REFUSED, "it was started without stdin", "start it with stdin or pty")
            if self.ended is not None or fd is None:
                raise ToolError(Code.REFUSED, "it takes no more input: it has ended, or its input is closed")
            if end and self._terminal is not None:
                # On a line that has begun the first one only delivers the line.
                data += _END_OF_FILE if data.endswith(b"\n") or not data else _END_OF_FILE * 2
            sent = 0
            try:
                async with asyncio.timeout(INPUT_SECONDS):
                    while sent < len(data):
                        sent += await self._write_some(fd, data[sent : sent + CHUNK])
            except TimeoutError:
                raise ToolError(
                    Code.TIMEOUT, f"it took {sent} of {len(data)} bytes within {INPUT_SECONDS:g} s", "it may be busy"
                ) from None
            except OSError:
                self._program.close("stdin")
                raise ToolError(Code.REFUSED, "it has closed its input") from None
            if end:
                self._program.close("stdin")

    async def _write_some(self, fd: int, data: bytes) -> int:
        while True:
            try:
                return os.write(fd, data)
            except (BlockingIOError, InterruptedError):
                pass
            ready: asyncio.Future[None] = self._loop.create_future()
            self._loop.add_writer(fd, _resolve, ready)
            try:
                await asyncio.wait([ready, self._program.ended], return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._loop.remove_writer(fd)
            if not ready.done():
                raise BrokenPipeError

    async def kill(self, grace: float = TERM_SECONDS) -> bool:
        """End the process and everything it started: SIGTERM, grace seconds, SIGKILL. False when it had ended.

        The last output is there to be taken afterwards. Cancellation does not stop the killing; of several calls
        the earliest end of the grace counts.
        """
        running = self.ended is None
        self._killed = self._killed or running
        self._deadline = min(self._deadline, self._loop.time() + grace)
        if self._ending is None:
            self._ending = self._loop.create_task(self._end())
        await asyncio.shield(self._ending)
        return running

    async def _end(self) -> None:
        self._program.terminate()
        while not self._program.gone.done() and (left := self._deadline - self._loop.time()) > 0:
            # A later call may have moved the deadline forward.
            await asyncio.wait([self._program.gone], timeout=min(left, _LOOK))
            if self._program.ended.done() and self._program.program == self._program.pid:
                # A child that nobody supervises tells nothing of what it started.
                break
        self._finishing.cancel()
        self._program.kill()
        await asyncio.wait([self._program.gone], timeout=_DRAIN)
        await self._drain()
        self._over(await self._program.bury())
        self._let_go()

    async def _finish(self) -> None:
        """Wait for the end of the process, for what it wrote last, and for those it left."""
        # Cancelling this task must not cancel what others wait for.
        await asyncio.wait([self._program.ended])
        await self._drain()
        await asyncio.wait([self._program.gone], timeout=_DRAIN)
        if not self._program.gone.done() and self._program.result is not None:
            self._over(self._program.result)
            # With the last of what it left its supervisor goes.
            await asyncio.wait([self._program.gone])
        self._over(await self._program.bury())
        self._let_go()

    def _over(self, ended: Ended) -> None:
        if self._ended is not None:
            return
        self._ended = ended
        self.ended = time.monotonic()
        self._changed.set()
        for name in self._streams:
            self._on_output(name)

    # Reading

    def _read(self, name: str) -> None:
        fd = self._open[name]
        data = read_ready(fd, CHUNK)
        if data is None:
            return
        if not data:
            self._close(name)
            return
        dropping = self._streams[name].feed(data)
        self._changed.set()
        self._on_output(name)
        if dropping:
            self._loop.remove_reader(fd)
            self._loop.call_later(_REST, self._resume, name)

    def _resume(self, name: str) -> None:
        if name in self._open:
            self._loop.add_reader(self._open[name], self._read, name)

    async def _drain(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN):
                await self._silent.wait()

    def _close(self, name: str) -> None:
        fd = self._open.pop(name)
        if self._terminal is not None:
            self._loop.remove_reader(fd)
        else:
            self._program.close(name)
        if not self._open:
            self._silent.set()
            self._changed.set()

    def _let_go(self) -> None:
        for name in tuple(self._open):
            self._close(name)
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None


async def start_background(
    zygote: "Zygote",
    argv: Sequence[str],
    *,
    cwd: str | int,
    env: Mapping[str, str],
    memory: int | None,
    stdin: bool,
    pty: bool,
    on_output: Callable[[str], None],
) -> BackgroundProcess:
    """Start argv; ToolError(unavailable) where it is not installed. on_output gets the name of a stream."""
    rlimits = Rlimits(data=memory) if memory else None
    if not pty:
        program = await start(zygote, argv, cwd=cwd, env=env, rlimits=rlimits, stdin=stdin)
        return BackgroundProcess(program, terminal=None, accepts_input=stdin, on_output=on_output)
    ours, theirs = os.openpty()
    try:
        os.set_blocking(ours, False)
        # One without a size has no columns, and programs that divide its width fail.
        termios.tcsetwinsize(theirs, _WINDOW)
        # Programs that find no TERM complain; with this one they leave escape sequences out.
        env = {"TERM": "dumb", **env}
        program = await start(zygote, argv, cwd=cwd, env=env, rlimits=rlimits, terminal=theirs)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return BackgroundProcess(program, terminal=ours, accepts_input=True, on_output=on_output)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
