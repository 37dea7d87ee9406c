"""toml_query."""

from typing import Annotated

from pydantic import Field

from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..results import Text
from ..services import Parser
from ._answer import answer


@tool(Access.READ)
async def toml_query(
    parser: Parser,
    path: ProjectPath | None = None,
    toml: Annotated[str | None, Field(description="text instead of a file")] = None,
    query: Annotated[str | None, Field(description='tool.ruff["line-length"], users[].name')] = None,
) -> Text:
    """Query TOML by path; answers with JSON. Without query the whole document; a missing value is null."""
    return await answer("toml", parser, path, toml, query)
