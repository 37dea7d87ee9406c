"""What the tools of the web say of an answer."""

import re

from ...safety.errors import Code, ToolError
from ...safety.text import clean
from ...sandbox.isolate.worker import Worker, WorkerFailure
from ..read import _pdf
from . import _readable
from ._http import Page

PARSE_TIMEOUT = 20.0
"""Seconds that a page may take to be made readable."""
_TEXT = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|javascript|ecmascript|yaml|x-yaml|toml|x-sh|sql|graphql|x-ndjson)"
)


def is_text(content_type: str) -> bool:
    """Return True for a media type that is text; none at all counts as text."""
    return not content_type or _TEXT.fullmatch(content_type) is not None


def untrusted(host: str) -> str:
    """Return the line that stands before what somebody else wrote."""
    return f"[untrusted content from {host}]"


async def text_of(page: Page, worker: Worker, *, readable: bool) -> str:
    """Return the body as text: readable makes Markdown of HTML; what is no text is named. ToolError(fetch_failed)."""
    kind = page.content_type
    try:
        if kind == "application/pdf" or page.body.startswith(b"%PDF-"):
            pages = await worker.call(_pdf.extract, page.body, _pdf.MAX_CHARACTERS, deadline=PARSE_TIMEOUT)
            return clean("\n".join(f"--- page {number} ---\n{each.strip()}" for number, each in enumerate(pages, 1)))
        if not is_text(kind) or (not kind and b"\0" in page.body[:8192]):
            return f"(binary content, {len(page.body)} bytes)"
        given = page.headers.get("content-type", "")
        if readable:
            return clean(await worker.call(_readable.readable, page.body, given, str(page.url), deadline=PARSE_TIMEOUT))
        return clean(_readable.decoded(page.body, given))
    except WorkerFailure:
        raise ToolError(
            Code.FETCH_FAILED, f"the page of {page.url.host} takes too much to read", "http_request shows it as it is"
        ) from None


def refuse_errors(page: Page) -> None:
    """ToolError(http_error) for a status of 400 and above."""
    if page.status >= 400:
        raise ToolError(Code.HTTP_ERROR, f"{page.url} answered {page.status} {page.reason}".rstrip(), None)
