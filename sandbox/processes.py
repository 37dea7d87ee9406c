"""The registry of background processes: who owns which, and what becomes of them."""

import asyncio
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..safety.errors import Code, ToolError
from ..safety.path_jail.roots import JailedPath
from .isolate.worker import Worker
from .process.background import TERM_SECONDS, BackgroundProcess, Output, Status, start_background
from .process.pattern import Pattern
from .programs import Programs, entered

KEPT = 50
"""Ended processes of one owner that stay listed; the oldest leaves first. One that left something behind stays."""

CLOSING_SECONDS = 0.2
"""Seconds between SIGTERM and SIGKILL when the server ends."""

WAIT_FOR_SECONDS = 30.0
"""How long a read waits for a pattern when nothing else is said."""


@dataclass(frozen=True)
class Listed:
    """One row of the list; age in seconds since the start, command as a shell would take it."""

    id: str
    name: str | None
    status: Status
    pid: int
    age_seconds: float
    exit_code: int | None
    command: str


@dataclass(frozen=True)
class _Entry:
    id: str
    name: str | None
    command: str
    process: BackgroundProcess


class Processes:
    """Every background process of the server. Ids are never used twice."""

    def __init__(
        self,
        worker: Worker,
        programs: Programs,
        *,
        limit: int = 8,
        memory: int | None = None,
        pattern_seconds: float = 2.0,
    ) -> None:
        """Start nothing yet.

        worker searches for patterns, each search within pattern_seconds. programs: which there are. limit: how many
        may live at a time. memory: bytes of data segment of each process, None for no limit.
        """
        self._worker = worker
        self._programs = programs
        self._limit = limit
        self._memory = memory
        self._pattern_seconds = pattern_seconds
        self._on_output: Callable[[str, str, str], None] | None = None
        self._owners: dict[str, dict[str, _Entry]] = {}
        self._last = 0
        self._starting = 0
        self._closed = False
        self._ending: set[asyncio.Task[None]] = set()

    def of(self, owner: str) -> "OwnedProcesses":
        """Return the processes as one owner sees them."""
        return OwnedProcesses(self, owner)

    def when_output(self, on_output: Callable[[str, str, str], None]) -> None:
        """Call on_output with owner, process id and stream whenever there is something to read, also for the end."""
        self._on_output = on_output

    async def end_owner(self, owner: str, grace: float = TERM_SECONDS) -> None:
        """End everything that an owner started."""
        entries = self._owners.get(owner, {})
        await asyncio.gather(*(entry.process.kill(grace) for entry in tuple(entries.values())))
        self._owners.pop(owner, None)

    def drop(self, owner: str) -> None:
        """Begin to end everything that an owner started, without waiting for it."""
        if self._owners.get(owner):
            task = asyncio.get_running_loop().create_task(self.end_owner(owner))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def aclose(self) -> None:
        """End everything; nothing starts any more."""
        self._closed = True
        for task in self._ending:
            task.cancel()
        await asyncio.gather(*(self.end_owner(owner, CLOSING_SECONDS) for owner in tuple(self._owners)))

    async def start(
        self,
        owner: str,
        argv: Sequence[str],
        *,
        name: str | None,
        stdin: bool,
        pty: bool,
        work_dir: JailedPath | None = None,
        env: Mapping[str, str] | None = None,
    ) -> _Entry:
        """Start a process for an owner, in the base where work_dir is None; env comes above that of all programs."""
        if self._closed:
            raise ToolError(Code.CANCELLED, "the server is shutting down")
        live = self._starting + sum(
            entry.process.is_alive for entries in self._owners.values() for entry in entries.values()
        )
        if live >= self._limit:
            raise ToolError(
                Code.TOO_MANY_PROCESSES,
                f"{live} background processes are running, which is the most there may be",
                "end one with process_kill",
            )
        self._last += 1
        id_ = f"proc_{self._last}"
        self._starting += 1
        try:
            with entered(work_dir) as cwd:
                folder = str(work_dir.target().path) if work_dir else None
                path, base = self._programs.find(argv[0], folder)
                process = await start_background(
                    self._programs.zygote,
                    [path, *argv[1:]],
                    cwd=self._programs.cwd if cwd is None else cwd,
                    # Else what a program in Python says comes when its buffer is full.
                    env={"PYTHONUNBUFFERED": "1", **base, **(env or {})},
                    memory=self._memory,
                    stdin=stdin,
                    pty=pty,
                    on_output=lambda stream: self._tell(owner, id_, stream),
                )
        finally:
            self._starting -= 1
        if self._closed:
            await process.kill(CLOSING_SECONDS)
            raise ToolError(Code.CANCELLED, "the server is shutting down")
        entries = self._owners.setdefault(owner, {})
        entries[id_] = entry = _Entry(id_, name, shlex.join(argv), process)
        ended = sorted((e for e in entries.values() if not e.process.is_alive), key=lambda e: e.process.ended or 0)
        for old in ended[: max(0, len(ended) - KEPT)]:
            self.forget(owner, old.id)
        return entry

    def entries(self, owner: str) -> list[_Entry]:
        """Return the processes of an owner, oldest first."""
        return list(self._owners.get(owner, {}).values())

    def find(self, owner: str, id_: str) -> _Entry:
        """Return a process of an owner by its id or name; ToolError(unknown_process) for any other."""
        entries = self._owners.get(owner, {})
        named = [entry for entry in entries.values() if entry.name == id_]
        try:
            # Of several with one name the latest is meant.
            return entries[id_] if id_ in entries else named[-1]
        except IndexError:
            raise ToolError(
                Code.UNKNOWN_PROCESS, f"there is no process {id_}", "process_list shows those there are"
            ) from None

    def forget(self, owner: str, id_: str) -> None:
        """Take a process off the list."""
        entries = self._owners.get(owner, {})
        entries.pop(id_, None)

    def pattern(self, text: str) -> Pattern:
        """Return a pattern to wait for."""
        return Pattern(self._worker, text, self._pattern_seconds)

    def _tell(self, owner: str, id_: str, stream: str) -> None:
        if self._on_output:
            self._on_output(owner, id_, stream)


