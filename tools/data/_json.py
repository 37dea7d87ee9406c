"""JSON documents and JSON Lines: parsed within bounds, and where in them a value stands."""

import json
import re
from typing import Any

from ...safety.errors import Code, ToolError
from ._query import Place

MAX_DEPTH = 200
MAX_DIGITS = 4000
"""Levels of nesting and digits of a number (TOOLS.md §4.3)."""

_LONG_NUMBER = re.compile(rf"[0-9.eE+-]{{{MAX_DIGITS + 1}}}")
_LARGE_FLOAT = re.compile(r"[eE]\+?[0-9]{3}|[0-9]{300}")
_NUMERIC = frozenset("0123456789.eE+-")
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def parsed(text: str, lines: bool = False) -> Any:
    """Return the value of a document; with lines, the list of the values of its lines. ToolError bad_json."""
    return _parsed_lines(text) if lines else _parsed(text, 1)


def _parsed_lines(text: str) -> list[Any]:
    return [_parsed(line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _parsed(text: str, line: int) -> Any:
    try:
        value = _decoder(text).decode(text)
    except json.JSONDecodeError as e:
        hint = "lines: true reads one value a line" if e.msg == "Extra data" else None
        raise _bad(f"{e.msg.removesuffix(' at')} at line {line + e.lineno - 1}, column {e.colno}", hint) from None
    except _OutOfRange as e:
        raise _bad(f"{e}{_near(text, e.literal, line)}") from None
    except RecursionError:
        raise _too_deep(text, line) from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
        raise _too_deep(text, line)
    return value


class _OutOfRange(ValueError):
    def __init__(self, sentence: str, literal: str) -> None:
        super().__init__(sentence)
        self.literal = literal


def _decoder(text: str) -> json.JSONDecoder:
    # A function of our own for each number takes twice the time, so it is there only where a number may need it.
    careful = _LONG_NUMBER.search(text) or _LARGE_FLOAT.search(text)
    return json.JSONDecoder(
        parse_constant=_refused, parse_int=_integer if careful else None, parse_float=_float if careful else None
    )


def _refused(name: str) -> Any:
    raise _OutOfRange(f"{name} is no JSON", name)


def _integer(literal: str) -> int:
    if len(literal.lstrip("-")) > MAX_DIGITS:
        raise _OutOfRange(f"a number has more than {MAX_DIGITS} digits", literal)
    return int(literal)


def _float(literal: str) -> float:
    if len(literal) > MAX_DIGITS:
        raise _OutOfRange(f"a number has more than {MAX_DIGITS} digits", literal)
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise _OutOfRange(f"the number {literal[:40]} is out of range", literal)
    return value


def _near(text: str, literal: str, line: int) -> str:
    """Return the places of numbers and names outside of strings."""
    # A pattern of a million digits would take seconds to compile.
    searched = re.compile(rf'"(?:[^"\\]|\\.)*"|(?P<it>{re.escape(literal[:40])})')
    for found in searched.finditer(text):
        start = found.start()
        if found["it"] and text.startswith(literal, start) and text[start + len(literal) :][:1] not in _NUMERIC:
            return _at(text, start, line)
    return ""


def _is_deep(value: Any) -> bool:
    level, depth = [value], 1
    while level:
        level = [x for above in level for x in _members(above) if type(x) is dict or type(x) is list]
        depth += bool(level)
        if depth > MAX_DEPTH:
            return True
    return False


def _members(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _too_deep(text: str, line: int) -> ToolError:
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            return _bad(f"nested deeper than {MAX_DEPTH} levels{_at(text, token.start(), line)}")
    return _bad(f"nested deeper than {MAX_DEPTH} levels")


def _at(text: str, offset: int, line: int) -> str:
    row, column = position(text, offset)
    return f" at line {line + row - 1}, column {column}"


def position(text: str, offset: int) -> tuple[int, int]:
    """Return the line and column of a character, counting from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _bad(sentence: str, hint: str | None = None) -> ToolError:
    return ToolError(Code.BAD_JSON, f"the JSON does not parse: {sentence}", hint)


def located(text: str, place: Place, lines: bool = False) -> tuple[int, int] | None:
    """Return line and column of the value at a place of a document that parses."""
    at = 0
    if lines and place:
        number = place[0]
        rows = [row for row, line in enumerate(text.split("\n")) if line.strip()]
        row = rows[int(number)]
        inner = located(text.split("\n")[row], place[1:])
        return (inner[0] + row, inner[1]) if inner else None
    decoder = _decoder(text)
    at = _skip(text, 0)
    for part in place:
        found = _member(decoder, text, at, part)
        if found is None:
            return None
        at = found
    return position(text, at)


def _member(decoder: json.JSONDecoder, text: str, at: int, wanted: str | int) -> int | None:
    """Return the start of a member of the container at a character; of equal keys the last."""
    found, count = None, 0
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        key: str | int = count
        if isinstance(wanted, str):
            key, at = decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        if key == wanted:
            found = at
            if isinstance(wanted, int):
                break
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
        count += 1
    return found


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space
    return space.end()
