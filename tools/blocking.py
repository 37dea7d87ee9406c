"""Blocking work in anyio's threads."""

import asyncio
import math
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from anyio import CancelScope, current_effective_deadline, to_thread

T = TypeVar("T")

IsCancelled = Callable[[], bool]
"""Returns True once the call has been cancelled."""


class WorkCancelled(Exception):
    """Raised by work that ends because its call has been cancelled."""


async def run_read(work: Callable[[IsCancelled], T]) -> T:
    """Run work that changes nothing. A cancelled call leaves it behind; work sees that through its argument."""
    running = _Work(work)
    try:
        await to_thread.run_sync(running.run, abandon_on_cancel=True)
    except asyncio.CancelledError:
        running.cancel()
        raise
    return running.result()


async def run_write(work: Callable[[IsCancelled], T]) -> T:
    """Run work that changes files: once started it ends before its call does, also a cancelled one.

    Its result is returned then too, unless it raises WorkCancelled.
    """
    running = _Work(work)
    try:
        await to_thread.run_sync(running.run, abandon_on_cancel=True)
    except asyncio.CancelledError:
        if not running.cancel():
            raise
        with CancelScope(shield=True):
            await running.ended.wait()
        # anyio cancels again at the next await; a plain task.cancel() does not.
        if isinstance(running.failure, WorkCancelled) or current_effective_deadline() != -math.inf:
            raise
    return running.result()


def check_cancelled(is_cancelled: IsCancelled) -> None:
    """Raise WorkCancelled once the call has been cancelled."""
    if is_cancelled():
        raise WorkCancelled


class _Work(Generic[T]):
    """One piece of work, its result, and whether its call has been cancelled."""

    def __init__(self, work: Callable[[IsCancelled], T]) -> None:
        self.ended = asyncio.Event()
        self.failure: BaseException | None = None
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._result: T
        self._lock = Lock()
        self._started = False
        self._cancelled = False

    def run(self) -> None:
        """Run in a thread; a call that is cancelled before does nothing."""
        with self._lock:
            if self._cancelled:
                return
            self._started = True
        try:
            self._result = self._work(lambda: self._cancelled)
        except BaseException as e:  # noqa: BLE001 - raised where the call waits
            self.failure = e
        if self._cancelled and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.ended.set)

    def cancel(self) -> bool:
        """Tell the work that its call is cancelled. Return True if it has started."""
        with self._lock:
            self._cancelled = True
            return self._started

    def result(self) -> T:
        """Return the result, or raise what the work raised."""
        failure, self.failure = self.failure, None
        if failure is None:
            return self._result
        try:
            raise failure
        finally:
            # An exception that its own frame holds would keep all that the work had.
            del failure
