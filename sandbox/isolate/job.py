"""The caller's side of a jailed call: starting it, talking with it, and judging how it ended."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from . import codec
from . import errors as jail_errors
from .interpreter import command, import_path
from .request import Order

_START_SECONDS = 30.0
"""Until the function's process exists. A guess: 40 ms are usual, and the machine may be starved."""

_LEAVING = 0.1
"""Seconds in which a thread that has been joined leaves the process; a guess."""
_END_SECONDS = 10.0
"""Until a killed call has reported. It takes the supervisor milliseconds; its own patience is 5 s."""

Step = tuple[socket.socket, memoryview | bytes, float]
"""Fill the view with what comes, or send the bytes, until the moment on the monotonic clock."""
Steps = Generator[Step, int, Any]


class _Late(Exception):
    """The moment of a step has passed."""


class _TooLong(Exception):
    """A frame announces more bytes than are wanted."""


class Zygote:
    """A clean single-threaded interpreter that forks jailed calls. It starts when first needed."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._owner = 0
        self._requests: socket.socket | None = None
        self._end: weakref.finalize[..., Zygote] | None = None

    def ask(self, order: Order, name: str, descriptors: list[int]) -> None:
        """Have a call forked that talks on the two descriptors, control and data."""
        frame = b"".join(codec.encode((order.packed(), name, import_path())))
        with self._lock:
            try:
                self._send(frame, descriptors)
            except OSError:
                # It was killed while idle. What it was asked before is not affected.
                self.close()
                self._send(frame, descriptors)

    def close(self) -> None:
        """End the process; calls that run go on."""
        if self._end:
            self._end()
        self._requests = self._end = None

    def _send(self, frame: bytes, descriptors: list[int]) -> None:
        # A fork of the caller shares the socket but must not share the conversation.
        if self._requests is None or self._owner != os.getpid():
            self._start()
        assert self._requests is not None
        sent = socket.send_fds(self._requests, [frame], descriptors)
        self._requests.sendall(frame[sent:])

    def _start(self) -> None:
        if self._end and self._owner != os.getpid():
            self._end.detach()
        ours, theirs = socket.socketpair()
        # One that takes no request, such as one that somebody stopped, is replaced.
        ours.settimeout(_START_SECONDS)
        with theirs:
            nothing = subprocess.DEVNULL
            process = subprocess.Popen(
                command("toolbox_mcp.sandbox.isolate.zygote", str(theirs.fileno())),
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        self._requests, self._owner = ours, os.getpid()
        self._end = weakref.finalize(self, _end_zygote, process, ours)


def _end_zygote(process: subprocess.Popen[bytes], requests: socket.socket) -> None:
    requests.close()
    process.kill()
    process.wait()


class Job:
    """One call that runs: its order, the sockets to it, and in fork mode its supervisor's pid."""

    def __init__(self, order: Order, control: socket.socket, data: socket.socket, pid: int = 0) -> None:
        """Take over both sockets and the duty to bury pid."""
        self._order = order
        self._control = control
        self._data = data
        self._pid = pid
        self._reported = False

    def run(self, arguments: list[bytes], max_result: int) -> Any:
        """Wait for the end and return the result. Raises as the jail does."""
        steps = self._conversation(arguments, max_result)
        try:
            step = next(steps)
            while True:
                try:
                    moved = _blocking(step)
                except (_Late, OSError) as failure:
                    step = steps.throw(failure)
                else:
                    step = steps.send(moved)
        except StopIteration as end:
            return end.value
        finally:
            self._close()

    async def run_async(self, arguments: list[bytes], max_result: int) -> Any:
        """Do the same without blocking the event loop; cancelling kills the call."""
        steps = self._conversation(arguments, max_result)
        try:
            step = next(steps)
            while True:
                try:
                    moved = await _awaiting(step)
                except (_Late, OSError) as failure:
                    step = steps.throw(failure)
                else:
                    step = steps.send(moved)
        except StopIteration as end:
            return end.value
        finally:
            try:
                if not self._reported:
                    await self._hear_out()
            finally:
                # A second cancellation ends the waiting; what is left of it then blocks for milliseconds.
                self._close()

    async def _hear_out(self) -> None:
        """Kill what runs and wait until its supervisor is done, without blocking the event loop."""
        from anyio import CancelScope

        loop = asyncio.get_running_loop()
        with CancelScope(shield=True):
            try:
                self._control.setblocking(False)
                self._control.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(_END_SECONDS):
                    while await loop.sock_recv(self._control, 4096):
                        pass
            except OSError:
                self._put_down()
        self._reported = True

    def _conversation(self, arguments: list[bytes], max_result: int) -> Steps:
        try:
            yield from _frame(self._control, time.monotonic() + _START_SECONDS)
        except (_Late, EOFError, OSError, codec.CodecError):
            raise jail_errors.SandboxError("the jailed process did not start") from None
        deadline = time.monotonic() + self._order.timeout
        reply: object = None
        report: dict[str, Any] | None = None
        killed: jail_errors.Error | None = None
        try:
            # A process that dies early takes no arguments; how it ended says why.
            with contextlib.suppress(OSError):
                for buffer in arguments:
                    yield self._data, buffer, deadline
            with contextlib.suppress(OSError, EOFError, codec.CodecError):
                reply = yield from _frame(self._data, deadline, max_result)
            report = yield from _frame(self._control, deadline)
        except _Late:
            killed = jail_errors.TimeoutError(f"the wall clock of {self._order.timeout:g} s ran out")
        except _TooLong as failure:
            text = f"the result has {failure}, more than {max_result}"
            killed = jail_errors.SandboxError(f"OutputLimit: {text}", "OutputLimit", text)
        except (OSError, EOFError, codec.CodecError):
            report = None
        if killed:
            self._control.shutdown(socket.SHUT_WR)
            with contextlib.suppress(_Late, OSError, EOFError, codec.CodecError):
                yield from _frame(self._control, time.monotonic() + _END_SECONDS)
                self._reported = True
            if reply is None:
                raise killed
            return self._value(reply, None)
        self._reported = report is not None
        return self._value(reply, report)

    def _value(self, reply: object, report: dict[str, Any] | None) -> object:
        match reply:
            case {"value": value}:
                return value
            case {"memory": True}:
                raise jail_errors.MemoryError(f"more than {self._order.memory_mb} MiB are needed")
            case {"denied": str(message)}:
                raise jail_errors.FilesystemError(message)
            case {"error": (str(kind), str(message), list(trace))}:
                raise jail_errors.SandboxError(f"{kind}: {message}", kind, message, trace)
            case _:
                raise self._death(report)

    def _death(self, report: dict[str, Any] | None) -> jail_errors.Error:
        if report is None:
            return jail_errors.SandboxError("no result: the process above the function was killed")
        code = os.waitstatus_to_exitcode(report["status"])
        if code >= 0:
            return jail_errors.SandboxError(f"no result: the process ended with exit status {code}")
        # Real-time signals have no name of their own.
        name = next((each.name for each in signal.Signals if each == -code), f"SIG{-code}")
        seconds, memory_mb = self._order.cpu_seconds, self._order.memory_mb
        if name == "SIGXCPU" or (name == "SIGKILL" and report["cpu"] >= seconds - 0.1):
            return jail_errors.TimeoutError(f"the CPU time of {seconds} s ran out")
        # C libraries abort, or touch what they did not get, when memory is refused.
        if name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGTRAP", "SIGKILL") and report["peak"] >= 0.8 * (memory_mb << 20):
            return jail_errors.MemoryError(f"{name} at {report['peak'] >> 20} of {memory_mb} MiB")
        return jail_errors.SandboxError(f"no result: the process was killed by {name}")

    def _close(self) -> None:
        """Leave nothing behind: no process, no zombie, no descriptor."""
        self._data.close()
        with self._control:
            if not self._reported:
                # The call was cancelled, or its supervisor is slow. This waits for milliseconds.
                try:
                    self._control.shutdown(socket.SHUT_WR)
                    self._control.settimeout(_END_SECONDS)
                    while self._control.recv(4096):
                        pass
                except OSError:
                    self._put_down()
        if self._pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)

    def _put_down(self) -> None:
        """Kill a supervisor that is ours and does not end, such as one that somebody stopped: it is waited for."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def from_zygote(zygote: Zygote, order: Order, name: str) -> Job:
    """Start a call of the function that name imports; its arguments go to Job.run."""

    def ask(control: socket.socket, data: socket.socket) -> int:
        zygote.ask(order, name, [control.fileno(), data.fileno()])
        return 0

    return _start(order, ask)


def from_here(order: Order, fn: Callable[..., Any], args: tuple[Any, ...]) -> Job:
    """Fork this process and call fn there. Raises RuntimeError when it has more than one thread."""
    import fcntl

    from .child import supervise

    order = replace(order, fork=True)
    running = _threads()
    if running > 1:
        raise RuntimeError(
            f"fork mode needs a process with one thread, and {running} run: a lock that another holds "
            "would never open in the child; use a function that can be imported and carried arguments"
        )

    def fork(control: socket.socket, data: socket.socket) -> int:
        pid = os.fork()
        if not pid:
            # A socket in the place of a stream that the caller has closed would be lost to the child's own.
            above = [fcntl.fcntl(link, fcntl.F_DUPFD_CLOEXEC, 3) for link in (control, data)]
            supervise(order, above[0], above[1], lambda _: fn(*args))
        return pid

    return _start(order, fork)


def _start(order: Order, start: Callable[[socket.socket, socket.socket], int]) -> Job:
    control, far_control = socket.socketpair()
    data, far_data = socket.socketpair()
    with far_control, far_data:
        try:
            return Job(order, control, data, start(far_control, far_data))
        except BaseException:
            control.close()
            data.close()
            raise


def _threads() -> int:
    """Return the number of threads of this process. One that was joined may still be on its way out; it gets a moment."""
    until = time.monotonic() + _LEAVING
    while True:
        try:
            running = len(os.listdir("/proc/self/task"))
        except OSError:
            return threading.active_count()
        if running == 1 or threading.active_count() > 1 or time.monotonic() > until:
            return running
        time.sleep(0.001)


def _frame(link: socket.socket, until: float, limit: int = 1 << 20) -> Steps:
    prefix = bytearray(codec.PREFIX.size)
    yield from _fill(link, prefix, until)
    size = codec.body_size(prefix)
    if size > limit:
        raise _TooLong(f"{size} bytes")
    body = bytearray(size)
    yield from _fill(link, body, until)
    return codec.decode(prefix, body)


def _fill(link: socket.socket, buffer: bytearray, until: float) -> Steps:
    view = memoryview(buffer)
    while view:
        count = yield link, view, until
        if not count:
            raise EOFError
        view = view[count:]


def _blocking(step: Step) -> int:
    link, what, until = step
    left = until - time.monotonic()
    if left <= 0:
        raise _Late
    link.settimeout(left)
    try:
        if isinstance(what, memoryview):
            return link.recv_into(what)
        link.sendall(what)
    except TimeoutError:
        raise _Late from None
    return len(what)


async def _awaiting(step: Step) -> int:
    link, what, until = step
    loop = asyncio.get_running_loop()
    link.setblocking(False)
    try:
        async with asyncio.timeout(until - time.monotonic()):
            if isinstance(what, memoryview):
                return await loop.sock_recv_into(link, what)
            await loop.sock_sendall(link, what)
    except TimeoutError:
        raise _Late from None
    return len(what)
