"""writefile, of the llmtools profile."""

import binascii
import stat
from base64 import b64decode
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import WriteEntry
from ...safety.writes.atomic import Written
from ..base import Access, tool
from ..blocking import run_write
from ..results import Verbatim
from ..services import Journal, Seen
from ._texts import MAX_BYTES

MODE = 0o600
"""Permissions of a file that is made."""


@tool(Access.WRITE, idempotent_hint=True)
async def writefile(
    seen: Seen,
    journal: Journal,
    path: WriteEntry,
    content: str,
    encoding: Annotated[str, Field(description="text, or binary: content is base64")] = "text",
    overwrite: bool = False,
    createParents: bool = False,
) -> Verbatim:
    """Write a file to disk, atomically. It is not replaced unless overwrite is true."""
    data = _bytes(content, encoding.strip().lower())
    written = await run_write(lambda _: _write(path, data, overwrite, createParents, journal))
    seen.record(str(written.place.path), written.etag)
    return Verbatim({"path": str(written.place.path), "bytesWritten": len(data)})


def _bytes(content: str, encoding: str) -> bytes:
    if encoding not in ("text", "binary"):
        raise ToolError(Code.INVALID_ARGS, 'encoding: expected "text" or "binary"')
    try:
        data = content.encode() if encoding == "text" else b64decode(content.strip(), validate=True)
    except UnicodeEncodeError:
        raise ToolError(Code.INVALID_ARGS, "content: expected valid Unicode") from None
    except (binascii.Error, ValueError):
        raise ToolError(Code.INVALID_ARGS, "content: expected base64, as encoding is binary") from None
    if len(data) > MAX_BYTES:
        raise ToolError(Code.TOO_LARGE, f"content is {len(data)} bytes, above 16 MiB")
    return data


def _write(place: JailedPath, data: bytes, overwrite: bool, create_parents: bool, journal: Journal) -> Written:
    there = place.stat()
    if there is not None and stat.S_ISLNK(there.st_mode):
        raise ToolError(Code.REFUSED, f"{place.shown} is a link", "write to the file that it leads to")
    mode = MODE if there is None else None
    return journal.replace(place, data, mode=mode, overwrite=overwrite, create_parents=create_parents)
