"""A small server: python stand_in.py SHAPE END guarded|bare. Prints its pid and those of the programs it started."""

import os
import select
import signal
import sys
import time

from toolbox_mcp.sandbox.process.supervisor import guarded


def program(report: int, *, deaf: bool = False) -> None:
    """Be a program that runs until it is ended; does not return."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.write(report, b"%d\n" % os.getpid())
    os.close(report)
    while True:
        time.sleep(60)


def child(report: int) -> None:
    if os.fork() == 0:
        program(report)


def grandchild(report: int, *, session: bool = False) -> None:
    """Leave a program behind whose parent stays as well."""
    if os.fork() == 0:
        if os.fork() == 0:
            if session:
                os.setsid()
            program(report)
        program(report)


def daemon(report: int) -> None:
    """Leave a program behind whose parents are gone."""
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork() == 0:
            program(report)
        os._exit(0)
    os.waitpid(first, 0)


def deaf(report: int) -> None:
    if os.fork() == 0:
        program(report, deaf=True)


SHAPES = {
    "child": (child, 1),
    "background grandchild": (grandchild, 2),
    "setsid grandchild": (lambda report: grandchild(report, session=True), 2),
    "double-fork daemon": (daemon, 1),
    "SIGTERM ignorer": (deaf, 1),
}


def wait_for_end_of_input() -> None:
    """Wait as an event loop does: a signal between a look for signals and a plain read would only be seen after it."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 1000)
        if 0 in ready and not os.read(0, 1000):
            return


def serve(shape: str, end: str) -> int:
    if end == "deaf server":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if shape in SHAPES:
        start, count = SHAPES[shape]
        read, write = os.pipe()
        start(write)
        os.close(write)
        pids = b"".join(iter(lambda: os.read(read, 100), b"")).split() if count else []
        assert len(pids) == count
        os.close(read)
    else:
        pids = []
    print(os.getpid(), *(int(pid) for pid in pids), flush=True)
    if end == "crash":
        signal.signal(signal.SIGABRT, signal.SIG_DFL)
        os.abort()
    if end == "exception":
        raise LookupError("the server's own")
    if end == "exit":
        sys.exit(3)
    if end == "return":
        return 5
    wait_for_end_of_input()
    if end == "deaf server":
        time.sleep(60)
    return 0


def main() -> int:
    return serve(sys.argv[1], sys.argv[2])


if sys.argv[3] == "guarded":
    guarded(main)
sys.exit(main())
