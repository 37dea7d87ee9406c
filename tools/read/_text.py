"""What read_file shows of a text file: whole, a range, the end, or what lies between two markers."""

import codecs
import os
from collections.abc import Callable, Sequence
from typing import Any

from ...safety.errors import Code, ToolError
from ...safety.image_formats import image_format
from ...safety.path_jail.roots import JailedPath
from ...safety.text import HEAD, Decoded, decode, is_binary, visible
from ...safety.writes.file_version import etag
from ..blocking import IsCancelled
from ..results import Result, Text
from ..search import blocks
from . import _line_range as line_range
from . import _notebook as notebook
from ._answer import REPLACED, Lines

MAX_BYTES = 5 * 2**20
"""Size of a file that is read whole."""
MARKED_LINES = 2000
"""Lines that two markers may enclose. Both bounds are TOOLS.md §4.1's."""
CACHED = 2**18
"""Bytes of a file that is read without a thread where the kernel has them in memory; a guess: showing them takes half
a millisecond."""

UNCUT = 2000
"""Bytes of an answer that no usual budget cuts."""
COUNTED = 64 * 2**20
"""Size of a file whose lines are counted for an answer that gives some of them; a guess: 50 ms."""

PDF, PDF_WITHIN = b"%PDF-", 1024
"""What a PDF begins with, and within how many bytes readers of PDF accept it."""

BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def whole_bytes(place: JailedPath, stop: IsCancelled, parts: bool = True) -> bytes:
    """Return the bytes of a regular file of at most 5 MiB. What grows while it is read is cut off as too_large.

    parts: the hint then names the ways to read a part.
    """
    fd = place.open_file()
    try:
        data = bytearray()
        while len(data) <= MAX_BYTES and not stop():
            piece = os.read(fd, MAX_BYTES + 1 - len(data))
            if not piece:
                return bytes(data)
            data += piece
    finally:
        os.close(fd)
    hint = "read a part of it: start_line and end_line, or tail" if parts and not is_pdf(bytes(data[:HEAD])) else None
    raise ToolError(Code.TOO_LARGE, f"{place.shown} is above 5 MiB", hint)


def cached_bytes(place: JailedPath) -> tuple[bytes, JailedPath] | None:
    """Return the bytes of a small file that lies in the kernel's cache, and where its links lead; None for any other.

    Never waits for a disk or another machine. Linux; elsewhere always None.
    """
    # What is no file is refused with a look at its neighbours, which may take a quarter of a second.
    if not (place.was_file and hasattr(os, "RWF_NOWAIT")):
        return None
    try:
        fd, at = place.open_target()
    except ToolError:
        return None
    try:
        size = os.fstat(fd).st_size
        if not 0 < size <= CACHED:
            return None
        room = bytearray(size + 1)
        # A short read is a file of which a part is elsewhere; one byte more, a file that grows.
        return (bytes(room[:size]), at) if os.preadv(fd, [room], 0, os.RWF_NOWAIT) == size else None
    except OSError:
        return None
    finally:
        os.close(fd)


def whole(place: JailedPath, numbered: bool, stop: IsCancelled) -> tuple[Result | bytes, str]:
    """Return the text of a file, or the bytes of a PDF or an image; and the etag."""
    return shown(place, whole_bytes(place, stop), numbered)


def shown(place: JailedPath, data: bytes, numbered: bool) -> tuple[Result | bytes, str]:
    """Return the text of a file with these bytes, or the bytes if they are a PDF or an image; and the etag."""
    tag = etag(data)
    if is_pdf(data) or place.name.lower().endswith(".pdf") or image_format(data):
        return data, tag
    if is_binary(data):
        raise _binary(place)
    text = decode(data)
    meta = _whole_meta(data, text, tag)
    if not data or not text.text:
        return Text("(empty file)", meta=meta), tag
    if place.name.lower().endswith(".ipynb") and (cells := notebook.cells(text.text)) is not None:
        return of_lines(visible(cells), 1, None, None, numbered, meta), tag
    lines = visible(text.lf).removesuffix("\n").split("\n")
    return Lines(lines, total=len(lines), numbered=numbered, note=_replaced(text), meta=meta), tag


def of_lines(text: str, start: int, end: int | None, tail: int | None, numbered: bool, meta: dict[str, Any]) -> Lines:
    """Return lines start to end of a text that was made of a file, or the last ones. ToolError empty_range."""
    lines = text.split("\n")
    if tail:
        start, end = max(1, len(lines) - tail + 1), None
    some = lines[start - 1 : end]
    if not some:
        raise ToolError(
            Code.EMPTY_RANGE, f"start_line {start} is beyond the end of the text", f"it has {len(lines)} lines"
        )
    return Lines(some, start, len(lines), numbered=numbered, latest=bool(tail), meta=meta)


def notebook_part(
    place: JailedPath, start: int, end: int | None, tail: int | None, numbered: bool, stop: IsCancelled
) -> Lines | None:
    """Return lines of the cells of a notebook, as shown() shows them; None for what is none."""
    if not place.name.lower().endswith(".ipynb"):
        return None
    data = whole_bytes(place, stop)
    cells = None if is_binary(data) else notebook.cells(decode(data).text)
    if cells is None:
        return None
    meta = _whole_meta(data, decode(data))
    return of_lines(visible(cells), start, end, tail, numbered, meta)


