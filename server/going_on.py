"""A coroutine that was begun outside of a task, and goes on in one."""

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


@coroutine
def going_on(begun: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Return what a coroutine returns. waits_for: what begun.send(None) gave, for which it waits now."""
    while True:
        go_on: Callable[[], Any]
        try:
            go_on = partial(begun.send, (yield waits_for))
        except BaseException as e:  # noqa: BLE001 - whatever it is, it is for the coroutine
            go_on = partial(begun.throw, e)
        try:
            waits_for = go_on()
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]
