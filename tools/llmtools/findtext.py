"""findtext, of the llmtools profile."""

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.paths import ProjectPath
from ...sandbox.process.pattern import Pattern
from ..base import Access, tool
from ..blocking import run_read
from ..results import Verbatim
from ..search import blocks
from ..services import Parser, Settings
from ._texts import lines_of, numbered

MAX_LINES = 4000
"""Lines of an answer, over all matches (TOOLS.md §9)."""


@tool(Access.READ, deadline=lambda settings, given: 2 * settings.regex_timeout + 30)
async def findtext(
    parser: Parser,
    settings: Settings,
    path: ProjectPath,
    queryType: Literal["substring", "regex", "lineBlock"] = "substring",
    query: str | None = None,
    matchLines: Annotated[list[str] | None, Field(description="for lineBlock")] = None,
    contextLines: Annotated[int, Field(ge=0, le=2000)] = 5,
    maxMatches: Annotated[int, Field(ge=1, le=500)] = 10,
) -> Verbatim:
    """Find a text, a regular expression (line by line) or a block of lines in a UTF-8 text file, with context.

    Lines are compared without the white space around them.
    """
    block = _block(queryType, query, matchLines)
    lines = await run_read(lambda _: lines_of(path))
    trimmed = [line.strip() for line in lines]
    if block:
        starts = blocks.find(block, lines)
        if any(later - earlier < len(block) for earlier, later in pairwise(starts)):
            raise ToolError(Code.AMBIGUOUS_MATCH, "matchLines occurs in places that overlap", "add lines to matchLines")
    elif queryType == "regex":
        pattern = Pattern(parser, query or "", settings.regex_timeout)
        await pattern.check()
        starts = await pattern.matching(trimmed)
    else:
        wanted = (query or "").strip()
        starts = [index for index, line in enumerate(trimmed) if wanted in line]
    return Verbatim(_told(lines, starts, len(block) or 1, contextLines, maxMatches))


def _block(kind: str, query: str | None, match_lines: list[str] | None) -> list[str]:
    if kind == "lineBlock":
        if not match_lines:
            raise ToolError(Code.INVALID_ARGS, "matchLines: required with queryType=lineBlock")
        if query and query.strip():
            raise ToolError(Code.INVALID_ARGS, "query: not with queryType=lineBlock")
        return blocks.split(match_lines)
    if match_lines:
        raise ToolError(Code.INVALID_ARGS, f"matchLines: not with queryType={kind}")
    if not query or not query.strip():
        raise ToolError(Code.INVALID_ARGS, f"query: required with queryType={kind}")
    return []


def _told(lines: list[str], starts: list[int], height: int, around: int, most: int) -> dict[str, Any]:
    matches: list[dict[str, Any]] = []
    total = 0
    for start in starts[:most]:
        first, end = max(0, start - around), min(len(lines), start + height + around)
        total += end - first
        if total > MAX_LINES:
            raise ToolError(
                Code.TOO_LARGE, f"the matches have above {MAX_LINES} lines", "set contextLines or maxMatches lower"
            )
        matches.append(
            {
                "matchStartLine": start + 1,
                "matchEndLine": start + height,
                "matchedLinesWithContext": numbered(lines, first, end),
            }
        )
    return {"reachedMaxMatches": len(starts) >= most, "matchesReturned": len(matches), "matches": matches}
