"""The process that starts sandboxed programs: single-threaded, with an empty environment, so that it can fork.

    server -> launcher -> keeper (one a program) -> the confined program

A server with threads cannot fork safely, and a second interpreter for each program costs four times the
confinement itself. Requests come over a socket: a JSON object with the descriptors of the program's streams and
of a socket on which the keeper reports (keeper.py).
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
from .keeper import Keeper
from .syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl

LARGEST_REQUEST = 128 * 1024
DESCRIPTORS = 4
"""stdin, stdout, stderr and the keeper's end of its socket."""


def main(arguments: list[int]) -> None:
    """Serve requests until the socket closes. Arguments: its descriptor, the pid of the server."""
    descriptor, parent = arguments
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    # Whatever outlives its keeper comes here, and is ended here.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    os.environ.clear()
    requests = socket.socket(fileno=descriptor)
    woken, wake = os.pipe()
    for fd in (woken, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _noticed)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keepers: set[int] = set()
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
            _reap(keepers)
        if requests.fileno() not in ready:
            continue
        job, descriptors = _receive(requests)
        if job is None:
            return
        keepers.add(_start(job, descriptors, [requests.fileno(), woken, wake]))


def _start(job: bytes, descriptors: list[int], ours: list[int]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            for fd in ours:
                os.close(fd)
            Keeper(json.loads(job), descriptors[:3], socket.socket(fileno=descriptors[3])).run()
        finally:
            os._exit(1)
    for fd in descriptors:
        os.close(fd)
    return pid


def _reap(keepers: set[int]) -> None:
    """Collect ended keepers, and end what a keeper left when it was killed itself."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            break
        keepers.discard(pid)
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        strays = set(map(int, file.read().split())) - keepers
    for pid in strays:
        os.kill(pid, signal.SIGKILL)


def _receive(requests: socket.socket) -> tuple[bytes | None, list[int]]:
    passed = array.array("i")
    room = socket.CMSG_SPACE((DESCRIPTORS + 1) * passed.itemsize)
    try:
        data, ancillary, _, _ = requests.recvmsg(LARGEST_REQUEST, room, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None, []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            passed.frombytes(content[: len(content) - len(content) % passed.itemsize])
    if not data or len(passed) not in (DESCRIPTORS, DESCRIPTORS + 1):
        return None, []
    descriptors = list(passed)
    if len(descriptors) > DESCRIPTORS:
        # A job too long for a message.
        with open(descriptors.pop(), "rb") as file:
            data = file.read()
    return data, descriptors


def _noticed(number: int, frame: FrameType | None) -> None:
    """Let SIGCHLD write to the wake-up pipe, which only a signal with a handler does."""