class OwnedProcesses:
    """The processes of one owner, which are all that it can name."""

    def __init__(self, all_: Processes, owner: str) -> None:
        """Look at the registry through the eyes of owner."""
        self._all = all_
        self._owner = owner

    async def start(
        self,
        argv: Sequence[str],
        *,
        name: str | None = None,
        stdin: bool = False,
        pty: bool = False,
        work_dir: JailedPath | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Listed:
        """Start a process. ToolError: too_many_processes, unavailable, unsupported_platform, not_a_directory."""
        started = await self._all.start(self._owner, argv, name=name, stdin=stdin, pty=pty, work_dir=work_dir, env=env)
        return _row(started)

    async def output(self, id_: str, wait: float = 0, wait_for: str | None = None) -> Output:
        """Return the output since the last read, and forget it.

        wait: seconds to wait for any output, or with wait_for (a regular expression) for output that matches.
        ToolError: unknown_process, bad_pattern, regex_timeout.
        """
        entry = self._all.find(self._owner, id_)
        if wait_for is None:
            return await entry.process.output(wait, None)
        pattern = await self.check_pattern(wait_for)
        return await entry.process.output(wait or WAIT_FOR_SECONDS, pattern.found)

    async def check_pattern(self, text: str) -> Pattern:
        """Return a pattern to wait for; ToolError(bad_pattern) where it is none."""
        pattern = self._all.pattern(text)
        await pattern.check()
        return pattern

    async def write(self, id_: str, data: bytes, *, end: bool = False) -> int:
        """Give a process input; return how many bytes. ToolError: unknown_process, refused, timeout."""
        entry = self._all.find(self._owner, id_)
        await entry.process.write(data, end=end)
        return len(data)

    def list(self) -> list[Listed]:
        """Return the processes, oldest first."""
        return ProcessRows(self._all, self._owner).list()

    async def kill(self, id_: str) -> tuple[bool, Output]:
        """End a process with all it started and forget it; whether it was running, and its unread output."""
        entry = self._all.find(self._owner, id_)
        running = await entry.process.kill()
        output = entry.process.take()
        self._all.forget(self._owner, entry.id)
        return running, output

    def peek(self, id_: str, stream: str) -> str:
        """Return the unread output of a stream without taking it."""
        return self._all.find(self._owner, id_).process.peek(stream)


class ProcessRows:
    """The list of the processes of one owner."""

    def __init__(self, all_: Processes, owner: str) -> None:
        """Look at the registry through the eyes of owner."""
        self._all = all_
        self._owner = owner

    def list(self) -> list[Listed]:
        """Return the processes, oldest first."""
        return [_row(entry) for entry in self._all.entries(self._owner)]


def _row(entry: _Entry) -> Listed:
    process = entry.process
    age = round(time.monotonic() - process.started, 1)
    return Listed(entry.id, entry.name, process.status, process.pid, age, process.exit_code, entry.command)
