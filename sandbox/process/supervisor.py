"""The guardian: a parent process that leaves nothing behind when the server ends.

    client -> guardian (subreaper, waits) -> server (subreaper, own process group) -> programs

The guardian is forked off before anything heavy is imported, so this module imports next to nothing. Whatever
ends the server, its programs are re-parented to the guardian, which ends them all. Whatever ends the guardian,
the kernel sends SIGTERM to the server, which then ends its own programs. SIGKILL for both at the same instant leaves
the supervisors of the programs (linux/program_supervisor.py), which end when the server is gone.

Other systems have no subreaper: there `guarded` calls main directly and ps_sweep.py finds what is left.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from types import FrameType
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
SI_KERNEL = 0x80

SERVER_GRACE = 1.2
"""Seconds between a signal that asks the server to stop and SIGKILL for it."""

SWEEP_GRACE = 1.5
"""Seconds between SIGTERM and SIGKILL for the programs a server left. With 2 s promised, 0.5 s remain for the kernel."""

SWEEP_LIMIT = 10.0
"""Seconds after which a sweep gives up: what is alive then cannot be killed (another user's, stuck in the kernel)."""

ROUND = 0.02
"""Seconds between two looks at the process table during a sweep."""

FOREVER = 86400.0
"""Seconds between two needless looks of an idle guardian."""

STOPS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT") if hasattr(signal, name))
OTHERS = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT") if hasattr(signal, name))


def guarded(main: Callable[[], int]) -> NoReturn:
    """Run main in a child and exit as it did, its exit status or its death by a signal, leaving no descendant.

    Call it from the main thread before any other thread exists. main is to clean up by itself when it ends:
    exit hooks of the interpreter do not run, because one thread that does not end would keep the server alive.
    """
    if sys.platform != "linux":
        from .ps_sweep import swept

        signal.signal(signal.SIGTERM, _terminated)
        _leave(_outcome(lambda: swept(main)))
    # A supervisor that ignores SIGCHLD would have the kernel reap the server before its status is read.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    own_group = not os.isatty(0)
    guardian = os.getpid()
    # What was ignored at the start (nohup) stays ignored; what was blocked stays blocked in the server.
    watched = {s for s in (*STOPS, *OTHERS) if signal.getsignal(s) is not signal.SIG_IGN} | {signal.SIGCHLD}
    if own_group:
        watched.add(signal.SIGTSTP)
    sys.stdout.flush()
    sys.stderr.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    server = os.fork()
    if server == 0:
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != guardian:
            os._exit(1)
        if own_group:
            # SIGKILL for the client's group must not take guardian and server together.
            os.setpgid(0, 0)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminated)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        outcome = _outcome(main)
        if os.getppid() != guardian:
            for number in STOPS:
                signal.signal(number, signal.SIG_IGN)
            sweep()
        _leave(outcome)
    _release_streams()
    status, asked = _watch(server, watched, own_group)
    grace = SWEEP_GRACE if asked is None else SERVER_GRACE + 0.5 - (time.monotonic() - asked)
    sweep(min(SWEEP_GRACE, grace), watched & set(STOPS))
    _prctl(PR_SET_DUMPABLE, 0)
    _leave(os.waitstatus_to_exitcode(status))


def sweep(grace: float = SWEEP_GRACE, hurry: AbstractSet[int] = frozenset()) -> bool:
    """End all descendants of this process: SIGTERM, grace seconds, SIGKILL. True when none is left.

    The process must be a subreaper and nobody else may be waiting for its children. hurry: blocked signals of
    which one, arriving meanwhile, ends the grace.
    """
    from . import tree

    start = time.monotonic()
    asked: set[int] = set()
    while (over := time.monotonic() - start) < grace:
        if not _reap():
            return True
        # Who was asked already is not asked again.
        tree.terminate(os.getpid(), frozenset(asked))
        asked.update(process.pid for process in tree.descendants(os.getpid()))
        got = signal.sigtimedwait({signal.SIGCHLD} | hurry, min(ROUND, grace - over))
        if got is not None and got.si_signo in hurry:
            break
    until = time.monotonic() + SWEEP_LIMIT
    return tree.kill_children(_reap, lambda: time.monotonic() > until)


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), zero, zero, zero)


def _watch(server: int, watched: AbstractSet[int], own_group: bool) -> tuple[int, float | None]:
    """Pass signals on until the server ends. Its wait status, and when it was first asked to stop."""
    asked: float | None = None
    while True:
        left = FOREVER if asked is None else asked + SERVER_GRACE - time.monotonic()
        got = signal.sigtimedwait(watched, max(0.0, left))
        if got is None and asked is None:
            continue
        if got is None:
            _signal(server, signal.SIGKILL)
            return os.waitpid(server, 0)[1], asked
        if got.si_signo == signal.SIGCHLD:
            status = _reap_until(server)
            if status is not None:
                return status, asked
            continue
        # In a terminal the server is in this group and has had the terminal's signal already.
        if own_group or got.si_code != SI_KERNEL:
            _signal(server, got.si_signo)
        if got.si_signo in STOPS and asked is None:
            asked = time.monotonic()
        if got.si_signo == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)


def _outcome(main: Callable[[], int]) -> int:
    """Run main; its exit status, or minus the signal that it should be seen to have died of."""
    try:
        return main()
    except _Terminated:
        return -signal.SIGTERM
    except KeyboardInterrupt:
        return -signal.SIGINT
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as failure:  # noqa: BLE001 - shown as the interpreter would
        sys.excepthook(type(failure), failure, failure.__traceback__)
        return 1


def _leave(outcome: int) -> NoReturn:
    """End this process with an exit status, or by the signal -outcome."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    if outcome < 0:
        number = -outcome
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(outcome & 255 if outcome >= 0 else 128 - outcome)


class _Terminated(SystemExit):
    """SIGTERM came before, or without, a handler of main's own."""


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated(128 + number)


def _release_streams() -> None:
    """Let go of the client's pipes, so that it sees the end of the server's output when the server ends."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def _reap() -> bool:
    """Reap what has ended; tell whether a child is left."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def _reap_until(server: int) -> int | None:
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == server:
            return status
        if pid == 0:
            return None


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
