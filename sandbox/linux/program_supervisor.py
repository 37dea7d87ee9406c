"""The supervisor of one program: starts it, waits, reports, and leaves nothing of it alive.

    server -> zygote -> supervisor (one a program) -> the program, plain or in a sandbox

A subreaper inherits every process whose parent ends, so all that a program ever starts stays below its supervisor,
and it is over when the kernel says that no child is left (ECHILD), not when a look found none.

It speaks over a socket in JSON objects: {"supervisor", "helpers"} with the pids that are not the program's own and,
beside the host's processes, {"program"} with the one that is, {"ready"}, with a descriptor of the scratch folder of
a sandbox, {"error", "errno", "step"} where the program could not be started, and {"ended", "cpu", "peak"} with the
wait status: of a plain program when it ends, of a sandboxed one when nothing of it is left. It hears TERMINATE and
KILL. When the other side closes, the server is gone, and everything ends.
"""

import array
import contextlib
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..process import tree
from . import confine, namespaces, privileges, rlimits, seccomp, snippet
from .syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_PDEATHSIG, prctl, set_name

SCRATCH = "/tmp"  # noqa: S108 - the sandbox's own
READY_FD, GO_FD, FILTER_FD, INFO_FD = 3, 4, 10, 11
"""Descriptors that bubblewrap is started with; the first two reach the gate in front of the program."""

TERMINATE, KILL = b"terminate", b"kill"
"""What a supervisor is asked for: SIGTERM for all that the program started, or the end of it."""

