"""replacetextlines, of the llmtools profile."""

from typing import Annotated

from pydantic import Field

from ...safety.paths import WritePath
from ..base import Access, tool
from ..edit._lines import Block, split
from ..results import Verbatim
from ..services import Journal, Seen
from ._texts import change_lines

Lines = Annotated[list[str], Field(min_length=1)]


@tool(Access.WRITE)
async def replacetextlines(
    seen: Seen,
    journal: Journal,
    path: WritePath,
    matchLines: Annotated[list[str], Field(min_length=1, description="compared trimmed")],
    replaceWithLines: Lines,
    beforeLines: list[str] | None = None,
    afterLines: list[str] | None = None,
    expectedReplacements: Annotated[int, Field(ge=1)] = 1,
) -> Verbatim:
    """Replace a block of lines of a UTF-8 text file, as often as it is expected to occur."""
    block = Block(split(matchLines), split(beforeLines or ()), split(afterLines or ()))
    lines = split(replaceWithLines)
    done = await change_lines(
        path,
        seen,
        journal,
        lambda document: document.replace(block, lines, expectedReplacements),
        {"expected_count": "expectedReplacements"},
    )
    return Verbatim({"replacementsMade": done.count, "replacedAtLines": done.at})
