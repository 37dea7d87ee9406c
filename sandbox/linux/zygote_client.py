"""The server's side of the launcher: starts it once, asks it for programs, and holds each until its end."""

import array
import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

from anyio import CancelScope

from ...safety.errors import Code, ToolError
from ..process import tree
from ..process.child import Ended, Pipes, Program, Usage, ended_with, read_ready
from ..process.tree import Process
from . import bootstrap

_MODULE = "toolbox_mcp.sandbox.linux.zygote"
_START = 30.0  # seconds; a guess, for a machine that is a thousand times slower than usual
_SETUP = 20.0  # seconds to set one sandbox up; likewise
_END = 1.0  # seconds in which a keeper ends everything
_TRIES = 200
_PAUSE = 0.01  # seconds between tries to hand a job over
_LARGEST_REPORT = 64 * 1024
_LARGEST_MESSAGE = 64 * 1024  # bytes; what is longer goes as a file, for the system bounds what a socket takes


class SetupFailed(Exception):
    """A sandbox could not be set up. The message is for the operator: it may name paths."""


class Held(Pipes):
    """A sandboxed program: its pipes, its scratch folder (a descriptor), and its end. Fits runner.attend.

    ready: resolves when the sandbox stands. program: pid of the program, where the host sees it as a child of the
    keeper. folder: the scratch folder's path, where it is one of the host's; its maker removes it.
    """

    def __init__(self, control: socket.socket, pipes: tuple[int, int, int]) -> None:
        """Take our ends of the pipes and of the keeper's socket."""
        super().__init__(*pipes)
        self._control: socket.socket | None = control
        self.started = time.monotonic()
        self.pid = 0
        self.program: int | None = None
        self.helpers: frozenset[int] = frozenset()
        self.scratch: int | None = None
        self.folder: str | None = None
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._silent: asyncio.Future[None] = self._loop.create_future()
        self._result: Ended | None = None
        self._keeper: Process | None = None
        self.trouble: str | None = None
        control.setblocking(False)
        self._loop.add_reader(control.fileno(), self._report)

    def remember(self, processes: Iterable[Process]) -> None:
        """Do nothing: the keeper cannot lose a process."""

    def sweep(self, *, leader: bool) -> int:
        """Ask the keeper to end the program with all it started; return 1 while there is something to end."""
        if leader and self._control is not None and not self._silent.done():
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
        return 0 if self._silent.done() else 1

    async def bury(self) -> Ended:
        """End the program if it has not ended, see that nothing of it is left, and close the pipes."""
        try:
            if not self._silent.done():
                self.sweep(leader=not self.ended.done())
                with CancelScope(shield=True):
                    await asyncio.wait([self._silent], timeout=_END)
        finally:
            self._release()
        return self._result or ended_with(-signal.SIGKILL)

    def lives(self) -> bool:
        """Tell whether the program has not ended, also where the event loop has not come to hear of it."""
        while self._control is not None and not self.ended.done():
            try:
                self._control.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return True
            except OSError:
                return False
            self._report()
        return False

    async def discard(self) -> None:
        """End a program that nobody brings to its end."""
        await self.bury()
        if (scratch := self.take_scratch()) is not None:
            os.close(scratch)

    def take_scratch(self) -> int | None:
        """Hand the descriptor of the scratch folder over; the caller closes it."""
        taken, self.scratch = self.scratch, None
        return taken

    def _release(self) -> None:
        if not self._silent.done() and self._keeper is not None:
            # A keeper that does not answer for a second: it goes, and the launcher ends what it leaves.
            for process in [*tree.descendants(self.pid), self._keeper]:
                tree.kill(process)
        self._hang_up()
        self.close_all()

    def _hang_up(self) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        for future in (self.ready, self.ended, self._silent):
            if not future.done():
                future.set_result(None)

    def _report(self) -> None:
        assert self._control is not None
        passed = array.array("i")
        try:
            data, ancillary, _, _ = self._control.recvmsg(
                _LARGEST_REPORT, socket.CMSG_SPACE(passed.itemsize), socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, ancillary = b"", []
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                passed.frombytes(content[: len(content) - len(content) % passed.itemsize])
        if not data:
            self._hang_up()
            return
        self._take(json.loads(data), list(passed))

    def _take(self, message: Mapping[str, Any], descriptors: list[int]) -> None:
        if "keeper" in message:
            self.pid = message["keeper"]
            self.helpers = frozenset([self.pid, *message["helpers"]])
            self.program = message.get("program")
            self._keeper = tree.look(self.pid)
        if "ready" in message:
            self.scratch = descriptors.pop(0) if descriptors else None
        # The keeper and pid 1 of its program's namespace speak over one socket, and either may come first.
        if self.pid and self.scratch is not None and not self.ready.done():
            self.ready.set_result(None)
        if "error" in message and self.trouble is None:
            self.trouble = message["error"]
        if "ended" in message:
            code = os.waitstatus_to_exitcode(message["ended"])
            self._result = ended_with(code, Usage(message["cpu"], message["peak"]))
            if not self.ended.done():
                self.ended.set_result(None)
        for fd in descriptors:
            os.close(fd)


class Launcher:
    """Starts the launcher process at the first request, and again when it has died."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._program: Program | None = None
        self._requests: socket.socket | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The pid of the launcher process, None where it does not run."""
        return self._program.pid if self._program is not None else None

    async def start(self, job: Mapping[str, Any]) -> Held:
        """Start a program in a sandbox and return it when the sandbox stands. Raises SetupFailed."""
        message = json.dumps(job).encode()
        held, theirs = _connect()
        if len(message) > _LARGEST_MESSAGE:
            theirs.append(bootstrap.in_memory(message))
            message = b"{}"
        try:
            await self._request(message, theirs)
            await asyncio.wait([held.ready, held.ended], timeout=_SETUP, return_when=asyncio.FIRST_COMPLETED)
            if held.scratch is None or held.trouble:
                said = read_ready(held.stderr, 4096) if held.stderr is not None else None
                words = (said or b"").decode("utf-8", "replace").strip()[-500:]
                raise SetupFailed(words or held.trouble or "the sandbox did not come up")
        except BaseException:
            await held.discard()
            raise
        return held

    async def _request(self, message: bytes, descriptors: list[int]) -> None:
        """Hand a job and its descriptors over, which are closed here."""
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            for _ in range(_TRIES):
                requests = await self._ready()
                try:
                    requests.sendmsg([message], passed)
                    return
                except BlockingIOError:
                    await asyncio.sleep(_PAUSE)
                except (BrokenPipeError, ConnectionResetError):
                    # Killed just now, and the event loop has not heard of it yet.
                    await self.aclose()
            raise SetupFailed("the launcher takes no requests")
        except OSError as failure:
            raise SetupFailed(f"the launcher is gone: {failure}") from None
        finally:
            for fd in descriptors:
                os.close(fd)

    async def aclose(self) -> None:
        """End the launcher and every program it holds."""
        program, self._program = self._program, None
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if program is not None:
            await program.bury()

    async def _ready(self) -> socket.socket:
        async with self._starting:
            if self._program is not None and self._program.ended.done():
                await self.aclose()
            if self._requests is None:
                await self._launch()
            assert self._requests is not None
            return self._requests

    async def _launch(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._program = bootstrap.start(_MODULE, [theirs.fileno(), os.getpid()], pass_fds=(theirs.fileno(),))
        except ToolError as failure:
            ours.close()
            raise SetupFailed(failure.error) from None
        finally:
            theirs.close()
        self._requests = ours
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(ours.fileno(), lambda: None if ready.done() else ready.set_result(None))
        try:
            await asyncio.wait([ready, self._program.ended], timeout=_START, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(ours.fileno())
        try:
            greeting = ours.recv(16)
        except OSError:
            greeting = b""
        if not greeting:
            said = os.read(self._program.stderr, 4096) if self._program.stderr is not None else b""
            await self.aclose()
            raise SetupFailed(f"the launcher did not start: {said.decode('utf-8', 'replace')[-500:]}")


def _connect() -> tuple[Held, list[int]]:
    """Make the pipes and the socket of one program; return our ends as Held, and the other ends."""
    stdin, feed = os.pipe()
    out, stdout = os.pipe()
    err, stderr = os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for fd in (feed, out, err):
        os.set_blocking(fd, False)
    return Held(ours, (feed, out, err)), [stdin, stdout, stderr, theirs.detach()]


def unavailable(name: str, reason: str) -> ToolError:
    """Return the error for a back end that does not work here."""
    return ToolError(
        Code.SANDBOX_UNAVAILABLE,
        f"the {name} sandbox does not work here: {reason}"[:500],
        "toolbox-mcp doctor tells the operator which ones work",
    )
