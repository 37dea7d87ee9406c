"""The process that starts one program in a view: a file system that holds some folders, read-only, and the program.

Where no path leads outside, no open has to be judged: Landlock does that for each file, and a search opens many. The
server has threads, and the kernel gives a user namespace only to a process without; so one process enters the view, and
starts the program there for each order that comes over a socket: a JSON object with descriptors, a pipe for what there is
to say, the program's streams, and maybe rules for it to heed. It writes the program's pid or, where it cannot be started, an
errno below zero; and in the end its exit status or, below zero, the signal that ended it. A program that has ended stays a
zombie until nobody reads the pipe any more.
"""

import array
import contextlib
import errno
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..process.tree import FILE_LOCKS
from . import landlock, namespaces, privileges
from .landlock import Right
from .syscalls import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl

LARGEST_ORDER = 192 * 1024
DESCRIPTORS = 4
"""The pipe, stdin, stdout and stderr."""
NUMBER = struct.Struct("=i")
"""What is told of a program."""
RULES = "/.rules"
"""Where the view has the rules that came with orders, as numbered files."""

_RULES_SIZE = 64 << 20  # bytes; a guess at far more than searches at a time have of them
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)
"""Signals that Python or this process ignores, and a program should not."""


def main(arguments: Mapping[str, Any]) -> None:
    """Enter the view, say so, and serve orders until the socket closes.

    socket: its descriptor. parent: the pid of the server. folders: [path, device, inode] of each. program: its path.
    libraries: what it is run with.
    """
    parent = arguments["parent"]
    orders = socket.socket(fileno=arguments["socket"])
    orders.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _enter(arguments)
    # What changes a process's rights makes the kernel forget this.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    gc.collect()
    gc.freeze()
    orders.send(b"{}")
    _View(orders, arguments["program"]).serve()


def _enter(arguments: Mapping[str, Any]) -> None:
    kinds = namespaces.NEWNS | namespaces.NEWIPC | namespaces.NEWUTS | namespaces.NEWNET | namespaces.NEWCGROUP
    keep: tuple[int, ...] = ()
    if os.geteuid() == 0:
        # In a user namespace root would be nobody to the files of others, and find less than the server reads.
        namespaces.unshare(kinds)
        keep = (privileges.CAP_DAC_OVERRIDE,)
    else:
        if _has_capabilities():
            raise PermissionError(errno.EPERM, "in a user namespace the capabilities of this user are gone")
        outer = os.geteuid(), os.getegid()
        namespaces.unshare(namespaces.NEWUSER | kinds)
        namespaces.map_user(*outer, outer[0])
    folders = [path for path, _, _ in arguments["folders"]]
    namespaces.build_view(folders, [*arguments["libraries"], arguments["program"]], RULES, _RULES_SIZE)
    for path, device, inode in arguments["folders"]:
        there = os.stat(path)
        if (there.st_dev, there.st_ino) != (device, inode):
            raise FileNotFoundError(errno.ESTALE, os.strerror(errno.ESTALE), path)
    os.umask(0o077)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    privileges.drop_capabilities(keep)
    if landlock.abi():
        # Reading is not handled, so that no open is judged; what is mounted below a folder later may be writable.
        changes = landlock.EVERYTHING & ~(landlock.READ | Right.TRUNCATE | Right.IOCTL_DEV)
        landlock.restrict([(RULES, landlock.CHANGE)], handled=changes)


def _has_capabilities() -> bool:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return any(line.startswith("CapEff:") and int(line.split()[1], 16) for line in file)


@dataclass
class _Running:
    """A program. report: the pipe for what there is to say of it. rules: the file that was made for it."""

    pid: int
    report: int
    rules: str | None
    ended: bool = False
    awaited: bool = True


