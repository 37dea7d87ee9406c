"""Values as pretty JSON, and what stands beside it."""

import json
import re
from typing import Any

from ...safety.errors import Code, ToolError
from ...safety.text import visible_name
from ._query import Found

MAX_BYTES = 32 * 2**20
"""Characters of an answer before the budget cuts it. Only aliases of YAML make more than the indentation of 5 MiB does."""
_NAMED = 12
"""Members of a document that the marker of a cut names; a guess at what leaves room for an answer."""

# Raw, these would act on the reader's terminal, hide text, or be no UTF-8; as escapes they are the same JSON.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SCALARS = frozenset({str, int, float, bool, type(None)})


def rendered(found: Found) -> str:
    """Return a value as JSON with two spaces a level. What is no object gets a first line that says what follows.

    ToolError output_limit for a value that expands beyond 32 MiB.
    """
    parts: list[str] = []
    _Printer(parts).write(found.value, 0)
    text = _UNSAFE.sub(_escaped, "".join(parts))
    match found.value:
        case dict():
            return text
        case list() as items:
            return f"{len(items)} {'item' if len(items) == 1 else 'items'}\n{text}"
    return f"{visible_name(found.missing)[:300]}\n{text}" if found.missing else f"1 value\n{text}"


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class _Printer:
    def __init__(self, parts: list[str]) -> None:
        self._parts = parts
        self._size = 0
        self._flat: dict[int, json.JSONEncoder] = {}

    def write(self, value: Any, depth: int) -> None:
        if not isinstance(value, dict | list) or not value:
            self._add(self._encoder(0).encode(value))
            return
        inner, outer = "\n" + "  " * (depth + 1), "\n" + "  " * depth
        members = value.values() if isinstance(value, dict) else value
        if _SCALARS.issuperset(map(type, members)):
            # One call of the C encoder, whose separator breaks the lines, is several times as fast as one a member.
            text = self._encoder(depth + 1).encode(value)
            self._add(f"{text[0]}{inner}{text[1:-1]}{outer}{text[-1]}")
            return
        before = ("{" if isinstance(value, dict) else "[") + inner
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            name = self._encoder(0).encode(key) + ": " if isinstance(value, dict) else ""
            self._add(before + name)
            self.write(member, depth + 1)
            before = "," + inner
        self._add(outer + ("}" if isinstance(value, dict) else "]"))

    def _encoder(self, depth: int) -> json.JSONEncoder:
        if depth not in self._flat:
            comma = ",\n" + "  " * depth
            self._flat[depth] = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(comma, ": "))
        return self._flat[depth]

    def _add(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_BYTES:
            raise ToolError(
                Code.OUTPUT_LIMIT, f"the answer is above {MAX_BYTES >> 20} MiB", "query a part of the document"
            )
        self._parts.append(text)


def way_on(value: Any) -> str:
    """Return the hint for asking for a part of a value that is too long for one answer: its members and their sizes."""
    match value:
        case dict():
            members = [f"{_name(key)} ({_size(member)})" for key, member in list(value.items())[:_NAMED]]
            rest = len(value) - _NAMED
            return f"query a key of it: {', '.join(members)}" + (f" and {rest} more" if rest > 0 else "")
        case list():
            keys = list(value[0])[:_NAMED] if value and isinstance(value[0], dict) else []
            fields = f", or [].KEY with {', '.join(map(_name, keys))}" if keys else ""
            return f"query [0] to [{len(value) - 1}]{fields}"
    return "it is one value"


def _name(key: str) -> str:
    name = key if len(key) <= 40 else key[:40] + "…"
    return _UNSAFE.sub(_escaped, name if name.isidentifier() else json.dumps(name, ensure_ascii=False))


def _size(value: Any) -> str:
    match value:
        case dict():
            return f"object of {len(value)}"
        case list():
            return f"list of {len(value)}"
        case str():
            return f"string of {len(value)}"
        case bool():
            return "boolean"
        case None:
            return "null"
    return "number"
