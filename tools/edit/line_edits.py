"""Inserting, replacing and deleting whole lines, found by blocks of lines that are compared trimmed."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.tools.edit.replacing import LINES_NAMED, NoMatch, named

MOST = 100_000
"""Occurrences that are counted; above that the exact number says no more."""

_LINE = re.compile(r"\r?\n")

Lines = Sequence[str]


@dataclass(frozen=True)
class LineEdit:
    """A text after an edit of lines.

    count: blocks edited. at: 1-based lines; of an insertion in the text after, else in the text before. added, removed: lines.
    """

    text: str
    count: int
    at: list[int]
    added: int
    removed: int


@dataclass(frozen=True)
class Block:
    """Lines sought, and those that have to stand right before and right after them."""

    lines: Lines
    before: Lines = ()
    after: Lines = ()


class Document:
    """The lines of a text, each with the line end it has; the last one may have none."""

    def __init__(self, text: str, line_end: str) -> None:
        ends = [found.group() for found in _LINE.finditer(text)]
        self._lines = _LINE.split(text)
        # What follows the final line end is no line.
        if not self._lines[-1]:
            self._lines.pop()
        self._ends = ends
        self._line_end = line_end
        self._trimmed = [line.strip() for line in self._lines]

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return len(self._lines)

    def insert(self, at: int, lines: Lines) -> LineEdit:
        """Put lines before the one of an index, or at the end where it is the number of lines."""
        return LineEdit(self._with([(at, at)], lines), 1, [at + 1], len(lines), 0)

    def insert_beside(self, block: Block, lines: Lines, *, after: bool) -> LineEdit:
        """Put lines before or after a block that occurs once. NoMatch; ToolError ambiguous_match."""
        start = self.find(block, 1)[0]
        return self.insert(start + len(block.lines) if after else start, lines)

    def replace(self, block: Block, lines: Lines, expected: int) -> LineEdit:
        """Put lines in the place of each occurrence of a block. NoMatch; ToolError ambiguous_match."""
        starts = self.find(block, expected)
        text = self._with([(start, start + len(block.lines)) for start in starts], lines)
        count = len(starts)
        return LineEdit(text, count, [start + 1 for start in starts], count * len(lines), count * len(block.lines))

    def find(self, block: Block, expected: int) -> list[int]:
        """Return the indexes of a block's occurrences, which must be as many as expected and not overlap."""
        starts = self._occurrences(block)
        if not starts:
            if alone := self._occurrences(Block(block.lines)):
                raise ToolError(
                    Code.NO_MATCH,
                    f"match_lines stands at line {_told(alone)}, but not between before_lines and after_lines",
                    "read the lines around it again",
                )
            raise NoMatch("\n".join(self._lines), "\n".join(block.lines))
        size = len(block.lines)
        if any(later - earlier < size for earlier, later in pairwise(starts)):
            raise ToolError(
                Code.AMBIGUOUS_MATCH,
                f"match_lines occurs {len(starts)} times, at lines {_told(starts)}, and these overlap",
                "add more lines to match_lines, or before_lines and after_lines",
            )
        if len(starts) != expected:
            raise ToolError(
                Code.AMBIGUOUS_MATCH,
                f"match_lines occurs {len(starts)} times, at lines {_told(starts)}; expected {expected}",
                "add lines around it, or set expected_count",
            )
        return starts

    def _occurrences(self, block: Block) -> list[int]:
        """Return where a block stands in its surroundings, overlapping ones too; at most MOST."""
        before, lines, after = ([line.strip() for line in part] for part in (block.before, block.lines, block.after))
        # A character for each line that is sought and one for all others: then finding lines is finding text, which
        # the system does in linear time.
        codes: dict[str, str] = {}
        for line in (*before, *lines, *after):
            codes.setdefault(line, chr(min(len(codes) + 1, sys.maxunicode)))
        if len(codes) >= sys.maxunicode:
            raise ToolError(Code.TOO_LARGE, f"more than {sys.maxunicode} different lines are sought")
        have = "".join([codes.get(line, "\0") for line in self._trimmed])
        sought = "".join([codes[line] for line in (*before, *lines, *after)])
        starts: list[int] = []
        at = have.find(sought)
        while at >= 0 and len(starts) < MOST:
            starts.append(at + len(before))
            at = have.find(sought, at + 1)
        return starts

    def _with(self, spans: Sequence[tuple[int, int]], lines: Lines) -> str:
        """Return the text with the same lines in the place of each span of lines."""
        rows: list[tuple[str, str | None]] = []
        done = 0
        for start, end in spans:
            rows += self._rows(done, start)
            rows += [(line, self._line_end) for line in lines]
            done = end
        rows += self._rows(done, len(self._lines))
        parts: list[str] = []
        for line, line_end in rows:
            parts += (line, line_end or self._line_end)
        # A text without a final line end stays one, whichever line is its last.
        if parts and len(self._ends) < len(self._lines):
            parts.pop()
        return "".join(parts)

    def _rows(self, start: int, end: int) -> list[tuple[str, str | None]]:
        return [(self._lines[i], self._ends[i] if i < len(self._ends) else None) for i in range(start, end)]


def split(items: Lines) -> list[str]:
    """Return items as lines: those with line breaks in them are several; a line break at the end only ends the line."""
    out: list[str] = []
    for item in items:
        lines = _LINE.split(item)
        if len(lines) > 1 and not lines[-1]:
            lines.pop()
        out += lines
    return out


def _told(starts: list[int]) -> str:
    return named([start + 1 for start in starts], LINES_NAMED)
