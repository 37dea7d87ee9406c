"""Definitions as results show and find them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ...safety.errors import Code, ToolError
from ...safety.guard import GuardContext
from ...safety.text import visible_name
from ._languages import KINDS

Match = Literal["contains", "exact", "prefix", "fuzzy"]
_SEPARATOR = re.compile(r"(::|#|\.)")
RUBY_KINDS = ("class", "module", "method", "constant")


@dataclass(frozen=True)
class Definition:
    """One definition. path: its name behind those of what it is in, joined by `::`, a method's by `#`."""

    line: int
    last: int
    level: int
    kind: str
    name: str
    path: str

    def shown(self) -> str:
        """Return the row of an outline."""
        return f"{self.line}: {'  ' * self.level}{self.kind} {visible_name(self.name)}"


def definitions(rows: str) -> Iterator[Definition]:
    """Yield the definitions of a file from the rows that the worker makes of it, in source order."""
    around: list[str] = []
    for row in rows.split("\n") if rows else ():
        line, last, level, kind, name = row.split("\t", 4)
        del around[int(level) :]
        above = around[-1] if around else ""
        path = _joined(above, kind, name)
        around.append(above if name.startswith("<< ") else path)
        yield Definition(int(line), int(last), int(level), kind, name, path)


def _joined(above: str, kind: str, name: str) -> str:
    if not above:
        return name
    if name.startswith("self."):
        return f"{above}.{name.removeprefix('self.')}"
    return f"{above}{'#' if kind in ('method', 'function') else '::'}{name}"


def wanted(
    found: Iterable[Definition], query: str | None, kind: str | None, match: Match = "contains"
) -> list[Definition]:
    """Return the definitions of a kind whose name the query matches; with `::`, `#` or `.` also the path."""
    if not query:
        return [each for each in found if kind is None or each.kind == kind]
    return [each for each in found if (kind is None or each.kind == kind) and rank(each, query, match) is not None]


def rank(definition: Definition, query: str, match: Match) -> int | None:
    """Return the distance of a definition from a query: 0 is its name, then its name in another case, a beginning, a part, letters
    in order; None where it does not match."""
    low = query.casefold()
    names = [definition.name, definition.name.rpartition(".")[2]]
    if any(mark in query for mark in ("::", "#", ".")):
        names += _endings(definition.path, query)
    best = min(_nearness(name, query, low) for name in names)
    most = {"exact": 1, "prefix": 2, "contains": 3, "fuzzy": 4}[match]
    return best if best <= most else None


def _endings(path: str, query: str) -> list[str]:
    """Return the endings of a path, as it is and with dots, that have as many parts as a query."""
    parts = _SEPARATOR.split(path)[::2]
    count = len(_SEPARATOR.split(query)[::2])
    if count > len(parts):
        return []
    separators = [*_SEPARATOR.split(path)[1::2], ""]
    tail = list(zip(parts, separators, strict=True))[-count:]
    return ["".join(part + separator for part, separator in tail), ".".join(part for part, _ in tail)]


def _nearness(name: str, query: str, low: str) -> int:
    if name == query:
        return 0
    lower = name.casefold()
    if lower == low:
        return 1
    if lower.startswith(low):
        return 2
    if low in lower:
        return 3
    letters = iter(lower)
    return 4 if all(letter in letters for letter in low) else 5


def kind_of(*known: str) -> Any:
    """Return a check of the argument kind, for a guard: one of these, or nothing. ToolError bad_kind."""

    def check(value: Any, judging: GuardContext) -> str | None:
        if value is None or value == "":
            return None
        if value not in known:
            raise ToolError(Code.BAD_KIND, f"kind: expected one of {', '.join(known)}, not {str(value)[:100]}")
        return str(value)

    return check


any_kind = kind_of(*KINDS)
ruby_kind = kind_of(*RUBY_KINDS)
