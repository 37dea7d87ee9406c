"""download_file."""

import hashlib
import stat
from base64 import b64encode
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.paths import WritePath
from ...safety.web.urls import WebUrl
from ..base import Access, tool
from ..edit.write_file import write_file
from ..results import Text
from ..services import Http, Journal, Progress, Seen
from ._page import refuse_errors


@tool(
    Access.WRITE,
    deadline=lambda settings, given: 3 * settings.http_timeout + 5,
    idempotent_hint=True,
    open_world_hint=True,
)
async def download_file(
    http: Http,
    seen: Seen,
    journal: Journal,
    progress: Progress,
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
    page = await http.fetch(url)
    refuse_errors(page)
    if page.is_cut:
        raise ToolError(
            Code.TOO_LARGE, f"{page.url} is above {http.max_bytes} bytes", "the operator's max_fetch_bytes is the bound"
        )
    await progress(len(page.body), None, f"{len(page.body)} bytes")
    done = await write_file.run(
        seen=seen,
        journal=journal,
        path=path,
        content=b64encode(page.body).decode(),
        encoding="binary",
        overwrite=overwrite,
        expected_etag=None,
    )
    assert isinstance(done, Text)
    digest = hashlib.sha256(page.body).hexdigest()
    said = f"Downloaded {len(page.body)} bytes from {page.url} to {path.shown} (sha256 {digest})"
    return Text(said, meta=done.meta)
