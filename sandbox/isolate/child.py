"""The two processes of a jailed call: a supervisor, and below it the one that runs the function.

The supervisor adopts whatever the function leaves behind, kills it, and says how the function's
process ended, on a socket which that process never had. Both are forks of a process with one
thread: the zygote, or the caller in fork mode.
"""

import contextlib
import gc
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from ..process import tree
from . import codec
from .errors import words_of
from .request import Order

_LATE = 5.0
"""Seconds after the wall clock at which the supervisor acts for a parent that is stopped. A guess."""


def supervise(order: Order, control: int, data: int, body: Callable[[socket.socket], Any]) -> NoReturn:
    """Become the supervisor of body, which gets the data socket and returns the result. For a fresh fork.

    On control it sends {"started"}, waits for the other side to stop writing (the order to kill), and sends
    {"status", "cpu", "peak"} as os.wait4 gave them, peak in bytes above what the process began with.
    """
    try:
        # Objects of the caller must not be collected here: they would close numbers that are others' by then.
        gc.freeze()
        os.setsid()
        _shed(order, control, data)
        _forget_signals()
        link = socket.socket(fileno=control)
        if sys.platform == "linux":
            from ..linux.syscalls import PR_SET_CHILD_SUBREAPER, prctl

            prctl(PR_SET_CHILD_SUBREAPER, 1)
        heard, bell = os.pipe()
        os.set_blocking(bell, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        me, before = os.getpid(), _resident()
        child = os.fork()
        if not child:
            _jailed(order, me, data, body)
        os.close(data)
        link.sendall(b"".join(codec.encode({"started": child})))
        status, usage = _wait(child, heard, link, order.timeout + _LATE)
        _sweep(child)
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        report = {"status": status, "cpu": usage.ru_utime + usage.ru_stime, "peak": max(0, peak - before)}
        link.sendall(b"".join(codec.encode(report)))
    except BaseException:  # noqa: BLE001 - the caller's own handlers lie above and must never run here
        os._exit(1)
    os._exit(0)


def _wait(child: int, heard: int, link: socket.socket, seconds: float) -> tuple[int, resource.struct_rusage]:
    """Return the end of the child; kill it when the caller asks, is gone, or is long overdue."""
    poll = select.poll()
    poll.register(heard, select.POLLIN)
    poll.register(link, select.POLLIN)
    deadline = time.monotonic() + seconds
    while True:
        left = max(0.0, deadline - time.monotonic())
        events = dict(poll.poll(min(left, 3600) * 1000))
        if heard in events:
            os.read(heard, 4096)
        elif link.fileno() in events or not left:
            _kill(child)
            poll.unregister(link)
            deadline = float("inf")
        with contextlib.suppress(ChildProcessError):
            while ended := os.wait4(-1, os.WNOHANG):
                if ended[0] == child:
                    return ended[1], ended[2]
                if not ended[0]:
                    break


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _sweep(child: int) -> None:
    """Kill what the function left behind. On Linux all of it is below us, for we adopt orphans."""
    # First the group, in one system call that a fork bomb cannot outrun.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if sys.platform != "linux":
        return
    deadline = time.monotonic() + _LATE

    def reap() -> bool:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            return True
        return False

    tree.kill_children(reap, lambda: time.monotonic() > deadline)


def _jailed(order: Order, parent: int, data: int, body: Callable[[socket.socket], Any]) -> NoReturn:
    try:
        os.setsid()
        _shed(order, data)
        signal.set_wakeup_fd(-1)
        _forget_signals()
        # Made beforehand: the report of a full memory must not need memory.
        full = b"".join(codec.encode({"memory": True}))
        me = os.getpid()
        link = socket.socket(fileno=data)
        with contextlib.suppress(OSError):
            os.chdir(order.cwd)
        _confine(order, parent)
        try:
            reply = _reply(order, body, link)
        except MemoryError:
            reply = [full]
        if os.getpid() != me:
            # The function forked and both came back; the result is the first one's.
            os._exit(0)
        for buffer in reply:
            link.sendall(buffer)
    except BaseException:  # noqa: BLE001 - the caller's own handlers lie above and must never run here
        os._exit(1)
    os._exit(0)


def _reply(order: Order, body: Callable[[socket.socket], Any], link: socket.socket) -> list[bytes]:
    try:
        return codec.encode({"value": body(link)})
    except MemoryError:
        raise
    except BaseException as e:  # noqa: BLE001 - whatever it is, the caller hears of it
        if order.walls and isinstance(e, PermissionError):
            return codec.encode({"denied": words_of(e)[:4000]})
        trace = "".join(traceback.format_exception(e))[-16_000:].splitlines()
        return codec.encode({"error": (type(e).__name__, words_of(e)[:4000], trace)})


def _confine(order: Order, parent: int) -> None:
    if sys.platform == "linux":
        from ..linux import landlock, seccomp
        from ..linux.privileges import CAP_DAC_OVERRIDE, drop_capabilities
        from ..linux.syscalls import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl

        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        _limit(order)
        # Without it root could not write to a folder that it was given and that belongs to somebody else.
        drop_capabilities(keep=(CAP_DAC_OVERRIDE,))
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        if order.walls == "landlock":
            rules = [(path, landlock.READ) for path in order.read]
            rules += [(path, landlock.READ_WRITE) for path in order.write]
            # The network is not the jail's subject; signals and hidden sockets to others are.
            landlock.restrict([*rules, ("/dev/null", landlock.READ | landlock.Right.WRITE_FILE)], tcp=False)
            # Ways around the lists that Landlock leaves: sockets with a path, and modes, owners and times
            # of files anywhere. The latter are needed where the function may write, but for the bit by which a
            # program of its owner, who may be root, is everybody's.
            architecture = seccomp.architecture()
            if architecture is not None:
                writes = bool(order.write)
                seccomp.install(seccomp.build(architecture, metadata=writes, network=True, set_user_id=False))
    else:
        _limit(order)
        if order.walls == "seatbelt":
            from ..backends import macos

            macos.confine(macos.profile(order.read, order.write))


def _limit(order: Order) -> None:
    mapped, _ = _pages()
    # A limit of 0 keeps core files away, but on Linux not a core_pattern that is a program; 1 stops both (core(5)).
    core = int(sys.platform == "linux")
    for kind, soft, hard in (
        (resource.RLIMIT_AS, mapped + (order.memory_mb << 20), mapped + (order.memory_mb << 20)),
        (resource.RLIMIT_CPU, order.cpu_seconds, order.cpu_seconds + 1),
        (resource.RLIMIT_CORE, core, core),
    ):
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        # macOS refuses RLIMIT_AS below what is mapped; the other limits still hold.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (soft, hard))


def _pages() -> tuple[int, int]:
    """Return the mapped and the resident bytes of this process, zeros where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            mapped, resident = file.read().split()[:2]
    except OSError:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(mapped) * page, int(resident) * page


def _resident() -> int:
    return _pages()[1]


def _forget_signals() -> None:
    """Undo the caller's handlers and mask. What it ignores (SIGPIPE, by Python) stays ignored."""
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            if signal.getsignal(number) not in (signal.SIG_DFL, signal.SIG_IGN):
                signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGXCPU, signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _shed(order: Order, *keep: int) -> None:
    """Let go of every descriptor but keep; the three streams lead nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    if order.fork and sys.platform == "linux":
        # An object of the caller that still has the number would close a file of the function.
        # A descriptor that can do nothing keeps the number taken.
        stub = os.open(os.devnull, os.O_PATH)
        for name in os.listdir("/proc/self/fd"):
            number = int(name)
            if number > 2 and number not in (*keep, stub):
                with contextlib.suppress(OSError):
                    os.fstat(number)
                    os.dup2(stub, number)
        return
    start = 3
    for number in sorted(keep):
        _close(start, number)
        start = number + 1
    _close(start, 1 << 31)


def _close(start: int, end: int) -> None:
    if start >= end:
        return
    if sys.platform == "linux":
        from ..linux.syscalls import syscall

        with contextlib.suppress(OSError):
            syscall(436, start, end - 1, 0)
            return
    os.closerange(start, min(end, os.sysconf("SC_OPEN_MAX")))
