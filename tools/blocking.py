"""Blocking work in threads that stop when their call is given up."""

import asyncio
import logging
import math
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from contextvars import Context
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from anyio import CancelScope, current_effective_deadline
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

log = logging.getLogger(__name__)

T = TypeVar("T")

Stop = Callable[[], bool]
"""Tells that nobody waits for the answer any more."""

MOST = 40
"""Threads that work at a time; as many as anyio has."""
BRIEF = 0.02
"""Seconds that the loop itself waits for a thread where nobody else is served; a guess at what nobody notices."""
IDLE = 10.0
"""Seconds after which a thread that has nothing to do may end."""


class WorkCancelled(Exception):
    """Nobody waits for the work any more."""


class WorkContext:
    """What work may ask of the call that it is done for, and leave to its thread."""

    def __init__(self) -> None:
        self._given_up = False
        self._held: list[tuple[int, bool]] = []

    def stopped(self) -> bool:
        """Tell whether the call has been given up."""
        return self._given_up

    def check(self) -> None:
        """Raise GivenUp where the call has been given up."""
        if self._given_up:
            raise WorkCancelled

    def let_go(self, fd: int) -> None:
        """Have a descriptor closed when the result of the work is on its way: the last one of a file frees its blocks."""
        self._held.append((fd, False))

    def sync(self, fd: int) -> None:
        """Have a descriptor synced to the disk when the result of the work is on its way, and closed."""
        self._held.append((fd, True))


async def reading(work: Callable[[Stop], T]) -> T:
    """Do work that changes nothing; the call may leave it behind, and work sees that through its argument."""
    return await _done(_Job(lambda turn: work(turn.stopped)), leave=True)


async def writing(work: Callable[[], T]) -> T:
    """Do work that changes files: once begun it ends before the call does, also a cancelled one."""
    return await _done(_Job(lambda _: work()))


async def changing(work: Callable[[WorkContext], T]) -> T:
    """Do work as writing() does, that wants to know of the call, or lets go of files.

    Its result is returned also where the call is cancelled meanwhile; GivenUp, raised by work, ends such a call.
    """
    return await _done(_Job(work))


class _Job(WorkContext, Generic[T]):
    """One piece of work on its way through a thread.

    Where it is wanted outside of any task, the loop's own thread may wait for it: that spares a task, its scopes and the way
    back through the loop, which take longer than the work of a small call.
    """

    def __init__(self, work: Callable[[WorkContext], T]) -> None:
        super().__init__()
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._result: T
        self._failure: BaseException | None = None
        self._over = False
        self._told = self._loop.create_future()
        self._met: Lock | None = None
        self._turn = Lock()
        self._ended = False
        if asyncio.current_task() is None:
            self._met = Lock()
            self._met.acquire()

    def do(self) -> None:
        """Do the work, and then sync and close what it left. In a thread."""
        try:
            self._result = self._work(self)
        except BaseException as e:  # noqa: BLE001 - raised where it is waited for
            self._failure = e
        if not self._meets():
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:
                log.debug("the loop has ended before a thread")
        for fd, synced in self._held:
            if synced:
                with suppress(OSError):
                    os.fsync(fd)
            with suppress(OSError):
                os.close(fd)

    def _tell(self) -> None:
        self._over = True
        if not self._told.done():
            self._told.set_result(None)

    @property
    def waits_in_loop(self) -> bool:
        """Tell whether the loop's own thread is to wait for it."""
        return self._met is not None

    def _meets(self) -> bool:
        """Let the loop's own thread go on; False where that does not wait, or no longer."""
        with self._turn:
            self._ended = True
            if self._met is None:
                return False
            self._met.release()
            return True

    def meet(self) -> bool:
        """Wait a moment, in the loop's own thread, and tell whether there is a result; else wait() has to be awaited."""
        assert self._met is not None
        if not self._met.acquire(timeout=BRIEF):
            with self._turn:
                self._met = None
                if not self._ended:
                    return False
        if self._failure is None:
            return True
        # What is done about it may want a task.
        self._loop.call_soon(self._tell)
        return False

    async def wait(self) -> None:
        """Return when the work is done, with a result or without."""
        await self._told

    async def wait_on(self) -> None:
        """Note that the call is given up, and return when the work is done."""
        self.give_up()
        if not self._over:
            self._told = self._loop.create_future()
            with CancelScope(shield=True):
                await self._told

    def give_up(self) -> None:
        """Let the work know that nobody waits for it."""
        self._given_up = True

    @property
    def refuses(self) -> bool:
        """Tell whether the work ended as its call was given up."""
        return isinstance(self._failure, WorkCancelled)

    def outcome(self) -> T:
        """Return the result, or raise what the work raised; once."""
        failure, self._failure = self._failure, None
        if failure is None:
            return self._result
        try:
            raise failure
        finally:
            del failure


