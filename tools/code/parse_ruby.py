"""parse_ruby."""

from typing import Annotated, Literal

from pydantic import Field

from ...safety.guard import Guard
from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..results import Text
from ..services import Parser
from ._definitions import ruby_kind
from ._file import outline


@tool(Access.READ)
async def parse_ruby(
    parser: Parser,
    path: ProjectPath,
    query: Annotated[str | None, Field(description="part of a name, A::B or A#m")] = None,
    kind: Annotated[
        str | None, Guard(ruby_kind, accepts=Literal["class", "module", "method", "constant"], raw=True)
    ] = None,
) -> Text:
    """List the classes, modules, methods and constants of a Ruby file with their lines."""
    return await outline(parser, path, query, kind, language="ruby")
