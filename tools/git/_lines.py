"""Rows of an answer from one of them on."""

from collections.abc import Sequence

from ...safety.errors import Code, ToolError
from ..read._answer import Lines


def lines_from(rows: Sequence[str], start: int, note: str | None = None) -> Lines:
    """Return the rows from one on, counting from 1; those that do not fit are read on with start_line. ToolError empty_range."""
    if start > len(rows):
        raise ToolError(Code.EMPTY_RANGE, f"start_line {start} is beyond the end", f"there are {len(rows)} lines")
    return Lines(rows[start - 1 :], first=start, total=len(rows), note=note)
