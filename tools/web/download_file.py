"""download_file."""

import hashlib
import stat
import tempfile
from mmap import ACCESS_READ, mmap
from typing import Annotated

from anyio import to_thread
from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.os_errors import refusal
from ...safety.paths import WritePath
from ...safety.web.urls import WebUrl
from ..base import Access, tool
from ..blocking import run_write
from ..edit.write_file import write_whole
from ..results import Text
from ..services import Http, Journal, Progress, Seen, Settings
from ..settings import ToolSettings
from ._page import refuse_errors

SECONDS = 300.0
"""For one download: 100 MB at 3 Mbit/s; a guess."""
CLOSING = 30.0
"""Seconds to place what has come: a file of 1 GB on a slow disk; a guess."""


def _seconds(settings: ToolSettings) -> float:
    return max(min(SECONDS, settings.max_tool_timeout - CLOSING), 3 * settings.http_timeout)


@tool(
    Access.WRITE,
    deadline=lambda settings, given: _seconds(settings) + CLOSING,
    idempotent_hint=True,
    open_world_hint=True,
)
async def download_file(
    http: Http,
    seen: Seen,
    journal: Journal,
    progress: Progress,
    settings: Settings,
    url: WebUrl,
    path: Annotated[WritePath, Field(description="the file to write")],
    overwrite: bool = True,
) -> Text:
    """Download a file into the project, as it is; undoable."""
    there = path.stat()
    if there is not None and stat.S_ISDIR(there.st_mode):
        raise ToolError(Code.IS_A_DIRECTORY, f"{path.shown} is a folder", "name the file in it")
    if there is not None and not overwrite:
        raise ToolError(Code.EXISTS, f"{path.shown} exists", "overwrite: true replaces it")
    most, bound = settings.max_download_bytes, "max_download_bytes"
    if most is None:
        most, bound = settings.max_fetch_bytes, "max_fetch_bytes"
    digest = hashlib.sha256()
    size = 0
    # Without a name, so that nothing is left of it however this ends.
    with tempfile.TemporaryFile() as file:

        def take(piece: bytes) -> None:
            file.write(piece)
            digest.update(piece)

        async def save(piece: bytes) -> None:
            nonlocal size
            try:
                await to_thread.run_sync(take, piece)
            except OSError as e:
                raise refusal(e, "the temporary file") from None
            size += len(piece)
            await progress(size, None, f"{size} bytes")

        page = await http.fetch(url, save=save, max_bytes=most, seconds=_seconds(settings))
        refuse_errors(page)
        if page.is_cut:
            raise ToolError(Code.TOO_LARGE, f"{page.url} is above {most} bytes", f"the operator's {bound} is the bound")
        known = seen.etag(str(path.target().path)) if overwrite else None

        def place() -> str:
            file.flush()
            data = mmap(file.fileno(), size, access=ACCESS_READ) if size else b""
            return write_whole(path, data, known, False, overwrite, True, journal).etag

        etag = await run_write(lambda _: place())
    seen.record(str(path.target().path), etag)
    said = f"Downloaded {size} bytes from {page.url} to {path.shown} (sha256 {digest.hexdigest()})"
    return Text(said, meta={"etag": etag})