ORPHAN_GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL for a plain program whose server is gone. 2 s are promised for all of it."""

_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_STATUS_SIZE = 4
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class ProgramSupervisor:
    """Runs one job. mode: plain, namespaces, landlock or bubblewrap."""

    def __init__(self, job: dict[str, Any], streams: list[int], control: socket.socket, folder: int | None) -> None:
        """Take the job's streams (stdin, stdout, stderr), the socket to report on, and a plain program's folder."""
        self.job = job
        self.streams = streams
        self.control = control
        self.folder = folder
        self.plain = job["mode"] == "plain"
        self.root = not self.plain and privileges.can_become(job["uid"])
        self.child = 0
        self.status: int | None = None
        self.status_pipe: int | None = None

    def run(self) -> NoReturn:
        """Do all of it and exit."""
        set_name("tbx-supervisor")
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        if not self.plain:
            # Beside a server that is gone a plain program is asked to end before it is killed, which takes a supervisor.
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            os.umask(0o022)
            with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
                score.write("500")
        start = {
            "plain": self._plain,
            "namespaces": self._in_namespaces,
            "landlock": self._beside,
            "bubblewrap": self._in_bubblewrap,
        }
        try:
            if not self.root and not self.plain:
                privileges.refuse_real_root()
            self.child = start[self.job["mode"]]()
            self._attend()
        except Exception as failure:  # noqa: BLE001 - whatever it is, the one who asked hears of it
            self._fail(failure)
        finally:
            tree.kill_children(self._reap)
        os._exit(0)

    def _plain(self) -> int:
        """Start the program as the server itself would, in a session of its own."""
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _IGNORED}
        report, report_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                self._become_plain(handlers, report_end)
            finally:
                os._exit(126)
        os.close(report_end)
        self._let_go()
        with open(report, "rb") as file:
            # It is closed by exec, or tells what went wrong.
            failed = file.read()
        if failed:
            os.waitpid(child, 0)
            self._send(json.loads(failed))
            os._exit(0)
        self._send({"supervisor": os.getpid(), "helpers": [], "program": child})
        self._send({"ready": True})
        return child

    def _become_plain(self, handlers: Mapping[signal.Signals, Any], report: int) -> None:
        step = "program"
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            confine.restore_signals()
            os.setsid()
            if self.job["terminal"]:
                fcntl.ioctl(self.streams[0], termios.TIOCSCTTY, 0)
            assert self.folder is not None
            step = "folder"
            os.fchdir(self.folder)
            step = "program"
            rlimits.apply(self.job["limits"])
            confine.arrange({0: self.streams[0], 1: self.streams[1], 2: self.streams[2], 3: report})
            report = 3
            os.set_inheritable(report, False)
            os.execve(self.job["program"], self.job["argv"], self.job["env"])  # noqa: S606
        except OSError as failure:
            os.write(report, json.dumps({"error": str(failure), "errno": failure.errno, "step": step}).encode())

    def _in_namespaces(self) -> int:
        """Start the program below a pid 1 of its own, and tell where its scratch folder is."""
        try:
            if not self.root:
                raise PermissionError(errno.EPERM, "not root")
            namespaces.unshare(namespaces.NEWPID)
        except OSError:
            # Root of a container may be no more than a user, and does as a user does.
            if self.root:
                confine.become(self.job["uid"])
            self.root = False
            outer = os.geteuid(), os.getegid()
            namespaces.unshare(namespaces.NEWUSER | namespaces.NEWPID)
            namespaces.map_user(*outer, self.job["uid"])
        status, report = os.pipe()
        child = self._fork(lambda: self._first(status, report))
        os.close(report)
        self._let_go()
        self._send({"supervisor": os.getpid(), "helpers": [child]})
        os.set_blocking(status, False)
        self.status_pipe = status
        return child

    def _first(self, status: int, report: int) -> NoReturn:
        """Be pid 1: build the root, start the program, reap until it ends."""
        set_name("tbx-init")
        os.close(status)
        flags = namespaces.NEWNS | namespaces.NEWIPC | namespaces.NEWUTS | namespaces.NEWCGROUP
        namespaces.unshare(flags if self.job["network"] else flags | namespaces.NEWNET)
        socket.sethostname("sandbox")
        namespaces.build_root(
            self.job["read"],
            self.job["write"],
            self.job["links"],
            protected=self.job["protected"],
            disk=self.job["disk"],
            shared=self.job["shared"],
            inodes=self.job["inodes"],
        )
        scratch = os.open(SCRATCH, _FOLDER)
        if self.root:
            confine.become(self.job["uid"])
        # Pid 1 cannot ask for its parent; that the pipe to it has no reader says the same.
        supervisor = select.poll()
        supervisor.register(report, 0)
        if supervisor.poll(0):
            os._exit(1)
        self._send({"ready": True}, scratch)
        os.close(scratch)
        program = self._fork(lambda: self._program(own_user=self.root))
        self._let_go()
        self.control.close()
        prctl(PR_SET_DUMPABLE, 0)
        privileges.drop_capabilities()
        seccomp.install(confine.filter_for(metadata=True, network=False))
        while True:
            pid, result = os.wait()
            if pid == program:
                os.write(report, result.to_bytes(_STATUS_SIZE, sys.byteorder))
                os._exit(0)

    def _beside(self) -> int:
        """Start the program among the processes of the host, in a folder made for it."""
        scratch = os.open(self.job["scratch"], _FOLDER)
        child = self._fork(self._program)
        self._let_go()
        self._send({"supervisor": os.getpid(), "helpers": [], "program": child})
        self._send({"ready": True}, scratch)
        os.close(scratch)
        return child

    def _in_bubblewrap(self) -> int:
        """Start bubblewrap, and hold its program at the gate until the rest of the sandbox stands."""
        info, info_end = os.pipe()
        ready, ready_end = os.pipe()
        go_end, go = os.pipe()
        filter_file = os.memfd_create("filter", os.MFD_CLOEXEC)
        os.write(filter_file, confine.filter_for(metadata=True, network=self.job["network"]))
        os.lseek(filter_file, 0, os.SEEK_SET)
        places = {READY_FD: ready_end, GO_FD: go_end, FILTER_FD: filter_file, INFO_FD: info_end}
        child = self._fork(lambda: self._wrapper(places))
        for fd in places.values():
            os.close(fd)
        self._let_go()
        text = self._await(info, until=b"}")
        if not self._await(ready, until=b"\n"):
            os.waitpid(child, 0)
            raise OSError(errno.EPERM, "bubblewrap may not set its sandbox up here")
        first = int(json.loads(text)["child-pid"])
        scratch = os.open(f"/proc/{first}/root{SCRATCH}", _FOLDER)
        self._send({"supervisor": os.getpid(), "helpers": [child, first]})
        self._send({"ready": True}, scratch)
        os.write(go, b"\n")
        for fd in (info, ready, go, scratch):
            os.close(fd)
        return child

    def _wrapper(self, places: Mapping[int, int]) -> NoReturn:
        if self.root:
            # Root inside bubblewrap would still be root to /proc/sys.
            namespaces.unshare(namespaces.NEWNS)
            namespaces.private()
            namespaces.uncover(self.job["uncover"], self.job["uid"])
            confine.become(self.job["uid"])
        confine.restore_signals()
        limits = {name: value for name, value in self.job["limits"].items() if name != "processes"}
        rlimits.apply_fixed()
        rlimits.apply(limits)
        confine.processors(self.job["cpus"])
        confine.arrange({0: self.streams[0], 1: self.streams[1], 2: self.streams[2], **places})
        os.execve(self.job["argv"][0], self.job["argv"], {"PATH": "/usr/bin:/bin"})  # noqa: S606

    def _program(self, *, own_user: bool = False) -> NoReturn:
        """Become the program, confined."""
        if own_user:
            # Limits on the number of processes are counted per user namespace.
            with contextlib.suppress(OSError):
                namespaces.unshare(namespaces.NEWUSER)
                namespaces.map_user(self.job["uid"], self.job["uid"], self.job["uid"])
        else:
            self.job["limits"]["processes"] += self.job["mode"] == "namespaces"  # pid 1 counts too
        os.setsid()
        control = self.control.detach()
        confine.arrange({0: self.streams[0], 1: self.streams[1], 2: self.streams[2], 3: control})
        self.control = socket.socket(fileno=3)
        os.set_inheritable(3, False)
        confine.confine(self.job)
        if self.job["in_process"]:
            self.control.close()
            snippet.run(self.job["env"])
        confine.restore_signals()
        try:
            os.execve(self.job["argv"][0], self.job["argv"], self.job["env"])  # noqa: S606
        except OSError as failure:
            self._fail(failure)
        os._exit(126)

    def _attend(self) -> None:
        """Wait for the end of the program, and for what the server asks for meanwhile; report."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        wake = self._wake_on_ends()
        poll.register(wake, select.POLLIN)
        deadline: float | None = None
        while self._reap() and (self.plain or self.status is None):
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = {fd for fd, _ in poll.poll(left)}
            if wake in ready:
                os.read(wake, 4096)
            if self.control.fileno() in ready:
                asked = self._heard()
                if asked == TERMINATE:
                    tree.terminate(os.getpid())
                elif asked or not self.plain:
                    break
                else:
                    poll.unregister(self.control)
                    tree.terminate(os.getpid())
                    deadline = time.monotonic() + ORPHAN_GRACE
            if deadline is not None and time.monotonic() >= deadline:
                break
        tree.kill_children(self._reap)
        if not self.plain and self.status is not None:
            # bubblewrap does not wait for what it started: it is among what was just ended.
            self._report(self.status, resource.getrusage(resource.RUSAGE_CHILDREN))

    def _heard(self) -> bytes:
        """Return the request of the server; nothing where it is gone."""
        try:
            return self.control.recv(64)
        except OSError:
            return b""

    def _wake_on_ends(self) -> int:
        woken, wake = os.pipe()
        for fd in (woken, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        return woken

    def _reap(self) -> bool:
        """Reap everything that has ended; return True if a child is left."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child:
                self._ended(status, used)

    def _ended(self, status: int, used: resource.struct_rusage) -> None:
        if self.status_pipe is not None:
            with contextlib.suppress(OSError):
                told = os.read(self.status_pipe, _STATUS_SIZE)
                status = int.from_bytes(told, sys.byteorder) if len(told) == _STATUS_SIZE else status
        self.status = status
        if self.plain:
            self._report(status, used)

    def _report(self, status: int, used: resource.struct_rusage) -> None:
        # A forked child starts with its parent's peak, which exec keeps: what is not above ours says nothing.
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if self.plain else 0
        peak = used.ru_maxrss * 1024 if used.ru_maxrss > ours else 0
        self._send({"ended": status, "cpu": round(used.ru_utime + used.ru_stime, 4), "peak": peak})

    def _fork(self, run: Callable[[], NoReturn]) -> int:
        supervisor = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() not in (supervisor, 0):
                os._exit(1)
            run()
        except BaseException as failure:  # noqa: BLE001 - nothing may return into the parent's code
            self._fail(failure)
        finally:
            os._exit(126)

    def _let_go(self) -> None:
        """Close the program's streams here, so that their other ends see the program's end."""
        for fd in self.streams:
            os.close(fd)
        self.streams = []

    def _await(self, fd: int, *, until: bytes) -> bytes:
        """Read up to a byte; what came is empty when the writer or the one who asked is gone."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        text = b""
        while not text.endswith(until):
            if self.control.fileno() in {ready for ready, _ in poll.poll()}:
                os._exit(1)
            data = os.read(fd, 1 if until == b"\n" else 4096)
            if not data:
                return b""
            text = (text + data).rstrip() if until != b"\n" else text + data
        return text

    def _send(self, message: Mapping[str, Any], descriptor: int | None = None) -> None:
        passed = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        with contextlib.suppress(OSError):
            self.control.sendmsg([json.dumps(message).encode()], passed)

    def _fail(self, failure: BaseException) -> None:
        number = failure.errno if isinstance(failure, OSError) else None
        self._send({"error": f"{type(failure).__name__}: {failure}", "errno": number})