class _View:
    """Starts the program, tells of its end, and collects it when that was read."""

    def __init__(self, orders: socket.socket, program: str) -> None:
        self._orders = orders
        self._program = program
        self._made = 0
        self._running: dict[int, _Running] = {}
        self._poll = select.poll()
        self._poll.register(orders, select.POLLIN)
        # Room for the largest takes longer to make than an order to read.
        self._room = bytearray(LARGEST_ORDER)

    def serve(self) -> None:
        """Do what is asked until the socket closes."""
        while True:
            for fd, event in self._poll.poll():
                if running := self._running.get(fd):
                    self._look(fd, running)
                elif event & select.POLLIN:
                    order, descriptors = _receive(self._orders, self._room)
                    if order is None:
                        return
                    self._start(order, descriptors)
                else:
                    return

    def _start(self, order: Mapping[str, Any], descriptors: list[int]) -> None:
        if not descriptors:
            return  # dropped, as below; nobody is left to be told
        report, *streams = descriptors[:DESCRIPTORS]
        rules = descriptors[DESCRIPTORS:]
        path: str | None = None
        try:
            if len(descriptors) != order["descriptors"]:
                # The rest was dropped, as this process may have no more open.
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            if rules:
                self._made += 1
                path = f"{RULES}/{self._made}"
                _copy(rules[0], path)
            pid, handle = self._begun(order, streams, path)
        except OSError as failure:
            if path:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            with contextlib.suppress(BrokenPipeError):
                os.write(report, NUMBER.pack(-(failure.errno or errno.EIO)))
            os.close(report)
            return
        finally:
            for fd in (*streams, *rules):
                os.close(fd)
        with contextlib.suppress(BrokenPipeError):
            os.write(report, NUMBER.pack(pid))
        running = _Running(pid, report, path)
        self._running |= {handle: running, report: running}
        self._poll.register(handle, select.POLLIN)
        # Without a reader it is in error, which is always told.
        self._poll.register(report, 0)

    def _begun(self, order: Mapping[str, Any], streams: list[int], rules: str | None) -> tuple[int, int]:
        """Start the program in its folder; return its pid and a pidfd."""
        try:
            os.chdir(order["cwd"])
            here = os.stat(".")
            if [here.st_dev, here.st_ino] != order["folder"]:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            pid = self._spawned(order, streams, rules)
        finally:
            # What is mounted there could not be unmounted else.
            os.chdir("/")
        try:
            return pid, os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    def _spawned(self, order: Mapping[str, Any], streams: list[int], rules: str | None) -> int:
        name, *argv = order["argv"]
        mine = resource.getrlimit(FILE_LOCKS)
        resource.setrlimit(FILE_LOCKS, (order["locks"], mine[1]))
        try:
            return os.posix_spawn(
                self._program,
                [name, *([f"--ignore-file={rules}"] if rules else []), *argv],
                order["env"],
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate(streams)],
                setsid=True,
                setsigdef=_RESTORED,
            )
        finally:
            resource.setrlimit(FILE_LOCKS, mine)

    def _look(self, fd: int, running: _Running) -> None:
        """Take note of what happened to a program, or to the reader of its pipe."""
        self._poll.unregister(fd)
        del self._running[fd]
        if fd == running.report:
            running.awaited = False
        else:
            os.close(fd)
            running.ended = True
            seen = os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
            assert seen is not None
            exited = seen.si_code == os.CLD_EXITED
            with contextlib.suppress(BrokenPipeError):
                os.write(running.report, NUMBER.pack(seen.si_status if exited else -seen.si_status))
        if running.ended and not running.awaited:
            os.waitpid(running.pid, 0)
            os.close(running.report)
            if running.rules:
                os.unlink(running.rules)


def _copy(fd: int, path: str) -> None:
    with open(fd, "rb", closefd=False) as source, open(path, "xb") as file:
        file.write(source.read())


def _receive(orders: socket.socket, room: bytearray) -> tuple[dict[str, Any] | None, list[int]]:
    passed = array.array("i")
    beside = socket.CMSG_SPACE((DESCRIPTORS + 1) * passed.itemsize)
    try:
        size, ancillary, _, _ = orders.recvmsg_into([room], beside, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None, []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            passed.frombytes(content[: len(content) - len(content) % passed.itemsize])
    return (json.loads(room[:size]) if size else None), list(passed)
