"""gem."""

import json
import re
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.text import clean
from ...safety.web.urls import judge
from ..base import Access, tool
from ..results import Text
from ..services import Http, Settings
from ..settings import ToolSettings
from ._http import internal_url

ACTIONS = ("info", "version", "dependencies", "search")
ROWS = 10
"""Gems of one search."""


@tool(Access.NET, deadline=lambda settings, given: 3 * settings.http_timeout + 5)
async def gem(
    http: Http,
    settings: Settings,
    action: Annotated[str, Field(description="info, version, dependencies or search")],
    name: Annotated[str | None, Field(max_length=1000, description="of the gem")] = None,
    query: Annotated[str | None, Field(max_length=1000, description="for search")] = None,
) -> Text:
    """Ask rubygems.org about a Ruby gem: info, latest version, runtime dependencies; or search gems."""
    if action not in ACTIONS:
        raise ToolError(Code.BAD_ACTION, f"{action[:40]!r} is no action", f"one of {', '.join(ACTIONS)}")
    if action == "search":
        if not query or not query.strip():
            raise ToolError(Code.INVALID_ARGS, "query: search needs one")
        rows = await _asked(http, settings, f"/api/v1/search.json?query={quote(query, safe='')}")
        found = [row for row in rows if isinstance(row, dict)][:ROWS] if isinstance(rows, list) else []
        lines = [f"{_text(row, 'name')} ({_text(row, 'version')}) - {_text(row, 'info')[:200]}" for row in found]
        return Text("\n".join(lines) or f"no gems match {clean(query)}")
    if name is None:
        raise ToolError(Code.INVALID_ARGS, f"name: {action} needs one")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name) or set(name) <= {"."}:
        raise ToolError(Code.BAD_GEM, f"{name[:100]!r} is not the name of a gem")
    about = await _asked(http, settings, f"/api/v1/gems/{name}.json", name)
    if not isinstance(about, dict):
        raise ToolError(Code.FETCH_FAILED, "the answer is no JSON object")
    title = f"{_text(about, 'name') or name} {_text(about, 'version')}".rstrip()
    if action == "version":
        return Text(title)
    if action == "dependencies":
        needed = about.get("dependencies")
        runtime = needed.get("runtime") if isinstance(needed, dict) else None
        rows = [row for row in runtime if isinstance(row, dict)] if isinstance(runtime, list) else []
        lines = [f"- {_text(row, 'name')} ({_text(row, 'requirements')})" for row in rows]
        return Text("\n".join([f"{title} needs:", *(lines or ["- nothing"])]))
    licenses = about.get("licenses")
    fields = {
        "summary": _text(about, "info"),
        "license": ", ".join(map(str, licenses)) if isinstance(licenses, list) else "",
        "authors": _text(about, "authors"),
        "homepage": _text(about, "homepage_uri"),
        "source": _text(about, "source_code_uri"),
        "downloads": _text(about, "downloads"),
    }
    return Text("\n".join([title, *(f"{key}: {clean(value)}" for key, value in fields.items() if value)]))


async def _asked(http: Http, settings: Settings, target: str, name: str = "") -> Any:
    raw = settings.gem_url.rstrip("/") + target
    # An operator's own server may be internal; the one of the default is judged like any public address.
    url = judge(raw, http.policy) if settings.gem_url == ToolSettings.gem_url else internal_url(raw, http.policy)
    page = await http.fetch(url, headers={"accept": "application/json"}, follow=False)
    if page.status == 404:
        raise ToolError(Code.GEM_NOT_FOUND, f"there is no gem {name}", "action search finds gems")
    if page.status != 200:
        raise ToolError(Code.HTTP_ERROR, f"{page.url.host} answered {page.status} {page.reason}".rstrip())
    try:
        return json.loads(page.body)
    except (ValueError, RecursionError):
        raise ToolError(Code.FETCH_FAILED, f"{page.url.host} did not answer with JSON") from None


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return " ".join(clean(str(value)).split()) if value is not None else ""
