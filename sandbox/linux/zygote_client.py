"""The server's side of the zygote: starts it once, asks it for programs, and holds each until its end."""

import array
import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from anyio import CancelScope

from ...safety.errors import Code, ToolError
from ..process import tree
from ..process.child import ChildProcess, Ended, Pipes, Usage, ended_with, read_ready
from ..process.tree import Process
from . import bootstrap
from .program_supervisor import KILL, TERMINATE

MODULE = "toolbox_mcp.sandbox.linux.zygote"
_START = 30.0  # seconds; a guess, for a machine that is a thousand times slower than usual
_SETUP = 20.0  # seconds to set one sandbox up; likewise
_END = 1.0  # seconds in which a supervisor ends everything
_TRIES = 200
_PAUSE = 0.01  # seconds between tries to hand a job over
_LARGEST_REPORT = 64 * 1024


class SetupFailed(Exception):
    """A sandbox could not be set up. The message is for the operator: it may name paths."""


class SupervisedProcess(Pipes):
    """A program below its supervisor: its pipes and its end; of a sandboxed one the scratch folder (a descriptor).

    pid: the supervisor's. program: the program's, where the host sees it as a child of the supervisor. ready: resolves when it
    runs. ended: when it has ended; gone: when nothing of it is left. folder: the scratch folder's path, where it is
    one of the host's; its maker removes it.
    """

    def __init__(self, control: socket.socket, pipes: tuple[int | None, int | None, int | None]) -> None:
        """Take our ends of the pipes and of the supervisor's socket."""
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
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._runs = False
        self.result: Ended | None = None
        self._supervisor: Process | None = None
        self.trouble: str | None = None
        self.failure: OSError | None = None
        control.setblocking(False)
        self._loop.add_reader(control.fileno(), self._report)

    def terminate(self) -> None:
        """Ask the program and all that it started to end."""
        self._ask(TERMINATE)

    def kill(self) -> None:
        """Begin to kill the program and all that it started."""
        self._ask(KILL)

    async def bury(self) -> Ended:
        """Kill what has not ended, see that nothing is left, and close the pipes. It takes a second at most."""
        try:
            if not self.gone.done():
                self.kill()
                with CancelScope(shield=True):
                    await asyncio.wait([self.gone], timeout=_END)
        finally:
            self._release()
        return self.result or ended_with(-signal.SIGKILL)

    def is_alive(self) -> bool:
        """Return True while the program has not ended, also where the event loop has not come to hear of it."""
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

    def _ask(self, what: bytes) -> None:
        if self._control is not None and not self.gone.done():
            with contextlib.suppress(OSError):
                self._control.send(what)

    def _release(self) -> None:
        if not self.gone.done() and self._supervisor is not None:
            # A supervisor that does not answer for a second: it goes, and the zygote ends what it leaves.
            for process in [*tree.descendants(self.pid), self._supervisor]:
                tree.kill(process)
        self._hang_up()
        self.close_all()

    def _reap(self, tries: int = 10) -> None:
        """Reap a supervisor that outlived the zygote, and so became a child of this process."""
        with contextlib.suppress(ChildProcessError):
            if self.pid and os.waitpid(self.pid, os.WNOHANG)[0] == 0 and tries:
                self._loop.call_later(_PAUSE, self._reap, tries - 1)

    def _hang_up(self) -> None:
        if self._control is not None:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None
        for future in (self.ready, self.ended, self.gone):
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
            self._reap()
            return
        self._take(json.loads(data), list(passed))

    def _take(self, message: Mapping[str, Any], descriptors: list[int]) -> None:
        if "supervisor" in message:
            self.pid = message["supervisor"]
            self.helpers = frozenset([self.pid, *message["helpers"]])
            self.program = message.get("program")
            self._supervisor = tree.look(self.pid)
        if "ready" in message:
            self._runs = True
            self.scratch = descriptors.pop(0) if descriptors else None
        # The supervisor and pid 1 of its program's namespace speak over one socket, and either may come first.
        if self.pid and self._runs and not self.ready.done():
            self.ready.set_result(None)
        if "error" in message and self.trouble is None:
            self.trouble = message["error"]
            self.failure = OSError(message["errno"] or 0, self.trouble, message.get("step"))
        if "ended" in message:
            code = os.waitstatus_to_exitcode(message["ended"])
            self.result = ended_with(code, Usage(message["cpu"], message["peak"]))
            if not self.ended.done():
                self.ended.set_result(None)
        for fd in descriptors:
            os.close(fd)


