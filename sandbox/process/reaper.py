"""Orphans of programs: a subreaper inherits them, and those nobody waits for would stay zombies."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from . import tree

PATIENCE = 5.0
"""Seconds for which a dead child is left to whoever started it; a guess: those that wait do so within milliseconds."""


class Orphans:
    """Reaps dead children that have been dead for a while. kept: pids of those that are left dead on purpose."""

    def __init__(
        self, kept: Callable[[], Collection[int]] = tuple, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Know of none yet. clock counts seconds."""
        self._kept = kept
        self._clock = clock
        self._since: dict[tuple[int, int], float] = {}

    def collect(self) -> bool:
        """Look once, and reap what an earlier look found dead PATIENCE ago; tell whether to look again."""
        now = self._clock()
        kept = self._kept()
        dead: dict[tuple[int, int], float] = {}
        for pid in tree.children(os.getpid()):
            process = tree.look(pid)
            if process is None or not process.dead or pid in kept:
                continue
            since = self._since.get((pid, process.start), now)
            if now - since < PATIENCE:
                dead[pid, process.start] = since
                continue
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._since = dead
        return bool(dead)


@asynccontextmanager
async def reaping(kept: Callable[[], Collection[int]] = tuple) -> AsyncIterator[None]:
    """Reap orphans while the block runs. Does nothing beside Linux, or where the loop gets no signals."""
    loop = asyncio.get_running_loop()
    orphans = Orphans(kept)
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        timer = loop.call_later(PATIENCE, look) if orphans.collect() else None

    def died() -> None:
        nonlocal timer
        if timer is None:
            timer = loop.call_later(PATIENCE / 10, look)

    try:
        if sys.platform == "linux":
            loop.add_signal_handler(signal.SIGCHLD, died)
    except (RuntimeError, ValueError):
        # Not on the main thread: somebody else's process, and not a subreaper.
        yield
        return
    try:
        yield
    finally:
        if sys.platform == "linux":
            loop.remove_signal_handler(signal.SIGCHLD)
        if timer:
            timer.cancel()
