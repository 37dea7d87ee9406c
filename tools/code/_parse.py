"""Definitions and references of source files. For the worker alone: grammars are C code."""

import importlib
import re
import time
from array import array
from collections import Counter
from functools import cache
from importlib import resources
from itertools import islice
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ...safety.text import decode, is_binary
from . import queries
from ._languages import LANGUAGES

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

MAX_SECONDS = 1.0
"""Seconds that the grammar may take for one file of a tree; a megabyte takes a tenth of that."""
MAX_DEFINITIONS = 50_000
"""Definitions of one file; generated code has more, and no answer holds as many."""
MAX_NAME = 200
"""Characters of a name."""
MAX_REFERENCES = 20_000
"""Different names of one file that count as references."""

_CHUNK = 2**16
_IDENTIFIER = re.compile(rb"[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]{2,60}")
_CPP = re.compile(rb"^[ \t]*(?:class|namespace|template|using)\b|\bpublic:|\bstd::", re.MULTILINE)
_CONTAINERS = frozenset({"class", "interface", "type"})

Parsed = tuple[str, int, bytes, bytes]
"""The definitions of a file, one a line as `line TAB last line TAB level TAB kind TAB name`; the line of the first syntax error,
0 where there is none, -1 where the grammar gave up; and the names that it mentions: checksums of 32 bits, counts of 8."""


def parsed(files: list[tuple[str, bytes]], references: bool, seconds: float = MAX_SECONDS) -> list[Parsed]:
    """Return the definitions and mentions of each file. files: (language, content)."""
    return [_parsed(language, data, references, seconds) for language, data in files]


def _parsed(language: str, data: bytes, references: bool, seconds: float) -> Parsed:
    if is_binary(data):
        return "", 0, b"", b""
    data = decode(data).text.encode()
    if language == "c" and _CPP.search(data):
        # A header says by its content alone in which of the two languages it is.
        language = "cpp"
    names, counts = _mentioned(data) if references else (b"", b"")
    deadline = time.monotonic() + seconds
    parser, query = _grammar(language)
    try:
        tree = parser.parse(
            lambda at, _: data[at : at + _CHUNK], progress_callback=lambda _, __: time.monotonic() > deadline
        )
    except ValueError:
        parser.reset()
        return "", -1, names, counts
    root = tree.root_node
    rows = _rows(_definitions(root, query, data))
    return "\n".join(rows), _first_error(root) if root.has_error else 0, names, counts


@cache
def _grammar(language: str) -> "tuple[Parser, Query]":
    from tree_sitter import Language, Parser, Query

    found = LANGUAGES[language]
    grammar = Language(getattr(importlib.import_module(found.module), found.function)())
    source = resources.files(queries).joinpath(f"{language}.scm").read_text(encoding="utf-8")
    return Parser(grammar), Query(grammar, source)


def _mentioned(data: bytes) -> tuple[bytes, bytes]:
    count = Counter(_IDENTIFIER.findall(data))
    most = list(islice(count.items(), MAX_REFERENCES))
    return array("I", [crc32(name) for name, _ in most]).tobytes(), bytes(min(255, number) for _, number in most)


_Definition = tuple[int, int, int, int, str, str]
"""First byte, minus the last byte, line, last line, kind, name."""


def _definitions(root: "Node", query: "Query", data: bytes) -> list[_Definition]:
    from tree_sitter import QueryCursor

    out: dict[tuple[int, int, str], tuple[int, _Definition]] = {}
    for pattern, captures in QueryCursor(query).matches(root):
        what = next(name for name in captures if name.startswith("definition."))
        node = captures[what][0]
        name = _name(captures, query.pattern_settings(pattern), data)
        until = captures.get("until", captures[what])[0]
        key = (node.start_byte, until.end_byte, name)
        # Of two patterns for one definition the first in the file says more.
        if not name or (pattern >= out[key][0] if key in out else len(out) >= MAX_DEFINITIONS):
            continue
        first, (row, column) = node.start_point[0] + 1, until.end_point
        last = max(first, row + bool(column))
        out[key] = (pattern, (node.start_byte, -until.end_byte, first, last, what.removeprefix("definition."), name))
    return sorted(definition for _, definition in out.values())


def _name(captures: dict[str, list[Any]], settings: dict[str, str | None], data: bytes) -> str:
    if fixed := settings.get("name"):
        return fixed
    name = _text(captures["name"][0], data)
    if receiver := captures.get("receiver"):
        name = f"{_text(receiver[0], data)}.{name}"
    if trait := captures.get("trait"):
        name = f"{_text(trait[0], data)} for {name}"
    return (settings.get("prefix") or "") + name


def _text(node: "Node", data: bytes) -> str:
    text = data[node.start_byte : min(node.end_byte, node.start_byte + 4 * MAX_NAME)]
    return " ".join(text.decode("utf-8", "replace").split())[:MAX_NAME]


def _rows(definitions: list[_Definition]) -> list[str]:
    rows: list[str] = []
    around: list[tuple[int, str]] = []
    for start, end, line, last, found, name in definitions:
        kind = found
        while around and around[-1][0] <= start:
            around.pop()
        if kind == "function" and around and around[-1][1] in _CONTAINERS:
            kind = "method"
        rows.append(f"{line}\t{last}\t{len(around)}\t{kind}\t{name}")
        around.append((-end, kind))
    return rows


def _first_error(root: "Node") -> int:
    """Return the line of the first place that does not parse."""
    node = root
    while True:
        if node.is_error or node.is_missing:
            return node.start_point[0] + 1
        below = next((child for child in node.children if child.has_error or child.is_error or child.is_missing), None)
        if below is None:
            return node.start_point[0] + 1
        node = below
