"""Runs functions in a process that a deadline can kill.

Threads cannot be stopped and a timeout of asyncio does not stop a loop in C, so whatever can
hang or blow up on hostile input (regular expressions, HTML, YAML, PDF, images) runs here.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from ...safety.errors import Code, ToolError
from . import codec
from .interpreter import command

T = TypeVar("T")

_START_SECONDS = 30.0
"""A guess: an interpreter starts in 50 ms, and a starved machine may take a hundred times that."""


class WorkerFailure(Exception):
    """A call that did not end with the function's value."""


class WorkerTimeout(WorkerFailure):
    """The function did not answer in time; its process was killed."""


class WorkerMemory(WorkerFailure):
    """The function wanted more memory than the worker may have."""


class WorkerCrashed(WorkerFailure):
    """The process ended without an answer, or did not start."""


class WorkerError(WorkerFailure):
    """The function raised. original_class is a bare class name, original_backtrace text for the log."""

    def __init__(self, original_class: str, original_message: str, original_backtrace: str = "") -> None:
        """Keep what is known of the exception, which itself stays in the other process."""
        super().__init__(f"{original_class}: {original_message}")
        self.original_class = original_class
        self.original_message = original_message
        self.original_backtrace = original_backtrace


class Worker:
    """Runs importable functions in a process that a deadline can kill."""

    def __init__(self, *, memory_mb: int = 512, processes: int = 2, max_result: int = 64 << 20) -> None:
        """Start nothing yet: a process starts at the first call that needs it.

        memory_mb is the address space of each process in MiB, processes how many run at once,
        max_result the largest answer in bytes.
        """
        self._memory_mb = memory_mb
        self._max_result = max_result
        self._processes = processes
        self._slots = asyncio.Semaphore(processes)
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._ending: set[asyncio.Future[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        """Return the worker itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process."""
        await self.aclose()

    async def call(self, fn: Callable[..., T], *args: object, deadline: float) -> T:
        """Return fn(*args), computed in another process within deadline seconds.

        fn is importable as module:qualname; arguments and result are what codec carries. The
        deadline counts from the moment a process has the call, waiting for a free one not
        included. Cancelling kills the process. Raises what the function raised if that is a
        ToolError, else WorkerTimeout, WorkerMemory, WorkerCrashed or WorkerError; TypeError
        and ValueError for a function or an argument that cannot be sent.
        """
        request = codec.encode((_name(fn), args, deadline))
        async with self._slots:
            process = await self._take()
            try:
                reply = await self._exchange(process, request, deadline)
            except BaseException:
                self._end(process)
                raise
            self._busy.discard(process)
            self._idle.append(process)
        match reply:
            case {"value": value}:
                return value  # type: ignore[no-any-return]
            case {"tool_error": (code, error, hint)}:
                raise ToolError(Code(code), error, hint)
            case {"error": (original_class, message, trace)}:
                raise WorkerError(original_class, message, trace)
            case _:
                raise WorkerCrashed("the answer makes no sense")

    async def aclose(self) -> None:
        """End every process and wait until the system has forgotten them. Running calls fail."""
        self._closed = True
        for process in self._busy:
            # Only killed: the call waits on its socket, hears the end there, and closes it.
            process.kill()
        for _ in range(self._processes):
            await self._slots.acquire()
        for _ in range(self._processes):
            self._slots.release()
        for process in list(self._idle):
            self._end(process)
        while self._ending:
            await asyncio.wait(self._ending)

    async def _take(self) -> "_Process":
        while self._idle:
            process = self._idle.pop()
            if process.alive():
                self._busy.add(process)
                return process
            self._end(process)
        if self._closed:
            raise WorkerCrashed("the worker is closed")
        # In the calling thread, for the child dies with the thread that started it.
        process = _Process(self._memory_mb)
        self._busy.add(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                process.start_peak = (await process.receive(self._max_result))["peak"]
        except (TimeoutError, EOFError, ConnectionError):
            self._end(process)
            raise WorkerCrashed("the worker process did not start") from None
        except BaseException:
            self._end(process)
            raise
        return process

    async def _exchange(self, process: "_Process", request: list[bytes], deadline: float) -> Any:
        try:
            async with asyncio.timeout(deadline):
                await process.send(request)
                reply = await process.receive(self._max_result)
        except TimeoutError:
            raise WorkerTimeout(f"no answer within {deadline:g} s") from None
        except (EOFError, ConnectionError):
            # The process closed its socket by dying; how it died is known a moment later.
            await asyncio.wait([process.ended()], timeout=1)
            raise process.death() from None
        except codec.CodecError as e:
            raise WorkerCrashed(f"the answer makes no sense: {e}") from None
        if reply == {"memory": True}:
            raise WorkerMemory(f"more than {self._memory_mb} MiB are needed")
        return reply

    def _end(self, process: "_Process") -> None:
        """Kill a process and see to it that it is reaped, without waiting."""
        self._busy.discard(process)
        if process in self._idle:
            self._idle.remove(process)
        process.kill()
        process.close()
        ended = process.ended()
        self._ending.add(ended)
        ended.add_done_callback(self._ending.discard)


class _Process:
    """One interpreter with a socket to it."""

    def __init__(self, memory_mb: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] | None = None
        self._memory_mb = memory_mb
        self._peak = 0
        self.start_peak = 0
        self._link, theirs = socket.socketpair()
        self._link.setblocking(False)
        arguments = [str(theirs.fileno()), str(os.getpid()), str(memory_mb)]
        try:
            with theirs:
                self._popen = _spawn(command("toolbox_mcp.sandbox.isolate.worker_main", *arguments), theirs)
        except BaseException:
            self._link.close()
            raise

    def alive(self) -> bool:
        return self._popen.poll() is None

    async def send(self, buffers: list[bytes]) -> None:
        for buffer in buffers:
            await self._loop.sock_sendall(self._link, buffer)

    async def receive(self, limit: int) -> Any:
        prefix = await self._exactly(codec.PREFIX.size)
        size = codec.body_size(prefix)
        if size > limit:
            raise WorkerCrashed(f"the answer has {size} bytes, more than {limit}")
        return codec.decode(prefix, await self._exactly(size))

    async def _exactly(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            count = await self._loop.sock_recv_into(self._link, view)
            if not count:
                raise EOFError
            view = view[count:]
        return buffer

    def close(self) -> None:
        self._link.close()

    def kill(self) -> None:
        if self._popen.returncode is None:
            # Unreaped, so the number cannot belong to anybody else.
            os.killpg(self._popen.pid, signal.SIGKILL)

    def ended(self) -> "asyncio.Future[None]":
        """Return a future that is done when the process is dead and reaped."""
        if self._ended is None:
            self._ended = self._loop.create_future()
            if self._popen.returncode is not None:
                self._ended.set_result(None)
            elif sys.platform == "linux":
                pidfd = os.pidfd_open(self._popen.pid)
                self._loop.add_reader(pidfd, self._reap, pidfd)
            else:
                waiting = self._loop.run_in_executor(None, self._popen.wait)
                waiting.add_done_callback(lambda _: self._done())
        return self._ended

    def _reap(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        try:
            _, status, usage = os.wait4(self._popen.pid, 0)
        except ChildProcessError:
            self._popen.poll()
        else:
            self._popen.returncode = os.waitstatus_to_exitcode(status)
            self._peak = usage.ru_maxrss
        self._done()

    def _done(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def death(self) -> WorkerFailure:
        """Say how a process died that was not killed by us."""
        status = self._popen.returncode
        if status is None:
            return WorkerCrashed("the worker process closed its socket")
        if status >= 0:
            return WorkerCrashed(f"the worker process ended with status {status}")
        name = signal.Signals(-status).name
        if name == "SIGXCPU":
            return WorkerTimeout("the CPU time is used up")
        # C libraries abort, or touch what they did not get, when memory is refused. A program starts
        # with its parent's peak, so only what is above that says something.
        peak_mb = self._peak >> (20 if sys.platform == "darwin" else 10)
        if self._peak > self.start_peak and peak_mb >= 0.8 * self._memory_mb:
            return WorkerMemory(f"{name} at {peak_mb} of {self._memory_mb} MiB")
        return WorkerCrashed(f"the worker process ended by {name}")


def _spawn(argv: list[str], link: socket.socket) -> "subprocess.Popen[bytes]":
    nothing = subprocess.DEVNULL
    return subprocess.Popen(
        argv,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        env={"LANG": "C.UTF-8"},
        cwd="/",
        start_new_session=True,
        pass_fds=[link.fileno()],
    )


def _name(fn: Callable[..., Any]) -> str:
    module, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for part in qualname.split(".") if isinstance(qualname, str) else ():
        found = getattr(found, part, None)
    if found is not fn or module == "__main__":
        raise ValueError(f"{qualname or fn!r} of {module} cannot be imported by name")
    return f"{module}:{qualname}"
