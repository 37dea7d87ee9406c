"""Ending: on a signal the first time in order and the second at once, and at last whatever holds it up."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

log = logging.getLogger(__name__)

FORCE_EXIT_AFTER = 60.0
"""Seconds a shutdown takes at most; a guess, above what the longest change of files needs to finish or be rolled back."""


@contextmanager
def force_exit_after() -> Iterator[Callable[[], None]]:
    """Yield a function that starts the clock: the process exits with status 1 if the block takes longer than FORCE_EXIT_AFTER.

    A thread that waits for a file system that does not answer would hold up the exit for ever.
    """
    timer = threading.Timer(FORCE_EXIT_AFTER, _end)
    timer.daemon = True

    def begin() -> None:
        if timer.ident is None:
            timer.start()

    try:
        yield begin
    finally:
        timer.cancel()


def _end() -> None:
    log.error("something held up the end for %g s", FORCE_EXIT_AFTER)
    os._exit(1)


@contextmanager
def stop_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Call stop with the number of the first SIGTERM, SIGINT or SIGHUP, in the running loop.

    The next one ends the process with 128 + its number. A signal that the parent told us to ignore (nohup, a
    background job) stays ignored. Outside of the main thread signals are left alone.
    """
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def on_signal(number: int) -> None:
        if asked:
            os._exit(128 + number)
        asked.append(number)
        stop(number)

    def from_handler(number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(on_signal, number)

    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]
    undo: list[Callable[[], object]] = []
    if threading.current_thread() is threading.main_thread():
        for number in wanted:
            before = signal.getsignal(number)
            if before is signal.SIG_IGN:
                continue
            try:
                loop.add_signal_handler(number, on_signal, number)
            except NotImplementedError:
                signal.signal(number, from_handler)
            else:
                undo.append(partial(loop.remove_signal_handler, number))
            undo.append(partial(signal.signal, number, before or signal.SIG_DFL))
    try:
        yield
    finally:
        for step in undo:
            step()
