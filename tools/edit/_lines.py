"""Inserting, replacing and deleting whole lines, found by blocks of lines that are compared trimmed."""

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...safety.errors import Code, ToolError
from ..search import blocks
from ._replace import LINES_NAMED, MAX_BYTES, NoMatch, named, too_large

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

    def __init__(self, text: str, line_end: str, max_bytes: int = MAX_BYTES) -> None:
        self._text = text
        self._line_end = line_end
        self._max_bytes = max_bytes
        self._lines = _LINE.split(text)
        # Where each line begins, and where the text ends. Not a list: a file of line ends alone has ten million.
        self._starts = array("q", [0])
        self._starts.extend(found.end() for found in _LINE.finditer(text))
        # What follows the final line end is no line.
        if not self._lines[-1]:
            self._lines.pop()
        else:
            self._starts.append(len(text))

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return len(self._lines)

    def insert(self, at: int, lines: Lines) -> LineEdit:
        """Put lines before the one of an index, or at the end where it is the number of lines."""
        return LineEdit(self._with([(at, at)], lines), 1, [at + 1], len(lines), 0)

    def insert_beside(self, block: Block, lines: Lines, *, after: bool) -> LineEdit:
        """Put lines before or after a block that occurs once. NoMatch; ToolError ambiguous_match."""
        start = self.find(block, 1, "add lines to match_lines until it is unique")[0]
        return self.insert(start + len(block.lines) if after else start, lines)

    def replace(self, block: Block, lines: Lines, expected: int) -> LineEdit:
        """Put lines in the place of each occurrence of a block. NoMatch; ToolError ambiguous_match."""
        starts = self.find(block, expected)
        text = self._with([(start, start + len(block.lines)) for start in starts], lines)
        count = len(starts)
        return LineEdit(text, count, [start + 1 for start in starts], count * len(lines), count * len(block.lines))

    def find(self, block: Block, expected: int, hint: str | None = None) -> list[int]:
        """Return the indexes of a block's occurrences, which must be as many as expected and not overlap.

        hint: what to do where they are not, for who can tell neither what is around the block nor how many there are.
        """
        starts = self._occurrences(block)
        if not starts:
            if alone := self._occurrences(Block(block.lines)):
                raise ToolError(
                    Code.NO_MATCH,
                    f"match_lines stands at line(s) {_told(alone)}, but not between before_lines and after_lines",
                    "read the lines around it again",
                )
            raise NoMatch("\n".join(self._lines), "\n".join(block.lines))
        size = len(block.lines)
        times = f"{len(starts)} times" if len(starts) <= blocks.MOST else f"more than {blocks.MOST} times"
        if any(later - earlier < size for earlier, later in pairwise(starts)):
            raise ToolError(
                Code.AMBIGUOUS_MATCH,
                f"match_lines occurs {times}, at lines {_told(starts)}, and these overlap",
                hint or "add more lines to match_lines, or before_lines and after_lines",
            )
        if len(starts) != expected or len(starts) > blocks.MOST:
            raise ToolError(
                Code.AMBIGUOUS_MATCH,
                f"match_lines occurs {times}, at lines {_told(starts)}; expected {expected}",
                hint or "add lines around it, or set expected_count",
            )
        return starts

    def _occurrences(self, block: Block) -> list[int]:
        """Return the places of a block in its surroundings, overlapping ones too."""
        sought = (*block.before, *block.lines, *block.after)
        return [start + len(block.before) for start in blocks.find(sought, self._lines, blocks.MOST + 1)]

    def _with(self, spans: Sequence[tuple[int, int]], lines: Lines) -> str:
        """Return the text with the same lines in the place of each span of lines. ToolError too_large."""
        size = sum(map(len, lines)) + len(lines) * len(self._line_end)
        # Told before the text is put together, as a small request can ask for terabytes.
        if len(self._text) - sum(self._length(*span) for span in spans) + len(spans) * size > self._max_bytes:
            raise too_large(self._max_bytes)
        inserted = "".join(line + self._line_end for line in lines)
        # Pieces of text, each with the length of the line end that it closes with.
        parts: list[tuple[str, int]] = []
        done = 0
        for start, end in spans:
            parts += [self._stretch(done, start), (inserted, len(self._line_end))]
            done = end
        parts = [part for part in (*parts, self._stretch(done, self.count)) if part[0]]
        if not self._text or self._text.endswith("\n"):
            return "".join(text for text, _ in parts)
        # A text without a final line end stays one, whichever line is its last.
        out = [text if closed else text + self._line_end for text, closed in parts[:-1]]
        out += [text[: len(text) - closed] for text, closed in parts[-1:]]
        return "".join(out)

    def _stretch(self, start: int, end: int) -> tuple[str, int]:
        """Return some lines as the text has them, and the length of the last one's line end."""
        if start == end:
            return "", 0
        return self._text[self._starts[start] : self._starts[end]], self._length(end - 1, end) - len(
            self._lines[end - 1]
        )

    def _length(self, start: int, end: int) -> int:
        """Return the number of characters of some lines, with their ends."""
        return self._starts[end] - self._starts[start]


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
