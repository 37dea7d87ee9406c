"""yaml_query."""

from typing import Annotated

from pydantic import Field

from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..results import Text
from ..services import Parser
from ._answer import answer


@tool(Access.READ)
async def yaml_query(
    parser: Parser,
    path: ProjectPath | None = None,
    yaml: Annotated[str | None, Field(description="text instead of a file")] = None,
    query: Annotated[str | None, Field(description='users[0].name, users[].name, ["a.b"]')] = None,
    document: Annotated[int, Field(ge=1, description="which of several, from 1")] = 1,
) -> Text:
    """Query YAML by path; answers with JSON. Without query the whole document; a missing value is null."""
    return await answer("yaml", parser, path, yaml, query, document)
