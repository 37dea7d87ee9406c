"""file_info."""

import os
import stat
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from ...safety.errors import Code, ToolError
from ...safety.image_formats import Format
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import EntryPath
from ...safety.text import HEAD, Newline, decode, is_binary, visible_name
from ...safety.writes.file_version import etag
from ..base import Access, tool
from ..blocking import IsCancelled, run_read
from ..results import Record
from . import _images as images
from ._mime import UNKNOWN, Mode, by_content, by_extension, by_name, content_mode
from ._text import MAX_BYTES, is_pdf

MAX_EXTENSION = 100
"""Characters of an extension; a guess."""

UNREADABLE_TEXT = "unknown-8bit"
"""What `file` calls the encoding of a text that is not valid in any that is recognised."""

SPECIAL: Mapping[int, tuple[Literal["dir", "symlink", "other"], str]] = {
    stat.S_IFDIR: ("dir", "inode/directory"),
    stat.S_IFLNK: ("symlink", "inode/symlink"),
    stat.S_IFIFO: ("other", "inode/fifo"),
    stat.S_IFSOCK: ("other", "inode/socket"),
    stat.S_IFCHR: ("other", "inode/chardevice"),
    stat.S_IFBLK: ("other", "inode/blockdevice"),
}
"""What is no file, by the words of list_directory and of the shared MIME database."""


class Image(BaseModel):
    """What the header of an image declares; pixels."""

    format: Format
    width: int
    height: int


class FileInfo(Record):
    """What is known of a path or an extension; what does not apply is null."""

    largest: ClassVar[int] = 8 * 2**20

    path: str | None
    exists: bool
    type: Literal["file", "dir", "symlink", "other"] | None = None
    length: Annotated[int | None, Field(serialization_alias="size")] = None
    mode: str | None = None
    modified: str | None = None
    is_symlink: bool | None = None
    extension: str
    normalized_extension: str
    mime: str
    base_mime: str
    known: bool
    content_mode: Mode
    method: Literal["extension", "sniff"]
    encoding: str | None = None
    newline: Newline | None = None
    lines: int | None = None
    etag: str | None = None
    image: Image | None = None
    data: str | None = None

    def rendered(self) -> str:
        """Return a line for each field that applies and does not follow from another."""
        fields = self.model_dump(by_alias=True, exclude={"base_mime", "known", "method"})
        if self.path is not None:
            fields = {name: value for name, value in fields.items() if "extension" not in name}
            fields["is_symlink"] = self.is_symlink or None
        return "\n".join(f"{name}: {_told(name, value)}" for name, value in fields.items() if value not in (None, ""))


@tool(Access.READ)
async def file_info(
    path: EntryPath | None = None, extension: str | None = None, include_data: bool = False
) -> FileInfo:
    """Describe a path: type, size, time, MIME type, encoding, lines, etag, image size. Or an extension's MIME type."""
    if (path is None) == (extension is None):
        raise ToolError(Code.INVALID_ARGS, "expected either path or extension")
    if path is not None:
        return await run_read(lambda stop: _of_path(path, include_data, stop))
    assert extension is not None
    plain = extension.strip().removeprefix(".")
    if not plain or len(plain) > MAX_EXTENSION or not plain.isprintable() or "/" in plain:
        raise ToolError(Code.INVALID_ARGS, "extension: expected one such as .py")
    normalized = f".{plain.lower()}"
    return FileInfo(path=None, exists=False, extension=extension, **_typed(normalized, by_extension(normalized), None))


def _of_path(place: JailedPath, include_data: bool, stop: IsCancelled) -> FileInfo:
    extension = PurePosixPath(place.name).suffix
    normalized = visible_name(extension).lower()
    named = by_name(place.name, normalized)
    about: dict[str, Any] = {"path": place.shown, "extension": visible_name(extension)}
    status = place.stat()
    if status is None:
        return FileInfo(exists=False, **about, **_typed(normalized, named, None))
    content = _Content()
    special = SPECIAL.get(stat.S_IFMT(status.st_mode))
    if special is None:
        status, content = _looked_into(place, status, include_data, stop)
    kind, seen = special or ("file", content.mime)
    return FileInfo(
        **about,
        **_typed(normalized, None if special else named, seen, content.encoding),
        exists=True,
        type=kind,
        length=status.st_size,
        mode=f"{stat.S_IMODE(status.st_mode):04o}",
        modified=_time(status.st_mtime),
        is_symlink=kind == "symlink",
        encoding=content.encoding,
        newline=content.newline,
        lines=content.lines,
        etag=content.etag,
        image=Image(**content.image) if content.image else None,
        data=content.data,
    )


@dataclass(frozen=True)
class _Content:
    """What only the bytes of a file tell. mime: by the first of them; None where they were not read."""

    mime: str | None = None
    encoding: str | None = None
    newline: Newline | None = None
    lines: int | None = None
    etag: str | None = None
    image: images.Header | None = None
    data: str | None = None


def _looked_into(
    place: JailedPath, status: os.stat_result, include_data: bool, stop: IsCancelled
) -> tuple[os.stat_result, _Content]:
    """Read a file as far as it is described by its content."""
    try:
        fd = place.open_file()
    except ToolError as refused:
        if refused.code not in (Code.PATH_DENIED, Code.NOT_A_FILE):
            raise
        # May be seen and not read, or is gone by now: what the folder said of it was true.
        return status, _Content()
    try:
        data = bytearray()
        while len(data) <= MAX_BYTES and not stop() and (piece := os.read(fd, MAX_BYTES + 1 - len(data))):
            data += piece
        status = os.fstat(fd)
    finally:
        os.close(fd)
    return status, _described(bytes(data), whole=len(data) <= MAX_BYTES, include_data=include_data, shown=place.shown)


def _described(data: bytes, *, whole: bool, include_data: bool, shown: str) -> _Content:
    kind = by_content(data[:HEAD])
    image = images.header(data)
    sent = None
    if include_data and not whole:
        raise ToolError(Code.TOO_LARGE, f"{shown} is above 5 MiB", "leave out include_data")
    if image and include_data:
        sent = b64encode(data).decode()
    if not whole:
        return _Content(kind, image=image)
    if is_binary(data[:HEAD]) or is_pdf(data) or image:
        return _Content(kind, etag=etag(data), image=image, data=sent)
    text = decode(data)
    return _Content(
        mime=kind,
        encoding=UNREADABLE_TEXT if text.lossy else text.encoding,
        newline=text.newline,
        lines=text.text.count("\n") + (bool(text.text) and not text.final_newline),
        etag=etag(data),
    )


def _typed(normalized: str, named: str | None, seen: str | None, encoding: str | None = None) -> dict[str, Any]:
    """Return the fields about the MIME type: by the name if that says something, else by what was seen."""
    base = named or seen or UNKNOWN
    mode = content_mode(base)
    return {
        "normalized_extension": normalized,
        "mime": f"{base}; charset={encoding}" if encoding and mode == "text" else base,
        "base_mime": base,
        "known": base != UNKNOWN,
        "content_mode": mode,
        "method": "sniff" if seen and not named else "extension",
    }


def _time(seconds: float) -> str | None:
    """Return a time in ISO 8601; None for one that no calendar holds."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None


def _told(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"{value['format']} {value['width']}x{value['height']}"
    return f"({len(str(value))} characters of base64)" if name == "data" else str(value)
