"""Blocking work in threads that stop when their call is given up."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from anyio import to_thread

T = TypeVar("T")

Stop = Callable[[], bool]
"""Tells that nobody waits for the answer any more."""


async def reading(work: Callable[[Stop], T]) -> T:
    """Do work that changes nothing; the call may leave it behind, and work sees that through its argument."""
    given_up = False
    try:
        return await to_thread.run_sync(partial(work, lambda: given_up), abandon_on_cancel=True)
    finally:
        given_up = True


async def writing(work: Callable[[], T]) -> T:
    """Do work that changes files: once begun it ends before the call does, also a cancelled one."""
    return await to_thread.run_sync(work)
