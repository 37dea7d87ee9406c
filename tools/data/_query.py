"""The path language of json_query, yaml_query and toml_query: keys, indexes, and `[]` for each element."""

import json
import re
from dataclasses import dataclass
from typing import Any

from ...safety.errors import Code, ToolError

MAX_CHARACTERS = 10_000
"""Length of a query; a guess far above what any document needs."""
MAX_VISITS = 1_000_000
"""Values that one query looks at: fewer than a document of 5 MiB may have, and more than any answer shows."""

_BARE = re.compile(r"""[^.\[\]"'\s][^.\[\]"']*""")
_INDEX = re.compile(r"\[[ ]*([0-9]{1,18})[ ]*\]")
_QUOTED = re.compile(r'\[[ ]*("(?:[^"\\]|\\.)*")[ ]*\]')
_HOW = 'keys stand behind dots, a[0] is an element, a[] each of them, ["any key"] a key of any characters'

Place = tuple[str | int, ...]
"""The keys and indexes that lead to one value."""


@dataclass(frozen=True)
class Step:
    """One step of a query: a key, an index, or None for each element. start, end: where it stands in the query."""

    what: str | int | None
    start: int
    end: int


@dataclass(frozen=True)
class Found:
    """What a query leads to. missing: the step that leads to nothing, as it stands in the query."""

    value: Any
    missing: str | None = None


class WrongKind(Exception):
    """A step that the value it meets cannot take. place: where in the document that value is."""

    def __init__(self, sentence: str, place: Place) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.place = place

    def refusal(self, position: tuple[int, int] | None) -> ToolError:
        """Return the refusal of the query. position: line and column of the value, where they are known."""
        where = f" (line {position[0]}, column {position[1]})" if position else ""
        return ToolError(Code.BAD_QUERY, self.sentence + where, _HOW)


def parsed(query: str | None) -> tuple[Step, ...]:
    """Return the steps of a query; none for the whole document. ToolError bad_query."""
    text = (query or "").strip()
    if len(text) > MAX_CHARACTERS:
        raise ToolError(Code.BAD_QUERY, f"the query is longer than {MAX_CHARACTERS} characters")
    if text == ".":  # as jq has the whole document
        return ()
    steps: list[Step] = []
    at = 1 if text.startswith("$") and text[1:2] in ("", ".", "[") else 0
    first = at == 0
    while at < len(text):
        step = _step(text, at, first)
        first = False
        steps.append(step)
        at = step.end
    return tuple(steps)


def _step(text: str, at: int, first: bool) -> Step:
    """Return the step that begins at a character. first: its key needs no dot."""
    if text[at] == "[":
        if text.startswith("[]", at):
            return Step(None, at, at + 2)
        if index := _INDEX.match(text, at):
            return Step(int(index[1]), at, index.end())
        if quoted := _QUOTED.match(text, at):
            try:
                return Step(json.loads(quoted[1], strict=False), at, quoted.end())
            except ValueError:
                raise _bad(text, at, "the key in quotes has an escape that JSON does not know") from None
        raise _bad(text, at, 'expected [N] with N from 0, [] or ["key"]')
    start = at + 1 if text[at] == "." else at
    if start == at and not first:
        raise _bad(text, at, "expected . or [")
    key = _BARE.match(text, start)
    if not key:
        raise _bad(text, start, "expected a key")
    return Step(key[0], at, key.end())


def _bad(text: str, at: int, expected: str) -> ToolError:
    rest = text[at : at + 20]
    found = f"at {json.dumps(rest, ensure_ascii=False)}" if rest else "at its end"
    return ToolError(Code.BAD_QUERY, f"character {at + 1} of the query, {found}: {expected}", _HOW)


def evaluated(document: Any, steps: tuple[Step, ...], query: str | None, most: int = MAX_VISITS) -> Found:
    """Return the value of a query; null for one that is not there. most: values that it may look at.

    WrongKind, ToolError output_limit.
    """
    return _Evaluation(steps, (query or "").strip(), most).run(document)


class _Evaluation:
    def __init__(self, steps: tuple[Step, ...], query: str, most: int) -> None:
        self._most = most
        self._steps = steps
        self._query = query
        self._missing: str | None = None
        self._visits = 0

    def run(self, document: Any) -> Found:
        value = self._walk(document, 0, ())
        return Found(value, None if any(step.what is None for step in self._steps) else self._missing)

    def _walk(self, value: Any, at: int, place: Place) -> Any:
        """Follow the steps from one on; a call deeper for each `[]` only."""
        for number in range(at, len(self._steps)):
            self._visit()
            if value is None:
                return None
            step = self._steps[number]
            if step.what is None:
                if not isinstance(value, list):
                    raise self._wrong(value, step, place, "no elements")
                if number + 1 == len(self._steps):
                    return value
                return [self._walk(item, number + 1, (*place, index)) for index, item in enumerate(value)]
            if isinstance(step.what, int):
                if not isinstance(value, list):
                    raise self._wrong(value, step, place, "no index")
                there = step.what < len(value)
                found = value[step.what] if there else None
            else:
                if not isinstance(value, dict):
                    raise self._wrong(value, step, place, "no keys")
                there = step.what in value
                found = value.get(step.what)
            if not there and self._missing is None:
                self._missing = (
                    f"{self._shown(step.start)} has no {self._query[step.start : step.end].removeprefix('.')}"
                )
            value, place = found, (*place, step.what)
        return value

    def _visit(self) -> None:
        self._visits += 1
        if self._visits > self._most:
            raise ToolError(
                Code.OUTPUT_LIMIT, f"the query looks at more than {self._most} values", "ask for fewer with [N]"
            )

    def _wrong(self, value: Any, step: Step, place: Place, lacks: str) -> WrongKind:
        return WrongKind(
            f"character {step.start + 1} of the query: {shown_place(place)} is {kind(value)}, which has {lacks}", place
        )

    def _shown(self, end: int) -> str:
        return self._query[:end] or "the document"


def shown_place(place: Place) -> str:
    """Return a place as a query that leads there, shortened."""
    out = ""
    for part in place:
        if isinstance(part, int):
            out += f"[{part}]"
        elif _BARE.fullmatch(part) and part == part.strip() and not part.startswith("$"):
            out += f".{part}" if out else part
        else:
            out += f"[{json.dumps(part, ensure_ascii=False)}]"
    return out[:300] or "the document"


def kind(value: Any) -> str:
    """Return the kind of a value, in words."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case None:
            return "null"
    return "a number"
