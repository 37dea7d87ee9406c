"""inserttextlines, of the llmtools profile."""

from typing import Annotated, Any, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.paths import WritePath
from ..base import Access, tool
from ..edit._lines import Block, Document, LineEdit, split
from ..results import Verbatim
from ..services import Journal, Seen
from ._texts import change_lines


@tool(Access.WRITE)
async def inserttextlines(
    seen: Seen,
    journal: Journal,
    path: WritePath,
    linesToInsert: Annotated[list[str], Field(min_length=1)],
    position: Literal["start", "end", "beforeAnchor", "afterAnchor"] = "end",
    anchorMatchLines: Annotated[
        list[str] | None, Field(description="lines that occur once, for beforeAnchor and afterAnchor; compared trimmed")
    ] = None,
) -> Verbatim:
    """Insert lines into a UTF-8 text file, at its start or end or beside a block of lines."""
    beside = position.endswith("Anchor")
    if beside and not anchorMatchLines:
        raise ToolError(Code.INVALID_ARGS, f"anchorMatchLines: required with position={position}")
    if anchorMatchLines and not beside:
        raise ToolError(Code.INVALID_ARGS, f"anchorMatchLines: not with position={position}")
    lines = split(linesToInsert)
    anchor = split(anchorMatchLines or ())

    def change(document: Document) -> LineEdit:
        if beside:
            return document.insert_beside(Block(anchor), lines, after=position == "afterAnchor")
        return document.insert(0 if position == "start" else document.count, lines)

    done = await change_lines(path, seen, journal, change, {"match_lines": "anchorMatchLines"})
    result: dict[str, Any] = {"insertedAtLine": done.at[0], "insertedLineCount": len(lines)}
    if beside:
        # In the text before: what is inserted before the anchor begins where that began.
        result["anchorMatchedAtLine"] = done.at[0] - (len(anchor) if position == "afterAnchor" else 0)
    return Verbatim(result)
