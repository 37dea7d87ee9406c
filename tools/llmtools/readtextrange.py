"""readtextrange, of the llmtools profile."""

from typing import Annotated, Any

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..blocking import run_read
from ..results import Verbatim
from ..search import blocks
from ._texts import lines_of, numbered

MAX_LINES = 2000
"""Lines of an answer (TOOLS.md §9)."""

Block = Annotated[list[str] | None, Field(description="lines that occur once; compared trimmed")]


@tool(Access.READ)
async def readtextrange(path: ProjectPath, startMatchLines: Block = None, endMatchLines: Block = None) -> Verbatim:
    """Read lines of a UTF-8 text file, all or from one block of lines through another."""
    return Verbatim(await run_read(lambda _: _range(path, startMatchLines, endMatchLines)))


def _range(place: JailedPath, start_match: list[str] | None, end_match: list[str] | None) -> dict[str, Any]:
    lines = lines_of(place)
    if not lines:
        return {"linesReturned": 0, "lines": []}
    start, end, first_end = 0, len(lines), 0
    if start_match:
        block = blocks.split(start_match)
        start = blocks.find_once(block, lines, "startMatchLines")
        first_end = start + len(block)
    if end_match:
        block = blocks.split(end_match)
        at = blocks.find_once(block, lines, "endMatchLines")
        if at < first_end:
            raise ToolError(
                Code.NO_MATCH, f"endMatchLines (line {at + 1}) does not come after startMatchLines (line {start + 1})"
            )
        end = at + len(block)
    if end - start > MAX_LINES:
        raise ToolError(
            Code.TOO_LARGE,
            f"the range has {end - start} lines, above {MAX_LINES}",
            "startMatchLines and endMatchLines narrow it",
        )
    found = numbered(lines, start, end)
    return {"startLine": start + 1, "endLine": end, "linesReturned": len(found), "lines": found}
