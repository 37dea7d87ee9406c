"""TOML documents. For the worker: some take quadratic time."""

import math
import re
import tomllib
from datetime import date, datetime, time
from typing import Any

from ...safety.errors import Code, ToolError

MAX_DEPTH = 64
"""Levels of nesting (TOOLS.md §4.3)."""

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def parsed(text: str) -> Any:
    """Return the value of a document; dates and times as ISO text, inf and nan as text. ToolError bad_toml."""
    try:
        value = tomllib.loads(text, parse_float=_float)
    except tomllib.TOMLDecodeError as e:
        raise _bad(_POSITION.sub(_placed, str(e))) from None
    except RecursionError:
        raise _bad(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as e:
        # An impossible date, or an integer of more digits than Python reads.
        raise _bad(str(e)[:200]) from None
    return _plain(value, 1)


def _float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value) and "inf" not in literal:
        raise _bad(f"the number {literal[:40]} is out of range")
    return value


def _placed(found: re.Match[str]) -> str:
    return f" at line {found[1]}, column {found[2]}" if found[1] else " at the end"


def _plain(value: Any, depth: int) -> Any:
    match value:
        case dict():
            if depth > MAX_DEPTH:
                raise _bad(f"nested deeper than {MAX_DEPTH} levels")
            return {key: _plain(member, depth + 1) for key, member in value.items()}
        case list():
            if depth > MAX_DEPTH:
                raise _bad(f"nested deeper than {MAX_DEPTH} levels")
            return [_plain(member, depth + 1) for member in value]
        case datetime() | date() | time():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return str(value)
    return value


def _bad(sentence: str) -> ToolError:
    return ToolError(Code.BAD_TOML, f"the TOML does not parse: {sentence}")
