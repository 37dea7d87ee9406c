"""Programs that were started before they are needed: confined, their interpreter up, waiting for their stdin.

What a warm run saves is the start alone. A waiting program is one that its back end would have started anyway,
by the same call, and it runs one text and is gone: nothing is used twice.
"""

import asyncio
from collections import deque
from dataclasses import replace
from typing import Protocol, runtime_checkable

from ..safety.errors import ToolError
from .linux.zygote_client import SetupFailed, SupervisedProcess, unavailable
from .spec import Job, Result


@runtime_checkable
class Startable(Protocol):
    """A back end that can start a program now and bring it to its end later."""

    @property
    def name(self) -> str:
        """The runtime."""
        ...

    async def start(self, job: Job, *, ahead: bool = False) -> SupervisedProcess:
        """Start a program. Raises SetupFailed. ahead: it will wait for its stdin, for any time."""
        ...

    async def finish(self, process: SupervisedProcess, job: Job) -> Result:
        """Bring a started program to its end."""
        ...

    async def discard(self, process: SupervisedProcess) -> None:
        """End a started program that nobody needs."""
        ...


class Pool:
    """Keeps programs of one job waiting, from the first run on, until aclose()."""

    def __init__(self, backend: Startable, job: Job, size: int) -> None:
        """Start nothing yet. job: what runs, but for its stdin. size: how many wait."""
        self._backend = backend
        self._job = job
        self._size = size
        self._waiting: deque[SupervisedProcess] = deque()
        self._filling: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def waiting(self) -> tuple[int, ...]:
        """The pids of the supervisors whose programs wait, in the order in which they will be used."""
        return tuple(process.pid for process in self._waiting if process.is_alive())

    async def run(self, stdin: bytes) -> Result:
        """Run the job with a text on stdin, in a program that waits or else in a fresh one. Raises ToolError."""
        try:
            process = await self._next() or await self._backend.start(self._job)
            return await self._backend.finish(process, replace(self._job, stdin=stdin))
        except SetupFailed as failure:
            raise unavailable(self._backend.name, str(failure)) from None
        finally:
            self._refill()

    async def filled(self) -> None:
        """Wait until as many programs wait as should, or none more can be started."""
        if self._filling is not None:
            await asyncio.wait([self._filling])

    async def aclose(self) -> None:
        """End every waiting program."""
        self._closed = True
        if self._filling is not None:
            self._filling.cancel()
            await self.filled()
        while self._waiting:
            await self._backend.discard(self._waiting.popleft())

    async def _next(self) -> SupervisedProcess | None:
        while self._waiting:
            process = self._waiting.popleft()
            if process.is_alive():
                return process
            # Killed by somebody, such as the kernel when memory ran short.
            await self._backend.discard(process)
        return None

    def _refill(self) -> None:
        if not self._closed and (self._filling is None or self._filling.done()):
            self._filling = asyncio.get_running_loop().create_task(self._fill())

    async def _fill(self) -> None:
        while len(self._waiting) < self._size:
            try:
                self._waiting.append(await self._backend.start(self._job, ahead=True))
            except (SetupFailed, ToolError):
                # The next run starts a program itself, and says what is wrong.
                return
