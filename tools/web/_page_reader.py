"""What a well-behaved reader does: it asks whether a page has changed, and obeys robots.txt where the operator says so."""

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.robotparser import RobotFileParser

from ...safety.errors import Code, ToolError
from ...safety.web.urls import Url
from ._http import Http, Page

MAX_PAGES = 32
MAX_BYTES = 16 << 20
"""Pages, and bytes of them, that are remembered; guesses at one session's reading."""
MAX_SITES = 200
"""Origins whose robots.txt is remembered; a guess."""
MAX_ROBOTS = 500 * 1024
"""Bytes of a robots.txt that count (RFC 9309, 2.5)."""

AGENT = "toolbox-mcp"
"""The name by which robots.txt speaks of this client."""

_VALIDATORS = (("etag", "if-none-match"), ("last-modified", "if-modified-since"))


@dataclass
class PageReader:
    """Fetches pages for reading. robots: whether robots.txt is obeyed."""

    http: Http
    robots: bool = False
    _pages: OrderedDict[str, Page] = field(default_factory=OrderedDict, repr=False)
    _sites: OrderedDict[tuple[str, str, int], RobotFileParser | None] = field(default_factory=OrderedDict, repr=False)

    async def page(self, url: Url) -> Page:
        """Return a page; one that was read before and has not changed is not transferred again. As Http.fetch."""
        if self.robots:
            await self._insist_on_permission(url)
        key = str(url)
        known = self._pages.get(key)
        headers = {
            question: known.headers[validator]
            for validator, question in _VALIDATORS
            if known is not None and validator in known.headers
        }
        page = await self.http.fetch(url, headers=headers)
        if page.status == 304 and known is not None:
            self._pages.move_to_end(key)
            return known
        self._pages.pop(key, None)
        if page.status == 200 and not page.is_cut and any(name in page.headers for name, _ in _VALIDATORS):
            self._pages[key] = page
            while len(self._pages) > MAX_PAGES or sum(len(one.body) for one in self._pages.values()) > MAX_BYTES:
                self._pages.popitem(last=False)
        return page

    async def _insist_on_permission(self, url: Url) -> None:
        """ToolError url_blocked where robots.txt of the page's origin does not allow it (RFC 9309)."""
        if url.origin not in self._sites:
            self._sites[url.origin] = await self._rules(url)
            if len(self._sites) > MAX_SITES:
                self._sites.popitem(last=False)
        rules = self._sites[url.origin]
        if rules is not None and not rules.can_fetch(AGENT, str(url)):
            raise ToolError(
                Code.URL_BLOCKED,
                f"robots.txt of {url.host} does not allow {url.target[:200]}",
                "the operator's web_robots says whether it is obeyed",
            )

    async def _rules(self, url: Url) -> RobotFileParser | None:
        """Return the rules of an origin; None where it has none. One that cannot be asked allows nothing."""
        text = "User-agent: *\nDisallow: /"
        with suppress(ToolError):
            page = await self.http.fetch(url.joined("/robots.txt"))
            if 400 <= page.status < 500:
                return None
            if page.status == 200:
                text = page.body[:MAX_ROBOTS].decode("utf-8", "replace")
        rules = RobotFileParser()
        rules.parse(text.splitlines())
        return rules
