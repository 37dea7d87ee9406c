"""read_file."""

from base64 import b64encode
from functools import partial
from typing import Annotated, Literal
from urllib.parse import quote

from mcp_types import BlobResourceContents, EmbeddedResource, ImageContent
from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.image_formats import image_format
from ...safety.path_jail.roots import Place
from ...safety.paths import UnsafePath
from ...safety.text import visible
from ...safety.writes.file_version import etag as etag_of
from ...sandbox.isolate.worker import WorkerFailure
from ..base import Access, tool
from ..blocking import reading
from ..results import Blocks, Text
from ..services import Parser, Seen
from . import _images as images
from . import _pdf as pdf
from ._text import between, cached_bytes, last, marked, of_pages, shown, whole, whole_bytes

PDF_TIME = 30.0
IMAGE_TIME = 20.0
"""Seconds that the extraction of a PDF's text and the scaling of an image may take; guesses."""


def _read_cached(seen: Seen, path: Place, numbered: bool) -> Text | None:
    """Return the whole of a small text file that the kernel has in memory, without a thread; bench/read.py has its row."""
    cached = cached_bytes(path)
    if cached is None:
        return None
    data, at = cached
    text, etag = shown(path, data, numbered)
    if isinstance(text, bytes):
        return None
    seen.saw(at.absolute, etag)
    return text


@tool(Access.READ, unsafe=True)
async def read_file(
    parser: Parser,
    seen: Seen,
    path: UnsafePath,
    start_line: Annotated[int | None, Field(ge=1)] = None,
    end_line: Annotated[int | None, Field(ge=1)] = None,
    tail: Annotated[int | None, Field(description="last N lines")] = None,
    start_match: list[str] | None = None,
    end_match: list[str] | None = None,
    numbered: bool = False,
    encoding: Annotated[Literal["text", "binary"], Field(description="binary for images")] = "text",
) -> Text | Blocks:
    """Read a text file or PDF: whole, a line range, the tail, or between unique blocks of lines."""
    markers = start_match is not None or end_match is not None
    ranged = start_line is not None or end_line is not None or (tail is not None and tail > 0)
    if encoding == "text" and not markers and not ranged and (cached := _read_cached(seen, path, numbered)):
        return cached
    if markers and ranged:
        raise ToolError(Code.INVALID_ARGS, "start_match and end_match go with neither a range nor tail")
    if encoding == "binary":
        if markers or ranged:
            raise ToolError(Code.INVALID_ARGS, 'encoding="binary" goes with neither a range, tail nor markers')
        blocks, etag = await _binary(path, parser)
        seen.saw(path.target().absolute, etag)
        return blocks
    if markers:
        return await reading(partial(marked, path, start_match, end_match))
    last_only = tail if tail is not None and tail > 0 else None
    part = None
    if last_only:
        part = await reading(partial(last, path, last_only, numbered))
    elif ranged:
        part = await reading(partial(between, path, start_line or 1, end_line, numbered))
    if part is not None:
        return part
    text, etag = await reading(partial(whole, path, numbered))
    if isinstance(text, bytes):
        meta = {"size": len(text)} if ranged else {"etag": etag, "size": len(text)}
        pages = await _pdf(path, text, parser)
        text = of_pages(pages, start_line or 1, end_line, last_only, numbered, meta)
    if not ranged:
        seen.saw(path.target().absolute, etag)
    return text


async def _pdf(path: Place, data: bytes, parser: Parser) -> str:
    try:
        pages = await parser.call(pdf.extract, data, pdf.MAX_CHARACTERS, deadline=PDF_TIME)
    except WorkerFailure:
        raise ToolError(Code.BINARY_FILE, f"the text of {path.shown} takes too much to extract") from None
    return visible("\n".join(f"--- page {number} ---\n{page.strip()}" for number, page in enumerate(pages, 1)))


async def _binary(path: Place, parser: Parser) -> tuple[Blocks, str]:
    data = await reading(partial(whole_bytes, path, parts=False))
    tag = etag_of(data)
    meta = {"etag": tag, "size": len(data)}
    if image_format(data):
        try:
            scaled, mime = await parser.call(images.scaled, data, deadline=IMAGE_TIME)
        except WorkerFailure:
            raise ToolError(Code.TOO_LARGE, f"{path.shown} takes too much to decode") from None
        except ToolError as refused:
            # Damaged, it is no image but a file like any other, whose bytes were asked for.
            if refused.code is not Code.BINARY_FILE:
                raise
        else:
            return Blocks([ImageContent(type="image", data=b64encode(scaled).decode(), mime_type=mime)], meta), tag
    resource = BlobResourceContents(
        uri=f"toolbox://files/{quote(path.shown)}", mime_type="application/octet-stream", blob=b64encode(data).decode()
    )
    return Blocks([EmbeddedResource(type="resource", resource=resource)], meta), tag
