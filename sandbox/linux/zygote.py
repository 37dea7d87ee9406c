"""The zygote, from which the supervisors of programs are forked: single-threaded, with an empty environment.

    server -> zygote -> supervisor (one a program) -> the program

A server with threads cannot fork safely, and a second interpreter for each program costs four times the
confinement itself. A request is a message that says nothing, with descriptors: of the program's three streams, of the socket
on which its supervisor reports (program_supervisor.py), of the job, and of a plain program's folder. Only the
supervisor reads the job: a sandboxed program may run in a fork of this process, and would find in its memory what
this process has read for others.
"""

import array
import contextlib
import gc
import json
import os
import select
import signal
import socket
from types import FrameType

from . import confine
from .program_supervisor import ProgramSupervisor
from .syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl, set_name

DESCRIPTORS = 5
"""stdin, stdout, stderr, the supervisor's end of its socket and the job; a folder may follow."""


def main(arguments: list[int]) -> None:
    """Serve requests until the socket closes. Arguments: its descriptor, the pid of the server."""
    descriptor, parent = arguments
    set_name("tbx-zygote")
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    # Whatever outlives its supervisor comes here, and is ended here.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.environ.clear()
    requests = socket.socket(fileno=descriptor)
    woken, wake = os.pipe()
    for fd in (woken, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _noticed)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    supervisors: set[int] = set()
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(woken, select.POLLIN)
    for metadata, network in ((False, False), (True, False)):
        # Built here once, instead of in each program; where there is none, each program says so.
        with contextlib.suppress(OSError):
            confine.filter_for(metadata=metadata, network=network)
    gc.collect()
    gc.freeze()
    requests.send(b"{}")
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if woken in ready:
            os.read(woken, 4096)
            _reap(supervisors)
        if requests.fileno() not in ready:
            continue
        descriptors = _receive(requests)
        if not descriptors:
            return
        supervisors.add(_start(descriptors, [requests.fileno(), woken, wake]))


def _start(descriptors: list[int], ours: list[int]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            for fd in ours:
                os.close(fd)
            control = socket.socket(fileno=descriptors[3])
            with open(descriptors[4], "rb") as file:
                job = json.load(file)
            ProgramSupervisor(job, descriptors[:3], control, next(iter(descriptors[5:]), None)).run()
        finally:
            os._exit(1)
    for fd in descriptors:
        os.close(fd)
    return pid


def _reap(supervisors: set[int]) -> None:
    """Collect ended supervisors, and end what a supervisor left when it was killed itself."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            break
        supervisors.discard(pid)
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        strays = set(map(int, file.read().split())) - supervisors
    for pid in strays:
        os.kill(pid, signal.SIGKILL)


def _receive(requests: socket.socket) -> list[int]:
    """Return the descriptors of a request; none where the server is gone."""
    passed = array.array("i")
    room = socket.CMSG_SPACE((DESCRIPTORS + 1) * passed.itemsize)
    try:
        _, ancillary, _, _ = requests.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            passed.frombytes(content[: len(content) - len(content) % passed.itemsize])
    return list(passed) if len(passed) >= DESCRIPTORS else []


def _noticed(number: int, frame: FrameType | None) -> None:
    """Let SIGCHLD write to the wake-up pipe, which only a signal with a handler does."""
