"""Stretches of a file of any size: a range of lines, or the last ones, in constant memory."""

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass

from ...safety.errors import Code, ToolError
from ...safety.text import Newline
from ..blocking import IsCancelled

CHUNK = 2**18
COLLECTED = 5 * 2**20
"""Bytes that a range or a tail collects at most (TOOLS.md §4.1)."""

LF = b"\n"

_INSIDE = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that begin no character


@dataclass(frozen=True)
class LineRange:
    """Lines as bytes without their line feeds.

    cut: more was asked for than there is room. part: the one line here is cut itself, being longer than there is room.
    ended: the last line has a line feed.
    """

    lines: list[bytes]
    cut: bool
    part: bool = False
    ended: bool = True

    def newline(self, encoding: str) -> Newline:
        """Return the line ends in use."""
        mark = "\r".encode(encoding)
        ended = self.lines if self.ended else self.lines[:-1]
        crlf = sum(line.endswith(mark) for line in ended)
        return "none" if not ended else "lf" if not crlf else "crlf" if crlf == len(ended) else "mixed"


def unit(encoding: str) -> bytes:
    """Return the line feed of an encoding."""
    return {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}.get(encoding, LF)


def line_range(fd: int, skip: int, start: int, end: int | None, feed: bytes, stop: IsCancelled) -> LineRange:
    """Return lines start to end, 1-based and inclusive. skip: bytes of a byte order mark.

    ToolError empty_range when the file ends before start.
    """
    lines: list[bytes] = []
    room = COLLECTED
    number = 1
    piece = bytearray()
    for data in _chunks(fd, skip, stop):
        if number < start and number + (feeds := _count(data, feed)) < start:
            number += feeds
            continue
        at = 0
        while at < len(data):
            cut = _next(data, at, feed)
            inside = number >= start
            stretch = data[at : len(data) if cut < 0 else cut]
            if inside:
                room -= len(stretch)
                if room < 0:
                    part = LineRange([bytes(piece + stretch[:room])], True, part=True, ended=False)
                    return LineRange(lines, True) if lines else part
                piece += stretch
            if cut < 0:
                break
            if inside:
                lines.append(bytes(piece))
                piece.clear()
                if end is not None and number >= end:
                    return LineRange(lines, False)
                # Lines with nothing in them take room, too.
                room -= len(feed)
            at = cut + len(feed)
            number += 1
    ended = not (number >= start and piece)
    if not ended:
        lines.append(bytes(piece))
    if not lines:
        raise ToolError(
            Code.EMPTY_RANGE,
            f"start_line {start} is beyond the end of the file",
            f"it has {count_lines(fd, skip, feed, stop)} lines",
        )
    return LineRange(lines, False, ended=ended)


def last_lines(fd: int, skip: int, end: int, count: int, feed: bytes, stop: IsCancelled) -> LineRange:
    """Return the last lines of what a file holds before an offset, reading it backwards."""
    at = end
    found, held = 0, bytearray()
    while at > skip and found <= count and len(held) <= COLLECTED and not stop():
        size = min(CHUNK, at - skip)
        # Whole code units, so that a line feed of UTF-16 is never cut in two.
        size -= (at - skip - size) % len(feed) if at - size > skip else 0
        at -= size
        data = os.pread(fd, size, at)
        # The line feed at the very end begins no line.
        found += _count(data, feed) - (not held and data.endswith(feed))
        held[:0] = data
    lines = _split(bytes(held), feed)
    ended = _is_ended(held, feed)
    whole = lines[1:] if at > skip and found < count else lines  # the first one began before what was read
    if lines and (not whole or len(whole[-1]) > COLLECTED):
        part = lines[-1][-(COLLECTED // len(feed) * len(feed)) :]
        return LineRange([part.lstrip(_INSIDE) if len(feed) == 1 else part], True, part=True, ended=ended)
    wanted = min(count, len(whole))
    kept, room = 0, COLLECTED
    for line in reversed(whole[len(whole) - wanted :]):
        room -= len(line)
        if room < 0:
            break
        kept += 1
    return LineRange(whole[len(whole) - kept :], kept < (count if at > skip else wanted), ended=ended)


def count_lines(fd: int, skip: int, feed: bytes, stop: IsCancelled, end: int | None = None) -> int:
    """Return the number of lines of a file, or of its part before an offset; a last one without a line feed counts."""
    feeds, ended = 0, True
    for data in _chunks(fd, skip, stop, end):
        feeds += _count(data, feed)
        ended = _is_ended(data, feed)
    return feeds if ended else feeds + 1


def _is_ended(data: bytes | bytearray, feed: bytes) -> bool:
    # Half a code unit is no line feed, whatever stands before it.
    return data.endswith(feed) and len(data) % len(feed) == 0


def _chunks(fd: int, skip: int, stop: IsCancelled, end: int | None = None) -> Iterator[bytes]:
    # Not much further than the file was: else one that grows as fast as it is read would be read for ever.
    end = os.fstat(fd).st_size + COLLECTED if end is None else end
    at = skip
    while at < end and not stop():
        data = os.pread(fd, min(CHUNK, end - at), at)
        if not data:
            return
        at += len(data)
        yield data


def _next(data: bytes, at: int, feed: bytes) -> int:
    while True:
        found = data.find(feed, at)
        if found < 0 or len(feed) == 1 or found % 2 == 0:
            return found
        at = found + 1


def _count(data: bytes, feed: bytes) -> int:
    """Return the number of line feeds in the data."""
    return data.count(feed) if len(feed) == 1 else len(_split(data + b"\xff\xff", feed)) - 1


def _split(data: bytes, feed: bytes) -> list[bytes]:
    if len(feed) == 1:
        lines = data.split(feed)
    else:
        lines, at = [], 0
        while (cut := _next(data, at, feed)) >= 0:
            lines.append(data[at:cut])
            at = cut + len(feed)
        lines.append(data[at:])
    return lines[:-1] if lines[-1] == b"" else lines


def decoded(stretch: LineRange, encoding: str) -> list[str]:
    """Return lines as text: CRLF as LF, U+FFFD for what is not valid."""
    decode = codecs.getdecoder(encoding)
    lines = [decode(line, "replace")[0] for line in stretch.lines]
    last = lines[-1:] if not stretch.ended else []
    return [line.removesuffix("\r") for line in lines[: len(lines) - len(last)]] + last
