"""The keeper of one sandboxed program: sets the sandbox up, waits, reports, and leaves nothing of it alive.

It speaks over a socket in JSON objects: {"keeper", "helpers"} with the pids that are not the program's own and,
beside the host's processes, {"program"} with the one that is,
{"ready"} with a descriptor of the scratch folder, {"error"} where the sandbox could not be set up, and
{"ended", "cpu", "peak"} with the wait status. When the other side of the socket closes, everything ends.
"""

import array
import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..process import tree
from . import confine, namespaces, privileges, rlimits, seccomp, snippet
from .syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_PDEATHSIG, prctl

SCRATCH = "/tmp"  # noqa: S108 - the sandbox's own
READY_FD, GO_FD, FILTER_FD, INFO_FD = 3, 4, 10, 11
"""Descriptors that bubblewrap is started with; the first two reach the gate in front of the program."""

_STATUS_SIZE = 4
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Keeper:
    """Runs one job. mode: namespaces, landlock or bubblewrap."""

    def __init__(self, job: dict[str, Any], streams: list[int], control: socket.socket) -> None:
        """Take the job's streams (stdin, stdout, stderr) and the socket to report on."""
        self.job = job
        self.streams = streams
        self.control = control
        self.status_pipe: int | None = None
        self.root = privileges.can_become(job["uid"])

    def run(self) -> NoReturn:
        """Do all of it and exit."""
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.umask(0o022)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("500")
        start = {"namespaces": self._in_namespaces, "landlock": self._beside, "bubblewrap": self._in_bubblewrap}
        try:
            if not self.root:
                privileges.refuse_real_root()
            child = start[self.job["mode"]]()
            self._attend(child)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the one who asked hears of it
            self._fail(failure)
        finally:
            self._end_all()
        os._exit(0)

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
        self._send({"keeper": os.getpid(), "helpers": [child]})
        os.set_blocking(status, False)
        self.status_pipe = status
        return child

    def _first(self, status: int, report: int) -> NoReturn:
        """Be pid 1: build the root, start the program, reap until it ends."""
        os.close(status)
        flags = namespaces.NEWNS | namespaces.NEWIPC | namespaces.NEWUTS | namespaces.NEWCGROUP
        namespaces.unshare(flags if self.job["network"] else flags | namespaces.NEWNET)
        socket.sethostname("sandbox")
        namespaces.build_root(
            self.job["read"],
            self.job["write"],
            self.job["links"],
            disk=self.job["disk"],
            shared=self.job["shared"],
            inodes=self.job["inodes"],
        )
        scratch = os.open(SCRATCH, _FOLDER)
        if self.root:
            confine.become(self.job["uid"])
        # Pid 1 cannot ask for its parent; that the pipe to it has no reader says the same.
        keeper = select.poll()
        keeper.register(report, 0)
        if keeper.poll(0):
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
        self._send({"keeper": os.getpid(), "helpers": [], "program": child})
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
            self._reap(child)
            raise OSError(errno.EPERM, "bubblewrap may not set its sandbox up here")
        first = int(json.loads(text)["child-pid"])
        scratch = os.open(f"/proc/{first}/root{SCRATCH}", _FOLDER)
        self._send({"keeper": os.getpid(), "helpers": [child, first]})
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

    def _attend(self, child: int) -> None:
        """Wait for the end of the program or of the one who asked for it, and report."""
        handle = os.pidfd_open(child)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        wake = self._wake_on_orphans()
        poll.register(wake, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if handle in ready:
                break
            if self.control.fileno() in ready:
                os.kill(child, signal.SIGKILL)
                poll.unregister(self.control)
            if wake in ready:
                os.read(wake, 4096)
                self._reap_orphans(child)
        status = self._reap(child)
        self._end_all()
        # bubblewrap does not wait for what it started: it is among what was just ended.
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        message = {"ended": status, "cpu": round(used.ru_utime + used.ru_stime, 4), "peak": used.ru_maxrss * 1024}
        self._send(message)

    def _wake_on_orphans(self) -> int:
        woken, wake = os.pipe()
        for fd in (woken, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        return woken

    def _reap_orphans(self, child: int) -> None:
        for pid in tree.children(os.getpid()):
            if pid != child:
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)

    def _reap(self, child: int) -> int:
        _, status = os.waitpid(child, 0)
        if self.status_pipe is not None:
            with contextlib.suppress(OSError):
                told = os.read(self.status_pipe, _STATUS_SIZE)
                status = int.from_bytes(told, sys.byteorder) if len(told) == _STATUS_SIZE else status
        return status

    def _end_all(self) -> None:
        """Kill until there is no child left; as a subreaper the keeper has them all."""
        while True:
            try:
                ended, _ = os.waitpid(-1, os.WNOHANG)
                if ended == 0:
                    for process in tree.descendants(os.getpid()):
                        if not process.dead:
                            tree.kill(process)
                    os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _fork(self, run: Callable[[], NoReturn]) -> int:
        keeper = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() not in (keeper, 0):
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
