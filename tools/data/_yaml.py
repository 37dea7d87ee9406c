"""YAML documents as plain data. For the worker alone: libyaml is C code, and aliases multiply.

The parser's events are put together here, without a loader: nothing recurses, no tag makes an object, and aliases, merges
and depth are counted before they cost anything.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from ...safety.errors import Code, ToolError
from ._query import Place

MAX_DEPTH = 64
MAX_ALIASES = 100
MAX_NODES = 100_000
"""Levels of nesting, aliases, and nodes of an answer with every alias expanded. The three bounds are TOOLS.md §4.3's."""
MAX_DIGITS = 4000
"""Digits of a number, as for JSON."""

_CORE = "tag:yaml.org,2002:"
_COLLECTIONS = {"map", "seq", "set", "omap", "pairs"}
_TEXTS = {"str", "binary", "timestamp"}

# YAML 1.1's, as PyYAML reads them, without base 60 and without dates, which stay text as they are written.
_INT = re.compile(r"([-+]?)(?:0b([01_]+)|0x([0-9a-fA-F_]+)|0([0-7_]+)|(0|[1-9][0-9_]*))")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, Any] = {
    **{word: True for base in ("yes", "true", "on") for word in (base, base.capitalize(), base.upper())},
    **{word: False for base in ("no", "false", "off") for word in (base, base.capitalize(), base.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_FIRST = frozenset("-+.0123456789")

_MERGE = object()


def parsed(text: str, document: int = 1) -> Any:
    """Return the value of one document of a stream, counting from 1. ToolError bad_yaml, invalid_args."""
    seen = 0
    try:
        events = _events(text)
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                seen += 1
                if seen == document:
                    return _Composer(events).compose()
    except yaml.YAMLError as e:
        raise _unreadable(e) from None
    if document == 1:
        return None
    count = "1 document" if seen == 1 else f"{seen} documents"
    raise ToolError(Code.INVALID_ARGS, f"document: expected 1 to {max(1, seen)}, the text has {count}")


def _events(text: str) -> Iterator[yaml.Event]:
    # As yaml.parse, without a step of Python for each event.
    return iter(getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text).get_event, None)


class _Open:
    """A collection whose end has not come. key: that of the member to come, of a mapping."""

    __slots__ = ("anchor", "key", "merges", "tag", "value")

    def __init__(self, value: Any, tag: str, anchor: str | None) -> None:
        self.value = value
        self.tag = tag
        self.anchor = anchor
        self.key: Any = None
        self.merges: list[tuple[Any, yaml.Event]] = []


class _Composer:
    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._open: list[_Open] = []
        self._anchors: dict[str, Any] = {}
        self._unfinished: set[str] = set()
        self._aliases = 0
        self._result: Any = None

    def compose(self) -> Any:
        for event in self._events:
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._begin(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._end(event)
                case yaml.AliasEvent():
                    self._put(self._alias(event), event)
                case yaml.DocumentEndEvent():
                    break
        return self._result

    def _begin(self, event: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise _bad(f"nested deeper than {MAX_DEPTH} levels", event)
        mapping = isinstance(event, yaml.MappingStartEvent)
        if mapping and self._awaits_key:
            raise _bad("a key is a mapping", event)
        if not mapping and self._awaits_key:
            raise _bad("a key is a list", event)
        self._check_tag(event, _COLLECTIONS)
        if event.anchor:
            self._anchors.pop(event.anchor, None)
            self._unfinished.add(event.anchor)
        self._open.append(_Open({} if mapping else [], event.tag or "", event.anchor))

    def _end(self, event: yaml.Event) -> None:
        done = self._open.pop()
        if done.merges:
            done.value = _merged(done)
        if done.anchor:
            self._unfinished.discard(done.anchor)
            self._anchors[done.anchor] = done.value
        self._put(done.value, event)

    @property
    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _scalar(self, event: Any) -> None:
        self._check_tag(event, {"str", "binary", "timestamp", "int", "float", "bool", "null"})
        if self._awaits_key:
            # As it is written: `on`, `1` and `null` are keys that are asked for by these names.
            plain_merge = event.value == "<<" and event.implicit[0]
            self._open[-1].key = _MERGE if plain_merge else event.value
            if event.anchor:
                self._anchors[event.anchor] = event.value
            return
        value = _value(event)
        if event.anchor:
            self._anchors[event.anchor] = value
        self._put(value, event)

    def _alias(self, event: Any) -> Any:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise _bad(f"more than {MAX_ALIASES} aliases", event)
        if event.anchor in self._anchors:
            return self._anchors[event.anchor]
        if event.anchor in self._unfinished:
            raise _bad(f"the alias *{event.anchor} stands for what it is in", event)
        raise _bad(f"the alias *{event.anchor} has no anchor before it", event)

    def _put(self, value: Any, event: yaml.Event) -> None:
        """Put a finished value where it belongs."""
        if not self._open:
            self._result = value
            return
        above = self._open[-1]
        if isinstance(above.value, list):
            above.value.append(value)
        elif above.key is None:
            # Only an alias comes as a key by this way.
            if isinstance(value, dict | list):
                raise _bad("a key is a list or a mapping", event)
            above.key = value if isinstance(value, str) else _key(value)
        elif above.key is _MERGE:
            self._merge(above, value, event)
            above.key = None
        else:
            above.value[above.key] = value
            above.key = None

    def _merge(self, above: _Open, value: Any, event: yaml.Event) -> None:
        for mapping in value if isinstance(value, list) else [value]:
            if not isinstance(mapping, dict):
                raise _bad("<< merges a mapping or a list of mappings", event)
            above.merges.append((mapping, event))
            if len(above.merges) > MAX_ALIASES:
                raise _bad(f"<< merges more than {MAX_ALIASES} mappings", event)

    def _check_tag(self, event: Any, known: set[str]) -> None:
        tag = event.tag
        if tag and tag != "!" and not (tag.startswith(_CORE) and tag[len(_CORE) :] in known):
            raise _bad(f"the tag {tag.replace(_CORE, '!!')[:100]} is no plain data", event)


def _merged(mapping: _Open) -> dict[str, Any]:
    """Return a mapping with what it merges: its own keys win, then those of the first merged."""
    out: dict[str, Any] = {}
    for source, event in reversed(mapping.merges):
        out.update(source)
        if len(out) > MAX_NODES:
            raise _bad(f"<< merges more than {MAX_NODES} keys", event)
    out.update(mapping.value)
    return out


def _key(value: Any) -> str:
    return (
        {None: "null", True: "true", False: "false"}.get(value, str(value))
        if value in (None, True, False)
        else str(value)
    )


def _value(event: Any) -> Any:
    text: str = event.value
    tag = event.tag
    if tag and tag.startswith(_CORE):
        return _tagged(event, tag[len(_CORE) :])
    # implicit: whether the tag may be left out for a plain scalar; a quoted one is text.
    if tag == "!" or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    return _number(event) if text[0] in _FIRST else text


def _number(event: Any) -> Any:
    text: str = event.value
    if found := _INT.fullmatch(text):
        sign, *digits = found.groups()
        base, literal = next(
            (base, part) for base, part in zip((2, 16, 8, 10), digits, strict=True) if part is not None
        )
        literal = literal.replace("_", "")
        if len(literal) > MAX_DIGITS:
            raise _bad(f"a number has more than {MAX_DIGITS} digits", event)
        return int(sign + literal, base) if literal else text
    if _FLOAT.fullmatch(text):
        value = float(text.replace("_", "")) if len(text) <= MAX_DIGITS else math.inf
        if math.isinf(value):
            raise _bad("a number is out of range", event)
        return value
    return text


def _tagged(event: Any, tag: str) -> Any:
    text: str = event.value
    if tag in _TEXTS:
        return text
    wanted: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}
    value = _WORDS[text] if text in _WORDS else _number(event) if text[:1] in _FIRST and text else text
    if tag == "float" and _SPECIAL.fullmatch(text):
        return text
    if not isinstance(value, wanted[tag]) or (isinstance(value, bool) and tag != "bool"):
        raise _bad(f"{text[:40]!r} is no !!{tag}", event)
    return float(value) if tag == "float" and isinstance(value, int) else value


def count_nodes(value: Any) -> int:
    """Return the nodes of a value with every alias expanded."""
    sizes: dict[int, int] = {}

    def count(node: Any) -> int:
        if not isinstance(node, dict | list):
            return 1
        known = sizes.get(id(node))
        if known is None:
            members = node.values() if isinstance(node, dict) else node
            known = sizes[id(node)] = 1 + sum(map(count, members))
        return known

    return count(value)


def located(text: str, document: int, place: Place) -> tuple[int, int] | None:
    """Return line and column of the value at a place of a document that parses; None inside of an alias or a merge."""
    way: list[list[Any]] = []
    seen = 0
    for event in _events(text):
        if isinstance(event, yaml.DocumentStartEvent):
            seen += 1
        if seen != document or not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            way.pop()
            continue
        above = way[-1] if way else None
        if above and above[0] == "map" and not above[2]:
            above[1], above[2] = getattr(event, "value", None), True
            continue
        if above and above[0] == "map":
            above[2] = False
        elif above:
            above[1] += 1
        if len(way) == len(place) and tuple(step[1] for step in way) == place:
            mark = event.start_mark
            assert mark is not None
            return mark.line + 1, mark.column + 1
        if isinstance(event, yaml.MappingStartEvent):
            way.append(["map", None, False])
        elif isinstance(event, yaml.SequenceStartEvent):
            way.append(["list", -1])
    return None


def _bad(sentence: str, event: yaml.Event) -> ToolError:
    mark = event.start_mark
    assert mark is not None
    return _refusal(f"{sentence} at line {mark.line + 1}, column {mark.column + 1}")


def _unreadable(error: yaml.YAMLError) -> ToolError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).split("\n")[0]
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    if not mark and isinstance(getattr(error, "position", None), int):
        where = f" at character {error.position + 1}"  # type: ignore[attr-defined]
    return _refusal(f"{problem}{where}")


def _refusal(sentence: str) -> ToolError:
    return ToolError(Code.BAD_YAML, f"the YAML does not parse: {sentence}"[:1000])
