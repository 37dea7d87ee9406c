"""json_query."""

from typing import Annotated

from pydantic import Field

from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..results import Text
from ..services import Parser
from ._answer import answer

LINES = (".jsonl", ".ndjson")
"""Names of files that hold a value a line."""


@tool(Access.READ)
async def json_query(
    parser: Parser,
    path: ProjectPath | None = None,
    json: Annotated[str | None, Field(description="text instead of a file")] = None,
    query: Annotated[str | None, Field(description='users[0].name, users[].name, ["a.b"]')] = None,
    lines: Annotated[bool, Field(description="one value a line, as a list")] = False,
) -> Text:
    """Query JSON or JSON Lines by path. Without query the whole document; a missing value is null."""
    each_line = lines or (path is not None and path.name.lower().endswith(LINES))
    return await answer("json", parser, path, json, query, int(each_line))
