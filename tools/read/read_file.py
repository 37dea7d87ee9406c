"""read_file."""

from base64 import b64encode
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal
from urllib.parse import quote

from mcp_types import BlobResourceContents, EmbeddedResource, ImageContent
from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.image_formats import image_format
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import UnsafePath, UnsafePaths
from ...safety.text import visible
from ...safety.writes.file_version import etag as etag_of
from ...sandbox.isolate.worker import WorkerFailure
from ..base import Access, tool
from ..blocking import run_read
from ..results import Blocks, Result
from ..services import Parser, Seen
from . import _images as images
from . import _pdf as pdf
from ._answer import Files
from ._text import between, cached_bytes, last, marked, notebook_part, of_lines, shown, whole, whole_bytes

PDF_TIME = 30.0
IMAGE_TIME = 20.0
"""Seconds that the extraction of a PDF's text and the scaling of an image may take; guesses."""


def _read_cached(seen: Seen, path: JailedPath, numbered: bool) -> Result | None:
    """Return the whole of a small text file that the kernel has in memory, without a thread; bench/read.py has its row."""
    cached = cached_bytes(path)
    if cached is None:
        return None
    data, at = cached
    text, etag = shown(path, data, numbered)
    if isinstance(text, bytes):
        return None
    seen.record(at.absolute, etag)
    return text


@tool(Access.READ, unsafe=True)
async def read_file(
    parser: Parser,
    seen: Seen,
    path: UnsafePath | None = None,
    paths: Annotated[UnsafePaths | None, Field(description="several files instead of path")] = None,
    start_line: Annotated[int | None, Field(ge=1)] = None,
    end_line: Annotated[int | None, Field(ge=1)] = None,
    start_char: Annotated[int | None, Field(ge=1, description="in start_line, to go on in a long line")] = None,
    tail: Annotated[int | None, Field(description="last N lines")] = None,
    start_match: Annotated[list[str] | None, Field(description="lines that begin the part")] = None,
    end_match: Annotated[list[str] | None, Field(description="lines that end the part")] = None,
    numbered: bool = False,
    encoding: Annotated[Literal["text", "binary"], Field(description="binary: raw bytes")] = "text",
) -> Result:
    """Read a text file, PDF, notebook or image: whole, a line range, the tail, or between unique blocks of lines."""
    asked = _Asked(start_line, end_line, start_char, tail if tail and tail > 0 else None, start_match, end_match)
    if asked.is_marked and asked.is_ranged:
        raise ToolError(Code.INVALID_ARGS, "start_match and end_match go with neither a range nor tail")
    if encoding == "binary" and (asked.is_marked or asked.is_ranged):
        raise ToolError(Code.INVALID_ARGS, 'encoding="binary" goes with neither a range, tail nor markers')
    if (path is None) == (paths is None):
        raise ToolError(Code.INVALID_ARGS, "path: expected either path or paths")
    if path is not None:
        plain = encoding == "text" and not asked.is_marked and not asked.is_ranged
        if plain and (cached := _read_cached(seen, path, numbered)):
            return cached
        return await _read(path, asked, numbered, encoding == "binary", parser, seen)
    assert paths is not None
    parts: list[tuple[str, Result | ToolError]] = []
    for name, place in paths:
        try:
            if isinstance(place, ToolError):
                raise place
            parts.append((name, await _read(place, asked, numbered, encoding == "binary", parser, seen)))
        except ToolError as refused:
            parts.append((name, refused))
    return Files(parts)


@dataclass(frozen=True)
class _Asked:
    """The part of a file that is asked for."""

    start: int | None
    end: int | None
    char: int | None
    tail: int | None
    start_match: list[str] | None
    end_match: list[str] | None

    @property
    def is_marked(self) -> bool:
        return self.start_match is not None or self.end_match is not None

    @property
    def is_ranged(self) -> bool:
        return not (self.start is None and self.end is None and self.char is None and self.tail is None)


async def _read(path: JailedPath, asked: _Asked, numbered: bool, raw: bool, parser: Parser, seen: Seen) -> Result:
    if raw:
        blocks, etag = await _binary(path, await run_read(partial(whole_bytes, path, parts=False)), parser)
        seen.record(path.target().absolute, etag)
        return blocks
    if asked.is_marked:
        return await run_read(partial(marked, path, asked.start_match, asked.end_match))
    part: Result | None = None
    if asked.is_ranged:
        part = await run_read(partial(notebook_part, path, asked.start or 1, asked.end, asked.tail, numbered))
    if part is None and asked.tail:
        part = await run_read(partial(last, path, asked.tail, numbered))
    elif part is None and asked.is_ranged:
        part = await run_read(partial(between, path, asked.start or 1, asked.end, asked.char or 1, numbered))
    if part is not None:
        return part
    text, etag = await run_read(partial(whole, path, numbered))
    if isinstance(text, bytes):
        if image_format(text):
            if asked.is_ranged:
                raise ToolError(Code.BINARY_FILE, f"{path.shown} is an image", "read it without a range")
            text = await _image(path, text, parser)
        else:
            meta = {"size": len(text)} if asked.is_ranged else {"etag": etag, "size": len(text)}
            pages = await _pdf(path, text, parser)
            text = of_lines(pages, asked.start or 1, asked.end, asked.tail, numbered, meta)
    if not asked.is_ranged:
        seen.record(path.target().absolute, etag)
    return text


async def _pdf(path: JailedPath, data: bytes, parser: Parser) -> str:
    try:
        pages = await parser.call(pdf.extract, data, pdf.MAX_CHARACTERS, deadline=PDF_TIME)
    except WorkerFailure:
        raise ToolError(Code.BINARY_FILE, f"the text of {path.shown} takes too much to extract") from None
    return visible("\n".join(f"--- page {number} ---\n{page.strip()}" for number, page in enumerate(pages, 1)))


async def _image(path: JailedPath, data: bytes, parser: Parser) -> Blocks:
    blocks, _ = await _binary(path, data, parser)
    if not isinstance(blocks.content[0], ImageContent):
        raise ToolError(
            Code.BINARY_FILE, f"{path.shown} is an image that cannot be decoded", 'encoding="binary" reads raw bytes'
        )
    return blocks


async def _binary(path: JailedPath, data: bytes, parser: Parser) -> tuple[Blocks, str]:
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
