"""web_search."""

import logging
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.text import clean
from ..base import Access, tool
from ..results import Text
from ..services import SearchEngine
from ._search import hit_of

log = logging.getLogger(__name__)

SNIPPET = 300
"""Characters of a snippet."""


@tool(Access.NET, deadline=lambda settings, given: 3 * settings.http_timeout + 5)
async def web_search(
    engine: SearchEngine,
    query: Annotated[str, Field(max_length=1000)],
    max_results: Annotated[int, Field(ge=1, le=20)] = 5,
) -> Text:
    """Search the web: titles, addresses and snippets. Read a result with web_fetch."""
    if not query.strip():
        raise ToolError(Code.INVALID_ARGS, "query: expected words to search for")
    try:
        hits = [hit_of(each) for each in await engine.search(query, max_results)][:max_results]
    except ToolError:
        raise
    except Exception:
        log.exception("the search engine failed")
        raise ToolError(Code.SEARCH_FAILED, "the search engine failed", "the server's log has the details") from None
    if not hits:
        return Text(f"no results for {query}")
    lines = [f"{len(hits)} results for {_line(query)}", "[untrusted content from the web]"]
    for number, hit in enumerate(hits, 1):
        lines.append(f"{number}. {_line(hit.title)}\n   {_line(hit.url)}")
        if snippet := _line(hit.snippet)[:SNIPPET]:
            lines.append(f"   {snippet}")
    return Text("\n".join(lines), more="ask for fewer results")


def _line(text: str) -> str:
    return " ".join(clean(text).split())
