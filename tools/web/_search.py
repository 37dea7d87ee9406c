"""Search services behind one protocol."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from ...safety.errors import Code, ToolError
from ...safety.web.urls import Url
from ._http import Http, Page, internal_url


@dataclass(frozen=True)
class Hit:
    """One result."""

    title: str
    url: str
    snippet: str


class Engine(Protocol):
    """Something that searches the web; an operator's own object, or one of those below."""

    async def search(self, query: str, max_results: int) -> Sequence[Any]:
        """Return results as Hit, or as mappings or objects with title, url and snippet. Any exception is search_failed."""
        ...


@dataclass(frozen=True)
class Tavily:
    """Tavily's search API."""

    http: Http
    key: str | None
    base: str = "https://api.tavily.com"

    async def search(self, query: str, max_results: int) -> Sequence[Hit]:
        """Ask with the key in the body."""
        body = {"api_key": _key(self.key, "TAVILY_API_KEY"), "query": query, "max_results": max_results}
        found = await _asked(self.http, internal_url(f"{self.base}/search", self.http.policy), "POST", body=body)
        return [_hit(each, "title", "url", "content") for each in _list(found, "results")]


@dataclass(frozen=True)
class Brave:
    """Brave's search API."""

    http: Http
    key: str | None
    base: str = "https://api.search.brave.com"

    async def search(self, query: str, max_results: int) -> Sequence[Hit]:
        """Ask with the key in a header."""
        url = f"{self.base}/res/v1/web/search?{urlencode({'q': query, 'count': max_results}, quote_via=quote)}"
        headers = {"x-subscription-token": _key(self.key, "BRAVE_API_KEY"), "accept": "application/json"}
        found = await _asked(self.http, internal_url(url, self.http.policy), "GET", headers=headers)
        web = found.get("web")
        return [
            _hit(each, "title", "url", "description") for each in _list(web if isinstance(web, dict) else {}, "results")
        ]


@dataclass(frozen=True)
class SearXng:
    """A SearXNG server, which may be internal."""

    http: Http
    base: str | None

    async def search(self, query: str, max_results: int) -> Sequence[Hit]:
        """Ask for JSON."""
        base = _key(self.base, "SEARXNG_URL").rstrip("/")
        url = f"{base}/search?{urlencode({'q': query, 'format': 'json'}, quote_via=quote)}"
        found = await _asked(
            self.http, internal_url(url, self.http.policy), "GET", headers={"accept": "application/json"}
        )
        return [_hit(each, "title", "url", "content") for each in _list(found, "results")]


def hit_of(result: Any) -> Hit:
    """Return a result of any engine as a Hit."""
    if isinstance(result, Hit):
        return result
    get = result.get if isinstance(result, dict) else lambda name, default="": getattr(result, name, default)
    return Hit(*(str(get(name, "") or "") for name in ("title", "url", "snippet")))


def _hit(row: dict[str, Any], title: str, url: str, snippet: str) -> Hit:
    return Hit(*(str(row.get(name) or "") for name in (title, url, snippet)))


def _list(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = found.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _key(value: str | None, variable: str) -> str:
    if not value:
        raise ToolError(Code.MISSING_API_KEY, f"{variable} is not set", f"the operator can set {variable}")
    return value


async def _asked(
    http: Http, url: Url, method: str, *, headers: dict[str, str] | None = None, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    sent = {**(headers or {}), **({"content-type": "application/json"} if body is not None else {})}
    try:
        page: Page = await http.fetch(
            url, method, headers=sent, body=None if body is None else json.dumps(body).encode(), follow=False
        )
    except ToolError as e:
        raise ToolError(Code.SEARCH_FAILED, f"{url.host}: {e.error}", e.hint) from None
    if page.status != 200:
        raise ToolError(Code.SEARCH_FAILED, f"{url.host} answered {page.status} {page.reason}".rstrip(), None)
    try:
        found = json.loads(page.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ToolError(Code.SEARCH_FAILED, f"{url.host} did not answer with a JSON object", None)
    return found
