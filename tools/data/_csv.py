"""CSV files row by row, in memory that does not grow with the file."""

import codecs
import csv
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.text import HEAD, is_binary, visible

MAX_BYTES = 10 * 2**20
MAX_CELL = 131_072
"""Size of a file and characters of a cell. Both bounds are TOOLS.md §4.3's."""
MAX_SHOWN = 4 * 2**20
"""Characters of rows that are collected for one answer; far above any budget."""
_SAMPLE = 50
"""Rows by which the delimiter is chosen."""
_NAMED = 20
"""Ragged rows that are named."""
_CHUNK = 2**16

DELIMITERS = ",;\t|"
ENCODINGS = frozenset({
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "ascii", "iso8859-1", "iso8859-2", "iso8859-5",
    "iso8859-7", "iso8859-9", "iso8859-15", "cp437", "cp850", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1257",
    "koi8-r", "mac-roman", "shift_jis", "cp932", "euc_jp", "gb18030", "gbk", "big5", "euc_kr",
})  # fmt: skip
"""Encodings that a caller may name, as their codecs call themselves; Python has others, that are none of text files."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_FALLBACK = "cp1252"


@dataclass(frozen=True)
class Wanted:
    """What is asked of a file."""

    headers: bool
    limit: int
    offset: int
    columns: Sequence[str] | None
    delimiter: str | None
    encoding: str | None


@dataclass
class Rows:
    """The rows of one answer. ragged: numbers of rows with fewer or more cells than the header, or the first row."""

    text: list[str] = field(default_factory=list)
    ragged: list[int] = field(default_factory=list)
    more: bool = False
    note: str | None = None
    names: list[str] = field(default_factory=list)


def encoding_named(name: str) -> str:
    """Return the codec of a name. ToolError invalid_args."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError, UnicodeError):
        codec = ""
    if codec not in ENCODINGS:
        raise ToolError(Code.INVALID_ARGS, f"encoding: {name[:40]!r} is not known", "such as utf-8, cp1252, utf-16")
    return codec


def read(place: JailedPath, wanted: Wanted, stop: Callable[[], bool]) -> Rows:
    """Return the rows asked for. ToolError not_a_file, too_large, binary_file, bad_csv, invalid_args."""
    fd = place.open_file()
    try:
        if os.fstat(fd).st_size > MAX_BYTES:
            raise ToolError(
                Code.TOO_LARGE, f"{place.shown} is above 10 MiB", "grep_files and read_file read parts of it"
            )
        head = os.pread(fd, HEAD, 0)
        encoding = wanted.encoding or _encoding(fd, head)
        if is_binary(head) and not encoding.startswith(("utf-16", "utf-32")):
            raise ToolError(
                Code.BINARY_FILE, f"{place.shown} is not a text file", "encoding names UTF-16 without a mark"
            )
        delimiter = wanted.delimiter or _delimiter(fd, encoding)
        rows = _Reading(fd, encoding, delimiter, wanted, stop).run()
    finally:
        os.close(fd)
    if encoding == _FALLBACK and not wanted.encoding:
        rows.note = f"(not UTF-8, read as {_FALLBACK}; encoding chooses another)"
    return rows


