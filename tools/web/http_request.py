"""http_request."""

from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.web.urls import METHOD_OVERRIDES, Headers, WebUrl
from ..base import Access, tool
from ..results import Text
from ..services import Http, Parser, Settings
from ._page import text_of, untrusted

FREE, GATED = ("GET", "HEAD"), ("POST", "PUT", "PATCH", "DELETE")
"""Methods that anybody may use, and those for which the operator has to enable http_request as an exec tool."""
_SHOWN = ("content-type", "content-length", "location", "etag", "last-modified")


@tool(
    Access.NET,
    unsafe=True,
    deadline=lambda settings, given: 3 * settings.http_timeout + 25,
    read_only_hint=False,
    destructive_hint=True,
    idempotent_hint=False,
)
async def http_request(
    http: Http,
    parser: Parser,
    settings: Settings,
    url: WebUrl,
    method: Annotated[str, Field(description="GET, HEAD, POST, PUT, PATCH, DELETE")] = "GET",
    headers: Headers | None = None,
    body: Annotated[str | None, Field(max_length=1_000_000)] = None,
    follow_redirects: Annotated[bool, Field(description="GET and HEAD only")] = False,
) -> Text:
    """Make one HTTP request and return status, headers and body as they are; for APIs and dev servers.

    To read a page use web_fetch.
    """
    verb = method.strip().upper()
    if verb not in (*FREE, *GATED):
        raise ToolError(Code.BAD_METHOD, f"{method[:40]!r} is not offered", f"one of {', '.join((*FREE, *GATED))}")
    overrides = sorted(METHOD_OVERRIDES & {name.lower() for name in headers or {}})
    if (verb in GATED or overrides) and not settings.http_writes:
        raise ToolError(
            Code.EXEC_DISABLED,
            f"{overrides[0] if overrides else verb} is not enabled",
            "the operator can set enable_exec_tools: true, and add http_request to exec_tools where that is a list",
        )
    if follow_redirects and verb not in FREE:
        raise ToolError(Code.INVALID_ARGS, "follow_redirects goes with GET and HEAD", None)
    page = await http.fetch(
        url, verb, headers=headers, body=None if body is None else body.encode(), follow=follow_redirects
    )
    lines = [f"{verb} {page.url} -> {page.status} {page.reason}".rstrip(), untrusted(page.url.host)]
    lines += [f"{name}: {page.headers[name]}" for name in _SHOWN if name in page.headers]
    text = await text_of(page, parser, readable=False) if page.body else ""
    cut = f"\n... [body cut at {len(page.body)} bytes]" if page.is_cut else ""
    lines += ["", text + cut] if text else []
    return Text("\n".join(lines), more="ask for a part of it, by the API's own parameters")
