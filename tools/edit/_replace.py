"""Replacing text exactly: every line end counts as LF when matching, and nothing outside a match changes."""

import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...safety.errors import Code, ToolError

MAX_BYTES = 10 * 2**20
"""Size of a file that can be edited, before and after (TOOLS.md §1.6)."""
LINES_NAMED = 10
"""Line numbers that an ambiguous match names at most."""
LINES_KEPT = 100
"""Line numbers of matches that are worked out, more than any answer names."""


@dataclass(frozen=True)
class Replaced:
    """A text after a replacement, how many matches there were, and the lines, 1-based, where the first of them began."""

    text: str
    count: int
    lines: list[int]


class NoMatch(Exception):
    """The text to replace occurs nowhere in lf, a text with LF as its only line end."""

    def __init__(self, lf: str, wanted: str) -> None:
        super().__init__(wanted)
        self.lf = lf
        self.wanted = wanted


Span = tuple[int, int, str]
"""Where a replaced piece begins and ends in Matching.lf, and what comes there, as it is to be written."""


class NormalizedText:
    """A text read with every CRLF as LF, and the way back from an offset there to one in the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        # Not lists: a file of nothing but line ends has five million of them.
        # One character is found many times faster than two, and most text has none.
        pairs = re.finditer("\r\n", text) if "\r" in text else ()
        self._folds = array("q", (found.start() - index for index, found in enumerate(pairs)))
        self.lf = text.replace("\r\n", "\n") if self._folds else text

    def original(self, offset: int) -> int:
        """Return the offset in the text of a character of lf; a folded CRLF begins at its CR."""
        return offset + bisect_left(self._folds, offset)

    def cut(self, start: int, end: int) -> str:
        """Return a piece, named by offsets in lf, as the text has it."""
        return self._text[self.original(start) : self.original(end)]

    def spliced(self, spans: Iterable[Span]) -> str:
        """Return the text with some pieces replaced, which are in order and do not overlap. ToolError too_large."""
        parts: list[str] = []
        done, size = 0, len(self._text)
        for start, end, inserted in spans:
            first, last = self.original(start), self.original(end)
            # Told before the text is put together, as a small request can ask for terabytes.
            size += len(inserted) - (last - first)
            if size > MAX_BYTES and len(inserted) > last - first:
                raise too_large()
            parts += (self._text[done:first], inserted)
            done = last
        return "".join([*parts, self._text[done:]])

    def replace(self, old: str, new: str, line_end: str, *, every: bool) -> Replaced:
        """Return the text with old replaced by new, both taken literally.

        Raises NoMatch; ToolError empty_match, no_change, too_large, or ambiguous_match when old occurs more than once
        and every is false. line_end is what the line ends of new become.
        """
        given = old, new
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
        if not old:
            raise ToolError(
                Code.EMPTY_MATCH, "old_string is empty", "write_file creates files; name the text to replace"
            )
        count = self.lf.count(old)
        if not count:
            raise NoMatch(self.lf, old)
        if count > 1 and not every:
            raise ToolError(
                Code.AMBIGUOUS_MATCH,
                f"old_string occurs {count} times, at lines {named(self._lines(old), LINES_NAMED)}",
                "add surrounding lines until it is unique, or set replace_all",
            )
        if old == new:
            hint = "line ends stay those of the file; write_file can change them" if given[0] != given[1] else None
            raise ToolError(Code.NO_CHANGE, "old_string and new_string are the same", hint)
        return Replaced(self._replaced(old, written(new, line_end), count), count, self._lines(old))

    def _lines(self, old: str) -> list[int]:
        return line_numbers(self.lf, occurrences(self.lf, old, LINES_KEPT))

    def _replaced(self, old: str, inserted: str, count: int) -> str:
        if self._folds and set(old) & {"\r", "\n"}:
            if "\r" in old or len(self._folds) < self.lf.count("\n"):
                return self.spliced((start, start + len(old), inserted) for start in occurrences(self.lf, old))
            old = old.replace("\n", "\r\n")
        # Where all line ends are alike, what matches in lf matches the same in the text as it is.
        if len(inserted) > len(old) and len(self._text) + count * (len(inserted) - len(old)) > MAX_BYTES:
            raise too_large()
        return self._text.replace(old, inserted)


def too_large(max_bytes: int = MAX_BYTES) -> ToolError:
    """Return the refusal of a file that would grow too large to be edited again."""
    return ToolError(Code.TOO_LARGE, f"the file would be larger than {max_bytes} bytes after the edit")


def written(lf: str, line_end: str) -> str:
    """Return a text with LF as its only line end as it is written into a file with another."""
    return lf.replace("\n", line_end) if line_end != "\n" else lf


def named(lines: list[int], most: int) -> str:
    """Return line numbers as a list for people, the first ones only."""
    return ", ".join(map(str, lines[:most])) + (", ..." if len(lines) > most else "")


def line_numbers(text: str, offsets: Sequence[int]) -> list[int]:
    """Return the 1-based line of each of some growing offsets."""
    lines, line, at = [], 1, 0
    for offset in offsets:
        line += text.count("\n", at, offset)
        at = offset
        lines.append(line)
    return lines


def occurrences(text: str, wanted: str, most: int = sys.maxsize) -> Sequence[int]:
    """Return the offsets of a text, from left to right without overlap; at most so many places."""
    starts = array("q")
    at = text.find(wanted)
    while at >= 0 and len(starts) < most:
        starts.append(at)
        at = text.find(wanted, at + len(wanted))
    return starts
