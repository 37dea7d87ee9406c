"""Computing a replacement over many files: what each would become. Nothing is written here."""

import os
import time
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ...safety.errors import Code, ToolError
from ...safety.os_errors import refusal
from ...safety.path_jail.roots import JailedPath, Writable
from ...safety.path_jail.tree_walk import Walk
from ...safety.text import HEAD, decode, encode_like, is_binary
from ...safety.writes.batch import Change
from ...safety.writes.file_version import FileVersion, etag
from ..blocking import IsCancelled
from ..search import scope
from ..undo.changes import Content, permissions
from ._replace import MAX_BYTES, NormalizedText, occurrences, too_large, written

MAX_CHANGED = 128 * 2**20
"""Bytes of changed files that are held before the first is written; a guess at what a server can spare."""
STRETCH = 0.25
"""Seconds of work between two looks at the progress, half of the shortest time between two reports."""
BATCH = 8 * 2**20
"""Bytes of files that are read at a time, as in searches."""

NOT_UTF8 = "not valid UTF-8"
UNREADABLE = "not readable"
ABOVE = f"above {scope.MAX_BYTES >> 20} MiB"
PROTECTED = "protected"

Replacement = tuple[int, bytes | None]
"""How many replacements a file has, and its bytes after them, None where they stay; -1: it could not be written back."""


@dataclass(frozen=True)
class File:
    """A text file as it was read."""

    place: JailedPath
    data: bytes
    seen: FileVersion
    mode: int


@dataclass(frozen=True)
class Hit:
    """A file in which something is replaced. change: None where that leaves it the same."""

    place: JailedPath
    count: int
    before: Content
    change: Change | None


@dataclass
class Plan:
    """What a replacement comes to.

    left_out: how many files that may hold the pattern are left as they are, and why. to_keep: bytes of former content that
    may still be held for undo. looked_at: files, in earlier tries too.
    """

    to_keep: int
    writable: Writable
    hits: list[Hit] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    looked_at: int = 0
    _size: int = 0

    def add(self, file: File, done: Replacement) -> None:
        """Take in what one file comes to. ToolError too_large."""
        count, after = done
        self.looked_at += 1
        if count == 0:
            return
        try:
            self.writable.check(file.place)
        except ToolError:
            self.left_out[PROTECTED] += 1
            return
        if count < 0:
            self.left_out[NOT_UTF8] += 1
            return
        change = None
        before = Content(etag(file.data), file.mode, len(file.data), seen=file.seen)
        if after is not None:
            self._size += len(after)
            if self._size > MAX_CHANGED:
                raise ToolError(
                    Code.TOO_LARGE,
                    f"the files to change come to more than {MAX_CHANGED} bytes",
                    "narrow the path or the glob, and take one part after the other",
                )
            change = Change(file.place, after, file.seen)
            # Where not all of it can be kept, none of it is of use.
            self.to_keep -= len(file.data)
            before = Content(
                before.etag, file.mode, before.size, file.data if self.to_keep >= 0 else None, seen=file.seen
            )
        self.hits.append(Hit(file.place, count, before, change))

    def add_all(self, files: Sequence[File], done: Sequence[Replacement], stop: IsCancelled) -> None:
        """Take in what some files come to. ToolError too_large."""
        for file, one in zip(files, done, strict=True):
            if stop():
                return
            self.add(file, one)


