"""Changing one member of a JSON file that a person wrote, comments and all: everything else stays as it is."""

import json
import re
from dataclasses import dataclass
from typing import Any

_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}/]+")


class NotJson(ValueError):
    """Raised for a text that is not JSON, comments and trailing commas aside."""


@dataclass(frozen=True)
class _Span:
    """Where a value stands in the text; members of an object: by key, where the member begins, and its value."""

    start: int
    end: int
    members: dict[str, tuple[int, "_Span"]] | None = None


def with_member(text: str, path: list[str], value: Any) -> str:
    """Return text with the value at a path of keys; objects on the way that are missing are made. Raises NotJson."""
    text = text if text.strip() else "{}\n"
    unit = _indentation(text)
    at, depth = _root(text), 0
    for depth, key in enumerate(path):
        if at.members is None:
            raise NotJson(f"{'.'.join(path[:depth]) or 'the file'} is not an object")
        if key not in at.members:
            break
        at = at.members[key][1]
    else:
        return text[: at.start] + _written(value, unit, len(path)) + text[at.end :]
    for key_missing in reversed(path[depth + 1 :]):
        value = {key_missing: value}
    member = f"{json.dumps(path[depth], ensure_ascii=False)}: {_written(value, unit, depth + 1)}"
    ends = [each.end for _, each in (at.members or {}).values()]
    if not ends:
        close = at.end - 1
        kept = text[at.start + 1 : close].rstrip()
        return f"{text[: at.start + 1]}{kept}\n{unit * (depth + 1)}{member}\n{unit * depth}{text[close:]}"
    comma = _comma_after(text, ends[-1])
    rest = text[ends[-1] :] if comma is None else text[comma + 1 :]
    between = "" if comma is None else text[ends[-1] : comma]
    return f"{text[: ends[-1]]},{between}\n{unit * (depth + 1)}{member}{'' if comma is None else ','}{rest}"


def without_member(text: str, path: list[str]) -> str:
    """Return text without the member at a path of keys; the text itself where there is none. Raises NotJson."""
    at = _root(text) if text.strip() else _Span(0, 0, {})
    before: _Span | None = None
    start = 0
    for key in path:
        if at.members is None or key not in at.members:
            return text
        earlier = [each for begin, each in at.members.values() if begin < at.members[key][0]]
        before = max(earlier, key=lambda each: each.end, default=None)
        start, at = at.members[key]
    comma = _comma_after(text, at.end)
    if comma is not None:
        return text[:start].rstrip(" \t\n") + text[comma + 1 :]
    if before is not None:
        own = _comma_after(text, before.end)
        assert own is not None
        return text[:own] + text[own + 1 : start].rstrip() + text[at.end :]
    return text[:start].rstrip(" \t\n") + text[at.end :]


def member(text: str, path: list[str]) -> Any:
    """Return the value at a path of keys, None where there is none. Raises NotJson."""
    at = _root(text) if text.strip() else _Span(0, 0, {})
    for key in path:
        if at.members is None or key not in at.members:
            return None
        at = at.members[key][1]
    return json.loads(_plain(text[at.start : at.end]))


def _plain(text: str) -> str:
    """Return text without comments and trailing commas."""
    kept = re.sub(rf"({_STRING.pattern})|//[^\n]*|/\*.*?\*/", lambda found: found[1] or "", text, flags=re.DOTALL)
    return re.sub(rf"({_STRING.pattern})|,(?=\s*[}}\]])", lambda found: found[1] or "", kept, flags=re.DOTALL)


def _root(text: str) -> _Span:
    try:
        json.loads(_plain(text))
    except (ValueError, RecursionError) as e:
        raise NotJson(str(e)) from None
    # The text is JSON from here on, so the scanner has no errors of its own.
    return _value(text, _skip(text, 0))


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def _value(text: str, at: int) -> _Span:
    if text[at] == '"':
        return _Span(at, _end(_STRING, text, at))
    if text[at] not in "{[":
        return _Span(at, _end(_SCALAR, text, at))
    members: dict[str, tuple[int, _Span]] = {}
    here = _skip(text, at + 1)
    while text[here] not in "}]":
        begin = here
        if text[at] == "{":
            end = _end(_STRING, text, here)
            key = json.loads(text[here:end])
            value = _value(text, _skip(text, _skip(text, end) + 1))
            members[key] = (begin, value)
        else:
            value = _value(text, here)
        here = _skip(text, value.end)
        if text[here] == ",":
            here = _skip(text, here + 1)
    return _Span(at, here + 1, members if text[at] == "{" else None)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    assert found is not None
    return found.end()


def _comma_after(text: str, at: int) -> int | None:
    here = _skip(text, at)
    return here if text[here : here + 1] == "," else None


def _indentation(text: str) -> str:
    found = re.search(r"\n([ \t]+)\"", text)
    return found[1] if found else "  "


def _written(value: Any, unit: str, depth: int) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{unit * depth}")