def _encoding(fd: int, head: bytes) -> str:
    """Return the encoding by the mark, else UTF-8 where all bytes are, else one that any bytes are."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    decoder = codecs.getincrementaldecoder("utf-8")()
    at = 0
    try:
        while piece := os.pread(fd, _CHUNK, at):
            decoder.decode(piece)
            at += len(piece)
            if at > MAX_BYTES:
                break
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return _FALLBACK
    return "utf-8"


def _lines(fd: int, encoding: str, stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Yield the lines of a file with their ends. An endless line comes in pieces, which make a cell too long."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    at, kept, end = 0, "", None
    while (piece := os.pread(fd, _CHUNK, at)) and not stop():
        at += len(piece)
        if at > MAX_BYTES:
            raise ToolError(Code.TOO_LARGE, "the file grew above 10 MiB while it was read")
        try:
            kept += decoder.decode(piece)
        except UnicodeError as e:
            # Of UTF-16 and UTF-32 that begin without their mark.
            raise ToolError(Code.BAD_CSV, f"it is not {encoding}: {e}"[:300], "encoding chooses another") from None
        if end is None:
            # A CR alone ends a line only where no LF does.
            end = "\r" if "\r" in kept and "\n" not in kept else "\n"
        lines = kept.split(end)
        kept = lines.pop()
        yield from (line + "\n" for line in lines)
        if len(kept) > 4 * MAX_CELL:
            yield kept
            kept = ""
    kept += decoder.decode(b"", True)
    if kept:
        yield kept


def _delimiter(fd: int, encoding: str) -> str:
    """Return the delimiter that divides the first rows into the same number of cells most often; `,` where none does."""
    sample = list(islice(_lines(fd, encoding), _SAMPLE))
    best, chosen = (0.0, 0), ","
    for delimiter in DELIMITERS:
        try:
            widths = Counter(len(row) for row in csv.reader(iter(sample), delimiter=delimiter) if row)
        except csv.Error:
            continue
        if not widths:
            continue
        width, count = max(widths.items(), key=lambda item: (item[1], item[0]))
        score = (count / widths.total(), 0)
        if width > 1 and score > best:
            best, chosen = score, delimiter
    return chosen


class _Reading:
    def __init__(self, fd: int, encoding: str, delimiter: str, wanted: Wanted, stop: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._ended = False
        self._reader = csv.reader(self._noted(_lines(fd, encoding, stop)), delimiter=delimiter)

    def _noted(self, lines: Iterator[str]) -> Iterator[str]:
        yield from lines
        self._ended = True

    def _records(self) -> Iterator[list[str]]:
        while True:
            before = self._reader.line_num
            try:
                row = next(self._reader)
            except StopIteration:
                return
            except csv.Error as e:
                raise ToolError(Code.BAD_CSV, f"the row at line {before + 1}: {e}"[:300]) from None
            if self._ended:
                # A row is complete before the line behind it is asked for, but for an open quote.
                raise ToolError(Code.BAD_CSV, f"the row at line {before + 1} has a quote that is never closed")
            if max(map(len, row), default=0) > MAX_CELL:
                raise ToolError(Code.BAD_CSV, f"the row at line {before + 1} has a cell above {MAX_CELL} characters")
            if row:
                yield row

    def run(self) -> Rows:
        wanted, out = self._wanted, Rows()
        records = self._records()
        header = next(records, None) if wanted.headers else None
        width = len(header) if header is not None else None
        out.names = _distinct(header or [])
        picked = _picked(wanted.columns, out.names) if header is not None and wanted.columns else None
        size = 0
        for number, row in enumerate(records, 1):
            if number <= wanted.offset:
                width = len(row) if width is None else width
                continue
            if number > wanted.offset + wanted.limit or size > MAX_SHOWN:
                out.more = True
                break
            width = len(row) if width is None else width
            if len(row) != width:
                out.ragged.append(number)
            if header is None and wanted.columns:
                picked = _numbered(wanted.columns)
            text = "\n".join([f"--- row {number} ---", *_cells(row, out.names, picked, header is None)])
            size += len(text)
            out.text.append(text)
        return out


def _cells(row: list[str], names: list[str], picked: list[int] | None, numbered: bool) -> Iterator[str]:
    for column in picked if picked is not None else range(max(len(row), len(names))):
        given = names[column] if column < len(names) else f"column {column + 1}"
        name = str(column + 1) if numbered else given
        yield visible(f"{name}: {row[column] if column < len(row) else ''}".replace("\r\n", "\n"))


def _distinct(header: list[str]) -> list[str]:
    """Return names of which no two are equal; a cell without one is called by its number."""
    out: list[str] = []
    taken: set[str] = set()
    count: Counter[str] = Counter()
    for number, name in enumerate(header, 1):
        base = name.strip() or f"column {number}"
        unique = base
        while unique in taken:
            count[base] += 1
            unique = f"{base} ({count[base] + 1})"
        taken.add(unique)
        out.append(unique)
    return out


def _picked(columns: Sequence[str], names: list[str]) -> list[int]:
    where = {name: column for column, name in enumerate(names)}
    for column in columns:
        if column not in where:
            known = ", ".join(names)
            raise ToolError(Code.INVALID_ARGS, f"columns: there is no {column[:100]!r}", f"there are {known[:1000]}")
    return [where[column] for column in columns]


def _numbered(columns: Sequence[str]) -> list[int]:
    for column in columns:
        if not column.isdecimal() or not 0 < int(column[:9]) < 10**6:
            raise ToolError(
                Code.INVALID_ARGS, f"columns: {column[:40]!r} is no number", "without headers they are numbers"
            )
    return [int(column) - 1 for column in columns]


def ragged_note(ragged: list[int]) -> str:
    """Return a line that names rows of another length than the header."""
    named = ", ".join(map(str, ragged[:_NAMED]))
    rest = f" and {len(ragged) - _NAMED} more" if len(ragged) > _NAMED else ""
    return f"... (ragged: row{'s' if len(ragged) > 1 else ''} {named}{rest})"
