"""The kinds of value a setting can have: how each is read, named in an error, and shown.

A raw value is a text (environment, flag, scalar of the file), a list or a map of raw values, None,
or, from a program that embeds the server, the value itself.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from ...tools.catalogue import PROFILES

T = TypeVar("T")

MAX_INT = 10**12
"""Upper bound of whole numbers without a bound of their own: arithmetic on limits stays within 64 bits."""

DAY = 86_400.0
"""Upper bound of durations without a bound of their own, in seconds."""


@dataclass(frozen=True)
class ReadContext:
    """What values are read against: the folder of relative paths, the home folder, the group of each tool, the base.

    base is the first root, for paths inside it.
    """

    folder: Path
    home: Path
    tools: Mapping[str, str]
    base: Path = Path()


class InvalidValue(Exception):
    """Raised when a raw value does not fit its kind. expected completes "expected ..."; hint is a sentence."""

    def __init__(self, expected: str, got: object, hint: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.got = got
        self.hint = hint


@dataclass(frozen=True)
class Kind(Generic[T]):
    """One kind of value. expected says what may be written; show is the inverse of read, as plain data."""

    expected: str
    read: Callable[[object, ReadContext], T]
    show: Callable[[Any], Any] = lambda value: value


SIMILARITY = 0.7
"""Similarity from which a name is taken for a slip of another: three letters in common are not enough (foo, fs_root)."""


def did_you_mean(word: str, known: Iterable[str], form: str = "{}") -> str:
    """Return a question with the nearest of the known names, written as form says; nothing when none is near."""
    from difflib import get_close_matches  # Only a mistake pays for it.

    plain = {name.lower().replace("-", "_"): name for name in known}
    near = get_close_matches(word.lower().replace("-", "_"), list(plain), n=1, cutoff=SIMILARITY)
    return f"did you mean {form.format(plain[near[0]])}?" if near else ""


_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


def _as_bool(raw: object) -> bool | None:
    if isinstance(raw, bool):
        return raw
    word = str(raw).strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def boolean() -> Kind[bool]:
    """Accept true or false, also written yes, no, on, off, 1 and 0."""
    expected = "true or false"

    def read(raw: object, at: ReadContext) -> bool:
        value = _as_bool(raw)
        if value is None:
            raise InvalidValue(expected, raw)
        return value

    return Kind(expected, read)


def boolean_or(word: str) -> Kind[Any]:
    """Accept true, false or one more word."""
    expected = f"true, false or {word}"

    def read(raw: object, at: ReadContext) -> bool | str:
        if isinstance(raw, str) and raw.strip().lower() == word:
            return word
        value = _as_bool(raw)
        if value is None:
            raise InvalidValue(expected, raw)
        return value

    return Kind(expected, read)


def integer(least: int | None = None, most: int = MAX_INT) -> Kind[int]:
    """Accept a whole number within bounds, both included."""
    if least is None:
        expected = "a whole number"
    else:
        expected = f"a whole number, at least {least}" if most == MAX_INT else f"a whole number from {least} to {most}"

    def read(raw: object, at: ReadContext) -> int:
        if isinstance(raw, int) and not isinstance(raw, bool):
            value = raw
        elif isinstance(raw, str) and re.fullmatch(r"[+-]?[0-9]{1,15}", raw.strip()):
            value = int(raw)
        else:
            raise InvalidValue(expected, raw)
        if value > most or value < (-MAX_INT if least is None else least):
            raise InvalidValue(expected, raw)
        return value

    return Kind(expected, read)


def number(most: float) -> Kind[float]:
    """Accept a number above 0."""
    expected = f"a number above 0, at most {most:g}"

    def read(raw: object, at: ReadContext) -> float:
        value = _as_float(raw)
        if value is None or not 0 < value <= most:
            raise InvalidValue(expected, raw)
        return value

    return Kind(expected, read)


def _as_float(raw: object) -> float | None:
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        return None
    if isinstance(raw, str) and not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15}", raw.strip()):
        return None
    value = float(raw)
    return value if math.isfinite(value) else None


_UNITS_OF_TIME = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def seconds(most: float = DAY, *, zero: bool = False) -> Kind[float]:
    """Accept a duration, in seconds unless it ends in ms, s, m or h."""
    expected = f"seconds{'' if zero else ' above 0'}, at most {most:g} (30, 1.5, 500ms, 10m)"

    def read(raw: object, at: ReadContext) -> float:
        amount, factor = raw, 1.0
        if isinstance(raw, str) and (parts := re.fullmatch(r"\s*([0-9.]+)\s*(ms|s|m|h|)\s*", raw.lower())):
            amount, factor = parts[1], _UNITS_OF_TIME[parts[2]]
        value = _as_float(amount)
        if value is None or value * factor > most or value < 0 or (value == 0 and not zero):
            raise InvalidValue(expected, raw)
        return value * factor

    return Kind(expected, read, _short)


def _short(value: float) -> float:
    return int(value) if value == int(value) else value


_UNITS_OF_SIZE = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def size(least: int = 1) -> Kind[int]:
    """Accept a number of bytes, or of KiB, MiB, GiB with k, m, g behind it."""
    expected = f"a size such as 64k, 256m or 1g, at least {_show_size(least)}"

    def read(raw: object, at: ReadContext) -> int:
        value = None
        if isinstance(raw, int) and not isinstance(raw, bool):
            value = raw
        elif isinstance(raw, str) and (
            parts := re.fullmatch(r"([0-9]{1,15})\s*([kmgt]?)(?:i?b)?", raw.strip().lower())
        ):
            value = int(parts[1]) * _UNITS_OF_SIZE[parts[2]]
        if value is None or not least <= value <= 2**50:
            raise InvalidValue(expected, raw)
        return value

    return Kind(expected, read, _show_size)


def _show_size(value: int) -> str:
    for unit, factor in (("g", 2**30), ("m", 2**20), ("k", 2**10)):
        if value and value % factor == 0:
            return f"{value // factor}{unit}"
    return str(value)


def one_of(*words: str, aliases: Mapping[str, str] = MappingProxyType({})) -> Kind[Any]:
    """Accept one of some words; an alias is read as the word it stands for."""
    expected = "one of " + ", ".join([*words, *aliases])

    def read(raw: object, at: ReadContext) -> str:
        word = raw.strip().lower() if isinstance(raw, str) else ""
        if word in aliases:
            return aliases[word]
        if word not in words:
            raise InvalidValue(expected, raw, did_you_mean(word, [*words, *aliases]))
        return word

    return Kind(expected, read)


def text(expected: str = "a text", pattern: str = r"(?s).+") -> Kind[str]:
    """Accept a text that matches a pattern as a whole, without NUL."""

    def read(raw: object, at: ReadContext) -> str:
        if isinstance(raw, (int, float)) and not isinstance(raw, bool):
            raw = str(raw)
        if not isinstance(raw, str) or "\0" in raw or not re.fullmatch(pattern, raw):
            raise InvalidValue(expected, raw)
        return raw

    return Kind(expected, read)


def lower(kind: Kind[str]) -> Kind[str]:
    """Read a text without regard to case, as lower case."""
    return Kind(kind.expected, lambda raw, at: kind.read(raw, at).lower(), kind.show)


def path(*, in_root: bool = False) -> Kind[Path]:
    """Accept a path; `~` at its beginning is the home folder.

    A relative one belongs to the folder of the settings file that holds it, else to the working directory; with
    in_root to the base.
    """
    expected = "a path"

    def read(raw: object, at: ReadContext) -> Path:
        given = os.fspath(raw) if isinstance(raw, os.PathLike) else raw
        if not isinstance(given, str) or not given.strip() or "\0" in given:
            raise InvalidValue(expected, raw)
        if given == "~" or given.startswith(("~/", "~\\")):
            given = str(at.home) + given[1:]
        return (at.base if in_root else at.folder) / given

    return Kind(expected, read, str)


def nullable(kind: Kind[T]) -> Kind[T | None]:
    """Accept null (or nothing at all) as well."""
    expected = f"{kind.expected}, or null"

    def read(raw: object, at: ReadContext) -> T | None:
        if raw is None or (isinstance(raw, str) and raw.strip().lower() in ("", "null")):
            return None
        try:
            return kind.read(raw, at)
        except InvalidValue as e:
            raise InvalidValue(f"{e.expected}, or null", e.got, e.hint) from None

    return Kind(expected, read, lambda value: None if value is None else kind.show(value))


def keyword_or(words: tuple[str, ...], kind: Kind[Any]) -> Kind[Any]:
    """Accept one of some words, or the other kind; a list of just one of the words is that word."""
    start = ", ".join(words)
    expected = f"{start} or {kind.expected}"

    def read(raw: object, at: ReadContext) -> Any:
        only = raw[0] if isinstance(raw, (list, tuple)) and len(raw) == 1 else raw
        if isinstance(only, str) and only.strip().lower() in words:
            return only.strip().lower()
        return kind.read(raw, at)

    return Kind(expected, read, lambda value: value if value in words else kind.show(value))


def list_of(kind: Kind[T], many: str) -> Kind[tuple[T, ...]]:
    """Accept a list, or a text with commas between the items. many names the items."""
    expected = f"a list of {many}"

    def read(raw: object, at: ReadContext) -> tuple[T, ...]:
        if raw is None:
            items: list[object] = []
        elif isinstance(raw, str):
            items = [part.strip() for part in raw.split(",")] if raw.strip() else []
        elif isinstance(raw, (list, tuple, set, frozenset)):
            items = list(raw)
        else:
            raise InvalidValue(expected, raw)
        return tuple(kind.read(item, at) for item in items)

    return Kind(expected, read, lambda value: [kind.show(item) for item in value])


def map_of(keys: Kind[str], values: Kind[T], expected: str) -> Kind[Mapping[str, T]]:
    """Accept a map, or a text that holds one as JSON."""

    def read(raw: object, at: ReadContext) -> Mapping[str, T]:
        if isinstance(raw, str):
            try:
                raw = json.loads(raw, object_pairs_hook=_once)
            except (ValueError, RecursionError):
                raise InvalidValue(f"{expected}, as JSON", raw) from None
        if raw is None:
            raw = {}
        if not isinstance(raw, Mapping):
            raise InvalidValue(expected, raw)
        return MappingProxyType({keys.read(key, at): values.read(value, at) for key, value in raw.items()})

    return Kind(expected, read, lambda value: {key: values.show(each) for key, each in value.items()})


def settings_map() -> Kind[Mapping[str, Any]]:
    """Accept a map of settings, whose values are read where they are used."""
    expected = "a map of settings"

    def read(raw: object, at: ReadContext) -> Mapping[str, Any]:
        if not isinstance(raw, Mapping) or not all(isinstance(key, str) for key in raw):
            raise InvalidValue(expected, raw)
        return MappingProxyType(dict(raw))

    return Kind(expected, read, dict)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def tool_name() -> Kind[str]:
    """Accept the name of a tool."""

    def read(raw: object, at: ReadContext) -> str:
        name = raw.strip() if isinstance(raw, str) else ""
        known = (*at.tools, *chain(*PROFILES.values()))
        if name not in known:
            raise InvalidValue("the name of a tool", raw, did_you_mean(name, known))
        return name

    return Kind("the name of a tool", read)


def group_name() -> Kind[str]:
    """Accept the name of a tool group or of a tool."""

    def read(raw: object, at: ReadContext) -> str:
        name = raw.strip() if isinstance(raw, str) else ""
        groups = dict.fromkeys(at.tools.values())
        if name not in groups and name not in at.tools:
            near = did_you_mean(name, groups) or did_you_mean(name, at.tools)
            raise InvalidValue(f"a tool or one of the groups {', '.join(groups)}", raw, near)
        return name

    return Kind("the name of a group or tool", read)


def object_name_or(kind: Kind[Any]) -> Kind[Any]:
    """Accept `module:object`, which stays a text, or the other kind."""
    expected = f"{kind.expected} or module:object"

    def read(raw: object, at: ReadContext) -> Any:
        if isinstance(raw, str) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", raw):
            return raw
        return kind.read(raw, at)

    return Kind(expected, read, lambda value: value if isinstance(value, str) else kind.show(value))


def or_object(kind: Kind[T]) -> Kind[Any]:
    """Accept, besides what a person may write, an object handed over by a program that embeds the server."""

    def read(raw: object, at: ReadContext) -> Any:
        plain = raw is None or isinstance(raw, (str, int, float, list, dict, os.PathLike))
        return kind.read(raw, at) if plain else raw

    def show(value: Any) -> Any:
        plain = value is None or isinstance(value, (str, Path))
        return kind.show(value) if plain else f"<{type(value).__name__}>"

    return Kind(kind.expected, read, show)


def as_yaml(value: Any) -> str:
    """Write plain data, as show gives it, as YAML in one line; quotes only what needs it."""
    if isinstance(value, list):
        return f"[{', '.join(map(as_yaml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_yaml(key)}: {as_yaml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9._~/][A-Za-z0-9._~/-]*(:[A-Za-z0-9._-]+)*", value):
        return value
    return json.dumps(value, ensure_ascii=False)
