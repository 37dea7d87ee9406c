"""Blocks of lines, found by what they say and not by how they are indented."""

import sys
from collections.abc import Iterable, Sequence

from ...safety.errors import Code, ToolError

SHOWN = 10
"""Line numbers that an ambiguous match names at most."""
MOST = 100_000
"""Occurrences that are counted; above that the exact number says no more."""


def split(lines: Sequence[str]) -> list[str]:
    """Return the lines of a block; an item that holds line breaks is several lines, and one at its end ends the last."""
    return [part for line in lines for part in line.replace("\r\n", "\n").removesuffix("\n").split("\n")]


def find(block: Sequence[str], lines: Iterable[str], most: int = MOST) -> list[int]:
    """Return the 0-based starts of a block, overlapping occurrences included; at most so many.

    All lines are compared without the white space around them. ToolError too_large.
    """
    wanted = [line.strip() for line in block]
    if not wanted:
        return []
    # A character for each line that is sought and one for all others: then finding lines is finding text, which
    # the system does in linear time.
    codes: dict[str, str] = {}
    for line in wanted:
        codes.setdefault(line, chr(min(len(codes) + 1, sys.maxunicode)))
    if len(codes) >= sys.maxunicode:
        raise ToolError(Code.TOO_LARGE, f"more than {sys.maxunicode} different lines are sought")
    have = "".join([codes.get(line.strip(), "\0") for line in lines])
    sought = "".join([codes[line] for line in wanted])
    starts: list[int] = []
    at = have.find(sought)
    while at >= 0 and len(starts) < most:
        starts.append(at)
        at = have.find(sought, at + 1)
    return starts


def find_once(block: Sequence[str], lines: Sequence[str], name: str) -> int:
    """Return the start of a block that has to occur exactly once; name is the argument it came in."""
    starts = find(block, lines)
    if not starts:
        raise ToolError(
            Code.NO_MATCH, f"{name} is nowhere in the file", "lines are compared without the white space around them"
        )
    if len(starts) > 1:
        told = ", ".join(str(start + 1) for start in starts[:SHOWN])
        raise ToolError(
            Code.AMBIGUOUS_MATCH, f"{name} occurs {len(starts)} times, at lines {told}", "add lines until it is unique"
        )
    return starts[0]
