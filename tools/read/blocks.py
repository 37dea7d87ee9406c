"""Blocks of lines, found by what they say and not by how they are indented."""

from collections.abc import Sequence

from toolbox_mcp.safety.errors import Code, ToolError

SHOWN = 10
"""Line numbers that an ambiguous match names at most."""


def split(lines: Sequence[str]) -> list[str]:
    """Return the lines of a block; an item that holds line breaks is several lines."""
    return [part for line in lines for part in line.replace("\r\n", "\n").split("\n")]


def find(block: Sequence[str], trimmed: Sequence[str]) -> list[int]:
    """Return where a block begins, 0-based, overlapping occurrences included.

    trimmed are the lines of the text without white space around them; the block is trimmed here.
    """
    wanted = [line.strip() for line in block]
    if not wanted:
        return []
    starts: list[int] = []
    at = -1
    while True:
        try:
            at = trimmed.index(wanted[0], at + 1)
        except ValueError:
            return starts
        if list(trimmed[at : at + len(wanted)]) == wanted:
            starts.append(at)


def find_once(block: Sequence[str], trimmed: Sequence[str], name: str) -> int:
    """Return where a block begins that has to occur exactly once; name is the argument it came in."""
    starts = find(block, trimmed)
    if not starts:
        raise ToolError(
            Code.NO_MATCH, f"{name} is nowhere in the file", "lines are compared without the white space around them"
        )
    if len(starts) > 1:
        lines = ", ".join(str(start + 1) for start in starts[:SHOWN])
        raise ToolError(
            Code.AMBIGUOUS_MATCH, f"{name} occurs {len(starts)} times, at lines {lines}", "add lines until it is unique"
        )
    return starts[0]
