"""How far a call came before it has to wait, and a handler that was begun outside of a task and goes on in one."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from types import coroutine
from typing import Any, TypeVar

from ...tools.results import Result
from .call import Outcome

T = TypeVar("T")


@dataclass
class Stage:
    """How far a call came without waiting: its arguments are bound, it is noted, its result is there, it is over.

    rest: what is to be awaited for the result of a handler that has begun.
    """

    given: dict[str, Any] | None = None
    noted: bool = False
    rest: Awaitable[Result] | None = None
    result: Result | None = None
    outcome: Outcome | None = None

    def step(self, handler: Coroutine[Any, Any, Result]) -> None:
        """Begin a handler, outside of any task, and keep its result, or what is left of it where it waits."""
        try:
            waits_for = handler.send(None)
        except StopIteration as over:
            self.result = over.value
        else:
            self.rest = _going_on(handler, waits_for)


@coroutine
def _going_on(begun: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
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
