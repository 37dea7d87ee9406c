"""write_file."""

import binascii
import os
import stat
from base64 import b64decode
from typing import Annotated, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import UnsafeWritePath
from ...safety.text import HEAD
from ...safety.writes.atomic import Written, digested, locked
from ...safety.writes.file_version import Data
from ..base import Access, tool
from ..blocking import run_write
from ..results import Text
from ..services import Journal, Seen
from ._load import changed, check_etag

MAX_BYTES = 16 * 2**20
"""Size of a file that can be written (TOOLS.md §4.4)."""
MAX_KNOWN = 2**30
"""Size of a file that is compared with an etag, which takes seconds; no tool tells the etag of a larger one."""


@tool(Access.WRITE, unsafe=True, idempotent_hint=True)
async def write_file(
    seen: Seen,
    journal: Journal,
    path: UnsafeWritePath,
    content: str,
    encoding: Annotated[Literal["text", "binary"], Field(description="binary: content is base64")] = "text",
    overwrite: bool = True,
    create_parents: bool = True,
    expected_etag: Annotated[str | None, Field(description="refuse unless the file is in this state")] = None,
) -> Text:
    """Create a file or replace all of it. To change a part, use edit_file."""
    data = _bytes(content, encoding)
    known = expected_etag
    if known is None and overwrite:
        known = seen.etag(str(path.target().path))
    bare = encoding == "text" and b"\n" in data and b"\r\n" not in data

    def write() -> tuple[Written, bool]:
        lost = bare and _has_crlf(path)
        return write_whole(path, data, known, expected_etag is not None, overwrite, create_parents, journal), lost

    written, lost = await run_write(lambda _: write())
    seen.record(str(written.place.path), written.etag)
    done = "Created" if written.created else "Overwrote"
    note = "; its lines ended in CRLF, these end in LF" if lost else ""
    return Text(f"{done} {path.shown} ({len(data)} bytes{note})", meta={"etag": written.etag})


def _has_crlf(place: JailedPath) -> bool:
    """Return True where the first lines of a file that is there end in CRLF."""
    try:
        fd = place.open_file()
    except (OSError, ToolError):
        return False
    try:
        return b"\r\n" in os.pread(fd, HEAD, 0)
    finally:
        os.close(fd)


def _bytes(content: str, encoding: str) -> bytes:
    try:
        data = content.encode() if encoding == "text" else b64decode(content, validate=True)
    except UnicodeEncodeError:
        raise ToolError(Code.INVALID_ARGS, "content: expected valid Unicode") from None
    except (binascii.Error, ValueError):
        raise ToolError(Code.INVALID_ARGS, "content: expected base64, as encoding is binary") from None
    if len(data) > MAX_BYTES:
        raise ToolError(Code.TOO_LARGE, f"content is {len(data)} bytes, above 16 MiB")
    return data


def write_whole(
    place: JailedPath,
    data: Data,
    known: str | None,
    asked: bool,
    overwrite: bool,
    create_parents: bool,
    journal: Journal,
) -> Written:
    """Create a file or replace all of it. known: its etag where it was seen, which it must have; asked: by the client."""
    with locked(place):
        state = None
        there = place.stat()
        if there is None and asked:
            raise ToolError(Code.FILE_CHANGED, f"{place.shown} is gone", "leave expected_etag out to create it")
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise ToolError(Code.IS_A_DIRECTORY, f"{place.shown} is a folder")
        if known is not None and overwrite and there is not None:
            if there.st_size > MAX_KNOWN:
                raise changed(place)
            tag, state = digested(place)
            check_etag(place, tag, known)
        return journal.replace(place, data, expect=state, overwrite=overwrite, create_parents=create_parents)