class Files:
    """The text files below a folder that a glob means, in stretches of work."""

    def __init__(self, within: scope.Scope, found: Plan) -> None:
        glob = within.glob or ""
        prunes = within.matcher and "/" in glob.strip("/") and not glob.startswith("!")
        self.walk = Walk(
            within.folder,
            ignored_dirs=within.ignored_dirs,
            gitignore=within.gitignore and within.file is None,
            enters=within.matcher.enters if within.matcher and prunes else None,
            max_depth=None if within.file is None else 1,
        )
        self._scope = within
        self._found = found
        self._entries = iter(self.walk)
        self.ended = False

    def stretch(self, stop: IsCancelled) -> list[File]:
        """Return the next files, at most about BATCH bytes or STRETCH seconds of them."""
        out: list[File] = []
        size = 0
        until = time.monotonic() + STRETCH
        for file in self._next(stop):
            out.append(file)
            size += len(file.data)
            if size >= BATCH or time.monotonic() > until:
                return out
        return out

    def each(self, replace: Callable[[bytes], Replacement], stop: IsCancelled) -> None:
        """Compute for STRETCH seconds."""
        until = time.monotonic() + STRETCH
        for file in self._next(stop):
            try:
                done = replace(file.data)
            except ToolError as refused:
                raise ToolError(refused.code, f"{file.place.shown}: {refused.error}", refused.hint) from None
            self._found.add(file, done)
            if time.monotonic() > until:
                return

    def _next(self, stop: IsCancelled) -> Iterator[File]:
        for entry in self._entries:
            if stop():
                return
            if entry.kind != "file" or not self._scope.meant(entry.path):
                continue
            try:
                file = _read(self.walk.at(entry))
            except ToolError as refused:
                self._found.left_out[UNREADABLE] += refused.code is Code.PATH_DENIED
                self._found.left_out[ABOVE] += refused.code is Code.TOO_LARGE
                continue
            if file and not is_binary(file.data[:HEAD]):
                yield file
        self.ended = True


def literal(pattern: str, replacement: str) -> Callable[[bytes], Replacement]:
    """Return the function that replaces a literal text in the bytes of a file. ToolError bad_pattern; its own too_large."""
    old, new = pattern.replace("\r\n", "\n"), replacement.replace("\r\n", "\n")
    try:
        old_bytes, new_bytes = old.encode(), new.encode()
    except UnicodeEncodeError:
        raise ToolError(Code.BAD_PATTERN, "pattern and replacement have to be valid Unicode") from None
    # Without line ends and byte order marks, replacing in the bytes is the same and takes a tenth of the time.
    plain = not set(old) & set("\r\n\ufeff") and "\n" not in new
    longest = max(old_bytes.split(b"\n"), key=len)

    def replace(data: bytes) -> Replacement:
        if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            return _in_text(data, old, new)
        if longest not in data:
            return 0, None
        if not plain:
            return _in_text(data, old, new)
        if not new_bytes.isascii() and not _is_utf8(data):
            return -1, None
        count = data.count(old_bytes)
        if len(data) + count * (len(new_bytes) - len(old_bytes)) > MAX_BYTES:
            raise too_large()
        return count, data.replace(old_bytes, new_bytes) if old != new else None

    return replace


def _in_text(data: bytes, old: str, new: str) -> Replacement:
    try:
        text = decode(data, exact=True)
    except ToolError:
        return -1, None
    matching = NormalizedText(text.text)
    starts = occurrences(matching.lf, old)
    if starts and text.lossy and not new.isascii():
        return -1, None
    if not starts or old == new:
        return len(starts), None
    inserted = written(new, text.line_end)
    after = matching.spliced((start, start + len(old), inserted) for start in starts)
    return len(starts), encode_like(after, text)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read(place: JailedPath) -> File | None:
    """Read a file; None for one that is larger than what is searched and binary. ToolError too_large for one that is text."""
    fd = place.open_file()
    try:
        now = time.time_ns()
        status = os.fstat(fd)
        data = bytearray()
        while len(data) <= scope.MAX_BYTES and (piece := os.read(fd, scope.MAX_BYTES + 1 - len(data))):
            data += piece
    except OSError as e:
        raise refusal(e, place.shown) from None
    finally:
        os.close(fd)
    if len(data) > scope.MAX_BYTES and not is_binary(bytes(data[:HEAD])):
        raise ToolError(Code.TOO_LARGE, ABOVE)
    if len(data) > scope.MAX_BYTES:
        return None
    whole = bytes(data)
    return File(place, whole, FileVersion.of(status).read(whole, now), permissions(status))
