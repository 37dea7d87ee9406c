"""Finding a definition by name below a folder, and the places that name it."""

import re
from array import array
from collections.abc import Callable
from zlib import crc32

from ...safety.errors import ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.text import decode, visible
from ...safety.writes.atomic import read_whole
from ._definitions import Definition, Match, definitions, rank
from ._file import MAX_BYTES
from ._tree import Source, Tree

MAX_ROWS = 200
"""Rows of an answer (TOOLS.md §4.2)."""
_MAX_LINE = 200


def found(
    tree: Tree, query: str, kind: str | None, match: Match, stop: Callable[[], bool]
) -> list[tuple[Source, Definition]]:
    """Return the definitions below a folder that a query matches, the nearest first, then by path and line."""
    # The last part of the query is in the row of each definition that matches, so most files are done with at once.
    part = re.split(r"::|#|\.", query.casefold())[-1]
    letters = set(part)
    hits: list[tuple[int, str, int, Source, Definition]] = []
    for source, outline in tree.files:
        if stop():
            break
        rows = outline[0].casefold()
        if part not in rows if match != "fuzzy" else not letters <= set(rows):
            continue
        for each in definitions(outline[0]):
            if kind is not None and each.kind != kind:
                continue
            near = rank(each, query, match)
            if near is not None:
                hits.append((near, source.path, each.line, source, each))
    hits.sort(key=lambda hit: hit[:3])
    return [(source, each) for _, _, _, source, each in hits]


def references(
    tree: Tree, folder: JailedPath, name: str, most: int, stop: Callable[[], bool]
) -> tuple[list[str], bool]:
    """Return rows `PATH:LINE: TEXT` of the lines that mention a name, definitions of it included; and whether there are more."""
    word = name.rpartition(".")[2].rpartition("::")[2]
    checksum = crc32(word.rstrip("?!=").encode())
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    rows: list[str] = []
    for source, (_, _, names, _) in tree.files:
        if stop():
            break
        if len(word) > 2 and checksum not in array("I", names):
            continue
        place = folder
        for part in source.path.split("/"):
            place = place.child(part)
        try:
            text = decode(read_whole(place, MAX_BYTES)[0]).lf
        except ToolError:
            continue
        if word not in text:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if pattern.search(line):
                if len(rows) == most:
                    return rows, True
                rows.append(f"{tree.shown(source)}:{number}: {visible(line.strip()[:_MAX_LINE])}")
    return rows, False