class Zygote:
    """Starts the zygote at the first request, and again when it has died."""

    def __init__(self, module: str = MODULE, start_seconds: float = _START) -> None:
        """Start nothing yet. module: whose main() it runs. start_seconds: in which it has to greet."""
        self._module = module
        self._start_seconds = start_seconds
        self._program: ChildProcess | None = None
        self._requests: socket.socket | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The pid of the zygote, None where it does not run."""
        return self._program.pid if self._program is not None else None

    async def start(self, job: Mapping[str, Any]) -> SupervisedProcess:
        """Start a program in a sandbox and return it when the sandbox stands. Raises SetupFailed."""
        process = await self._started(job, _pipes())
        if process.scratch is None or process.trouble:
            said = read_ready(process.stderr, 4096) if process.stderr is not None else None
            words = (said or b"").decode("utf-8", "replace").strip()[-500:]
            await process.discard()
            raise SetupFailed(words or process.trouble or "the sandbox did not come up")
        return process

    async def start_plain(
        self, job: Mapping[str, Any], folder: int, *, stdin: bool, terminal: int | None
    ) -> SupervisedProcess:
        """Start a program as this process would and return it when it runs.

        folder: a descriptor of where it runs. terminal: one that becomes its three streams. Raises OSError, SetupFailed.
        """
        ends = ((None, None, None), [terminal] * 3, []) if terminal is not None else _pipes(feed=stdin)
        process = await self._started({**job, "mode": "plain"}, ends, folder)
        if process.program is None:
            await process.discard()
            raise process.failure or SetupFailed(process.trouble or "its supervisor did not come up")
        return process

    async def _started(self, job: Mapping[str, Any], ends: "_Ends", *folder: int) -> SupervisedProcess:
        ours, theirs, lent = ends
        control, far_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = SupervisedProcess(control, ours)
        text = bootstrap.in_memory(json.dumps(job).encode())
        try:
            try:
                await self._request([*theirs, far_control.fileno(), text, *folder])
            finally:
                far_control.close()
                for fd in (text, *lent):
                    os.close(fd)
            await asyncio.wait([process.ready, process.ended], timeout=_SETUP, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await process.discard()
            raise
        return process

    async def _request(self, descriptors: Sequence[int]) -> None:
        """Hand a job over by its descriptors."""
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            for _ in range(_TRIES):
                requests = await self._ready()
                try:
                    requests.sendmsg([b"?"], passed)
                    return
                except BlockingIOError:
                    await asyncio.sleep(_PAUSE)
                except (BrokenPipeError, ConnectionResetError):
                    # Killed just now, and the event loop has not heard of it yet.
                    await self.aclose()
            raise SetupFailed("the zygote takes no requests")
        except OSError as failure:
            raise SetupFailed(f"the zygote is gone: {failure}") from None

    async def aclose(self) -> None:
        """End the zygote and every program in a sandbox. A plain program is ended by its supervisor."""
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
            self._program = bootstrap.start(self._module, [theirs.fileno(), os.getpid()], pass_fds=(theirs.fileno(),))
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
            await asyncio.wait(
                [ready, self._program.ended], timeout=self._start_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            loop.remove_reader(ours.fileno())
        try:
            greeting = ours.recv(16)
        except OSError:
            greeting = b""
        if not greeting:
            said = read_ready(self._program.stderr, 4096) if self._program.stderr is not None else None
            words = (said or b"").decode("utf-8", "replace")[-500:] or "it does not answer"
            await self.aclose()
            raise SetupFailed(f"the zygote did not start: {words}")


_Ends = tuple[tuple[int | None, int | None, int | None], Sequence[int], Sequence[int]]
"""Our ends of a program's streams, its ends, and what of those is to be closed when they are handed over."""


def _pipes(*, feed: bool = True) -> _Ends:
    out, stdout = os.pipe()
    err, stderr = os.pipe()
    if feed:
        stdin, write = os.pipe()
    else:
        stdin, write = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None
    for fd in (write, out, err):
        if fd is not None:
            os.set_blocking(fd, False)
    return (write, out, err), [stdin, stdout, stderr], [stdin, stdout, stderr]


def unavailable(name: str, reason: str) -> ToolError:
    """Return the error for a back end that does not work here."""
    return ToolError(
        Code.SANDBOX_UNAVAILABLE,
        f"the {name} sandbox does not work here: {reason}"[:500],
        "toolbox-mcp doctor tells the operator which ones work",
    )
