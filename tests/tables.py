import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def each_row(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make one test of a function and of the rows that it has to hold for; it fails with every row that does not hold.

    names: the arguments that a row gives, as pytest.mark.parametrize takes them. The others are fixtures, which the
    rows share: a row that changes what the next one sees belongs to pytest.mark.parametrize.
    """
    rows = list(rows)
    assert rows

    def arguments(row: Any) -> dict[str, Any]:
        return {names: row} if isinstance(names, str) else dict(zip(names, row, strict=True))

    def decorate(check: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            failed: list[str] = []
            for row in map(arguments, rows):
                with _failing(row, failed):
                    check(**row, **fixtures)
            assert failed == [], "\n\n".join(failed)

        @functools.wraps(check)
        async def async_test(**fixtures: Any) -> None:
            failed: list[str] = []
            for row in map(arguments, rows):
                with _failing(row, failed):
                    await check(**row, **fixtures)
            assert failed == [], "\n\n".join(failed)

        made = async_test if inspect.iscoroutinefunction(check) else test
        signature = inspect.signature(check)
        shared = [value for name, value in signature.parameters.items() if name not in arguments(rows[0])]
        made.__signature__ = signature.replace(parameters=shared)  # type: ignore[attr-defined]
        return made

    return decorate


@contextmanager
def _failing(row: dict[str, Any], failed: list[str]) -> Iterator[None]:
    try:
        yield
    except (Exception, pytest.fail.Exception) as reason:  # noqa: BLE001 - a row may fail in any way
        shown = ", ".join(f"{name}={value!r:.300}" for name, value in row.items())
        failed.append(f"{shown}\n{type(reason).__name__}: {reason}")
