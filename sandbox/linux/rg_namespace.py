"""The server's side of a view: starts the process that enters it, and gives it orders."""

import array
import asyncio
import contextlib
import errno
import json
import os
import resource
import select
import socket
import subprocess
from collections.abc import Sequence
from typing import Any

from ..process import tree
from ..process.child import ChildProcess, Ended, NotStarted, Started, ended_with, read_ready
from ..process.tree import FILE_LOCKS
from . import bootstrap
from .rg_landlock import LIBRARIES, is_static
from .rg_namespace_process import LARGEST_ORDER, NUMBER

_MODULE = "toolbox_mcp.sandbox.linux.rg_namespace_process"
_START = 10.0  # seconds; a guess, for a machine that is some hundred times slower than usual
_SILENT = "it does not answer, or has ended"
_ANSWER = 2.0  # seconds in which a process that is not stopped has started a program; a guess


class View:
    """Starts a program where only some folders are, read-only. It stands some 30 ms after it is made, or never.

    folders: descriptors, used while this is made and not after. Make it in a coroutine, on the main thread. Raises
    ToolError where no process can be started.
    """

    def __init__(self, folders: Sequence[int], program: str | os.PathLike[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders.setblocking(False)
        program = os.fspath(program)
        arguments = {
            "socket": theirs.fileno(),
            "parent": os.getpid(),
            "folders": [[_path(fd), *_identity(fd)] for fd in folders],
            "program": program,
            "libraries": [] if is_static(program) else list(LIBRARIES),
        }
        self.trouble: str | None = None
        self._stands = self._stood = False
        self._settled: asyncio.Future[None] = self._loop.create_future()
        try:
            self._process: ChildProcess | None = bootstrap.start(_MODULE, arguments, pass_fds=(theirs.fileno(),))
        except BaseException:
            self._orders.close()
            raise
        finally:
            theirs.close()
        self._timer = self._loop.call_later(_START, self._settle, "it does not come up")
        self._loop.add_reader(self._orders, self._greeted)

    @property
    def stands(self) -> bool:
        """Return True if programs can be started. Once that was so and is no longer, trouble says why."""
        return self._stands

    @property
    def lost(self) -> bool:
        """Return True if it stood and does no longer."""
        return self._stood and not self._stands

    @property
    def pid(self) -> int | None:
        """The process in the view, None where there is none any more."""
        return self._process.pid if self._process else None

    async def settled(self) -> None:
        """Wait until it stands, or is known not to."""
        if not self._settled.done():
            await asyncio.wait([self._settled])

    def start(self, argv: Sequence[str], *, rules: bytes = b"", **options: Any) -> Started:
        """Start the program as subprocess.Popen does, of whose arguments it takes those that spawn() gives.

        rules: the content of a file that argv names by --ignore-file. Blocks for some tenths of a millisecond.
        Raises NotStarted; ValueError for arguments that no program can be given.
        """
        if not self._stands:
            raise NotStarted(self.trouble or "it does not stand yet")
        if b"\0" in os.fsencode("".join(argv)):
            raise ValueError("embedded null byte")
        with contextlib.ExitStack() as ours:
            with contextlib.ExitStack() as theirs:
                report, reported = _pipe(ours, theirs)
                if options["stdin"] == subprocess.PIPE:
                    source, feed = _pipe(theirs, ours)
                    os.set_blocking(feed, False)
                else:
                    source, feed = _owned(theirs, os.open(os.devnull, os.O_RDONLY)), None
                stdout, out = _pipe(ours, theirs)
                stderr, err = _pipe(ours, theirs)
                os.set_blocking(stdout, False)
                os.set_blocking(stderr, False)
                given = [reported, source, out, err]
                if rules:
                    given.append(_owned(theirs, bootstrap.in_memory(rules)))
                order = {
                    "argv": list(argv),
                    "env": dict(options["env"]),
                    **_folder(options["cwd"]),
                    "locks": resource.getrlimit(FILE_LOCKS)[0],
                    "descriptors": len(given),
                }
                self._send(json.dumps(order).encode(), given)
            said = _said(report, _ANSWER)
            if said is None:
                self.lose(_SILENT)
                raise NotStarted(_SILENT)
            if said < 0:
                raise NotStarted(os.strerror(-said))
            ours.pop_all()
            return _Child(self, said, report, feed, stdout, stderr)

    async def aclose(self) -> None:
        """End the process. What it started goes on."""
        self.lose("closed")
        process, self._process = self._process, None
        if process is not None:
            await process.bury()

    def lose(self, why: str) -> None:
        """Start nothing any more."""
        self._timer.cancel()
        self._stands = False
        self.trouble = self.trouble or why
        if self._orders.fileno() >= 0:
            self._loop.remove_reader(self._orders)
            self._orders.close()
        if not self._settled.done():
            self._settled.set_result(None)

    def _send(self, order: bytes, descriptors: list[int]) -> None:
        if len(order) > LARGEST_ORDER:
            raise NotStarted(os.strerror(errno.E2BIG))
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            self._orders.sendmsg([order], passed)
        except OSError as failure:
            if failure.errno != errno.EMSGSIZE:
                self.lose(failure.strerror or str(failure))
            raise NotStarted(failure.strerror or str(failure)) from None

    def _greeted(self) -> None:
        with contextlib.suppress(OSError):
            if self._orders.recv(16):
                self._settle(None)
                return
        said = read_ready(self._process.stderr, 4096) if self._process and self._process.stderr is not None else None
        self._settle((said or b"").decode("utf-8", "replace").strip().rpartition("\n")[2][-300:] or "it has ended")

    def _settle(self, trouble: str | None) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._orders)
        if trouble is None:
            self._stands = self._stood = True
        else:
            self.lose(trouble)
        if not self._settled.done():
            self._settled.set_result(None)


class _Child:
    """A program that the process in the view has started, and collects when this lets go of the report."""

    def __init__(self, view: View, pid: int, report: int, stdin: int | None, stdout: int, stderr: int) -> None:
        self._view = view
        self.pid = pid
        self.stdin = stdin
        self.stdout: int | None = stdout
        self.stderr: int | None = stderr
        self._report = report

    def is_over(self) -> bool:
        """Return True if its end was told, or nothing more will be."""
        return _says(self._report, 0)

    def collect(self) -> Ended | None:
        """Have it collected. Its end is told when its pidfd tells of it, or a moment later."""
        # A view that is lost may be stopped; waiting for it once is enough.
        due = self._view.stands and (self.is_over() or self._is_dead())
        code = _said(self._report, _ANSWER if due else 0)
        os.close(self._report)
        if due and code is None:
            self._view.lose(_SILENT)
        return None if code is None else ended_with(code)

    def _is_dead(self) -> bool:
        seen = tree.look(self.pid)
        return seen is None or seen.dead


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """Make a pipe, whose ends these will close."""
    out, into = os.pipe()
    return _owned(reader, out), _owned(writer, into)


def _owned(owner: contextlib.ExitStack, fd: int) -> int:
    owner.callback(os.close, fd)
    return fd


def _folder(cwd: str) -> dict[str, Any]:
    """Return the words of a request about the folder behind /proc/self/fd/N. Raises NotStarted for a path that is too long."""
    try:
        seen = os.stat(cwd)
        return {"cwd": os.readlink(cwd), "folder": [seen.st_dev, seen.st_ino]}
    except OSError as failure:
        raise NotStarted(failure.strerror or str(failure)) from None


def _said(report: int, seconds: float) -> int | None:
    """Return the next number of a report; None where none comes in time, or ever."""
    if not _says(report, seconds):
        return None
    said = os.read(report, NUMBER.size)
    return int(NUMBER.unpack(said)[0]) if said else None


def _says(report: int, seconds: float) -> bool:
    """Return True if a number comes in time, or nobody is left who would say one."""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _path(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def _identity(fd: int) -> tuple[int, int]:
    seen = os.fstat(fd)
    return seen.st_dev, seen.st_ino