async def _done(job: _Job[T], *, leave: bool = False) -> T:
    """Have a job done by a thread. leave: a call that is cancelled does not wait for it."""
    if not job.waits_in_loop:
        await checkpoint_if_cancelled()
    threads = await _threads()
    threads.give(job)
    if job.waits_in_loop and job.meet():
        return job.outcome()
    try:
        await job.wait()
    except asyncio.CancelledError:
        if threads.withdrawn(job):
            raise
        if leave:
            job.give_up()
            raise
        await job.wait_on()
        # What an anyio scope cancels is cancelled again where it next waits; another's word comes once.
        if job.refuses or current_effective_deadline() != -math.inf:
            raise
    return job.outcome()


class _Threads:
    """The threads of one loop, made when they are wanted. The one that worked last works next: its caches are warm."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._idle: deque[_Worker] = deque()
        self._waiting: deque[_Job[Any]] = deque()
        self._ended = False

    def give(self, job: _Job[Any]) -> None:
        """Let a thread do a job; it waits for one where all that there may be are busy. RuntimeError: there is none."""
        with self._lock:
            if self._ended:
                raise RuntimeError("the threads have ended with their loop")
            if self._idle:
                self._idle.pop().give(job)
                if self._idle and time.monotonic() - self._idle[0].since > IDLE:
                    self._idle.popleft().give(None)
                    self._count -= 1
                return
            if self._count < MOST:
                worker = _Worker(self)
                try:
                    worker.start()
                except RuntimeError:
                    # The system has no more of them.
                    if not self._count:
                        raise
                else:
                    self._count += 1
                    worker.give(job)
                    return
            self._waiting.append(job)

    def withdrawn(self, job: _Job[Any]) -> bool:
        """Take a job back that no thread has begun; False where one has."""
        with self._lock:
            try:
                self._waiting.remove(job)
            except ValueError:
                return False
            return True

    def next(self, worker: "_Worker") -> _Job[Any] | None:
        """Return the job that has waited longest for a thread; None where none does, and the thread is idle."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._ended:
                worker.give(None)
            else:
                worker.since = time.monotonic()
                self._idle.append(worker)
            return None

    def end(self) -> None:
        """Let every thread end, a busy one after its work."""
        with self._lock:
            self._ended = True
            while self._idle:
                self._idle.pop().give(None)


class _Worker(Thread):
    """One thread. since: when it became idle."""

    def __init__(self, threads: _Threads) -> None:
        super().__init__(name="blocking work")
        self.since = 0.0
        self._threads = threads
        self._given: SimpleQueue[_Job[Any] | None] = SimpleQueue()

    def give(self, job: _Job[Any] | None) -> None:
        """Let the thread do a job, or end for None."""
        self._given.put(job)

    def run(self) -> None:
        """Do what is given until there is nothing more to come."""
        # Some interpreters give a thread the context of the call that started it.
        Context().run(self._work)

    def _work(self) -> None:
        while (job := self._given.get()) is not None:
            while job is not None:
                job.do()
                job = self._threads.next(self)


async def _kept() -> AsyncGenerator[_Threads, None]:
    threads = _Threads()
    try:
        yield threads
    finally:
        threads.end()


_OPEN: RunVar[tuple[_Threads, AsyncGenerator[_Threads, None]]] = RunVar("threads of the loop")


async def _threads() -> _Threads:
    try:
        return _OPEN.get()[0]
    except LookupError:
        # Whoever ends a loop ends its generators, and so these threads.
        keeper = _kept()
        threads = await anext(keeper)
        _OPEN.set((threads, keeper))
        return threads