def between(
    place: JailedPath, start: int, end: int | None, char: int, numbered: bool, stop: IsCancelled
) -> Result | None:
    """Return lines start to end, 1-based and inclusive, the first from a character on; None for a PDF.

    ToolError empty_range.
    """
    if end is not None and start > end:
        raise ToolError(Code.EMPTY_RANGE, f"start_line {start} is above end_line {end}")

    def read(fd: int, skip: int, encoding: str) -> Result:
        feed = line_range.unit(encoding)
        found = line_range.line_range(fd, skip, start, end, feed, stop)
        # A short answer is not cut, so that nobody is told of the number of lines.
        is_long = found.cut or sum(map(len, found.lines)) > UNCUT
        countable = is_long and os.fstat(fd).st_size <= COUNTED
        total = line_range.count_lines(fd, skip, feed, stop) if countable else None
        return _shown(found, encoding, start, numbered, _meta(fd, encoding, found), total, char)

    return _opened(place, read)


def last(place: JailedPath, count: int, numbered: bool, stop: IsCancelled) -> Result | None:
    """Return the last lines of a file; None for a PDF."""

    def read(fd: int, skip: int, encoding: str) -> Result:
        feed = line_range.unit(encoding)
        # What comes to its end meanwhile would be counted, and is not shown.
        size = os.fstat(fd).st_size
        found = line_range.last_lines(fd, skip, size, count, feed, stop)
        if not found.lines:
            return Text("(empty file)", meta=_meta(fd, encoding, found))
        total = line_range.count_lines(fd, skip, feed, stop, size) if numbered or size <= COUNTED else None
        first = total - len(found.lines) + 1 if total is not None else 1
        return _shown(found, encoding, first, numbered, _meta(fd, encoding, found), total, latest=True)

    return _opened(place, read)


def marked(
    place: JailedPath, start_match: Sequence[str] | None, end_match: Sequence[str] | None, stop: IsCancelled
) -> Lines:
    """Return the numbered lines from one unique block of lines to another, both included."""
    data = whole_bytes(place, stop)
    _refuse_binary(place, data)
    text = decode(data)
    lines = text.lf.removesuffix("\n").split("\n")
    first, end = 0, len(lines)
    opening: list[str] = []
    if start_match is not None:
        opening = _block(start_match, "start_match")
        first = blocks.find_once(opening, lines, "start_match")
    if end_match is not None:
        closing = _block(end_match, "end_match")
        at = blocks.find_once(closing, lines, "end_match")
        if start_match is not None and at < first + len(opening):
            raise ToolError(Code.NO_MATCH, f"end_match is at line {at + 1}, not after start_match at line {first + 1}")
        end = at + len(closing)
    if end - first > MARKED_LINES:
        raise ToolError(
            Code.TOO_LARGE, f"the markers enclose {end - first} lines, above {MARKED_LINES}", "read a line range"
        )
    shown_lines = [visible(line) for line in lines[first:end]]
    return Lines(shown_lines, first + 1, len(lines), numbered=True, note=_replaced(text), meta=_whole_meta(data, text))


def is_pdf(data: bytes) -> bool:
    """Tell a PDF by its content; the mark may stand behind some bytes that do not belong to it.

    Text that speaks of the mark is text, and in text of that kind the mark comes first.
    """
    head = data[:HEAD]
    if head.removeprefix(codecs.BOM_UTF8).lstrip().startswith(PDF):
        return True
    return PDF in head[:PDF_WITHIN] and not _is_text(head)


def _is_text(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not is_binary(head)


def _opened(place: JailedPath, read: Callable[[int, int, str], Result]) -> Result | None:
    fd = place.open_file()
    try:
        head = os.pread(fd, HEAD, 0)
        if is_pdf(head):
            return None
        _refuse_binary(place, head)
        mark, encoding = next(((mark, name) for mark, name in BOMS if head.startswith(mark)), (b"", "utf-8"))
        return read(fd, len(mark), encoding)
    finally:
        os.close(fd)


def _shown(
    found: line_range.LineRange,
    encoding: str,
    first: int,
    numbered: bool,
    meta: dict[str, Any],
    total: int | None,
    char: int = 1,
    *,
    latest: bool = False,
) -> Lines:
    lines = [visible(line) for line in line_range.decoded(found, encoding)]
    if char > 1:
        if char > len(lines[0]):
            raise ToolError(
                Code.EMPTY_RANGE, f"start_char {char} is beyond the end of line {first}", f"it has {len(lines[0])}"
            )
        lines[0] = lines[0][char - 1 :]
    lossy = any("\ufffd" in line for line in lines)
    note = REPLACED.format(encoding) if lossy and not _is_valid(found, encoding) else None
    return Lines(lines, first, total, char, numbered, latest, found.cut, found.part, note, meta)


def _is_valid(found: line_range.LineRange, encoding: str) -> bool:
    try:
        for line in found.lines:
            line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _replaced(text: Decoded) -> str | None:
    return REPLACED.format(text.encoding) if text.lossy else None


def _whole_meta(data: bytes, text: Decoded, tag: str | None = None) -> dict[str, Any]:
    return {"etag": tag or etag(data), "size": len(data), "newline": text.newline, "encoding": text.encoding}


def _meta(fd: int, encoding: str, found: line_range.LineRange) -> dict[str, Any]:
    return {"size": os.fstat(fd).st_size, "newline": found.newline(encoding), "encoding": encoding}


def _block(lines: Sequence[str], name: str) -> list[str]:
    block = blocks.split(lines)
    if not any(line.strip() for line in block):
        raise ToolError(Code.INVALID_ARGS, f"{name}: expected at least one line that is not blank")
    return block


def _refuse_binary(place: JailedPath, data: bytes) -> None:
    if is_pdf(data):
        hint = "start_line and end_line, or tail, read a part of its text"
        raise ToolError(Code.BINARY_FILE, f"{place.shown} is a PDF, where markers find nothing", hint)
    if is_binary(data):
        raise _binary(place)


def _binary(place: JailedPath) -> ToolError:
    return ToolError(Code.BINARY_FILE, f"{place.shown} is not a text file", 'encoding="binary" reads raw bytes')
