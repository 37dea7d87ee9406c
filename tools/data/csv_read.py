"""csv_read."""

import re
from functools import partial
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..blocking import run_read
from ..results import Text
from ._csv import Wanted, encoding_named, ragged_note, read

LIMIT = 100
_NO_DELIMITERS = frozenset('"\r\n\0')
_ROW = re.compile(r"^--- row (\d{1,9}) ---$", re.MULTILINE)


@tool(Access.READ)
async def csv_read(
    path: ProjectPath,
    headers: Annotated[bool, Field(description="first row names the columns")] = True,
    limit: Annotated[int, Field(description="rows")] = LIMIT,
    offset: Annotated[int, Field(ge=0, description="rows to skip")] = 0,
    columns: list[str] | None = None,
    delimiter: Annotated[str | None, Field(min_length=1, max_length=1, description="else detected")] = None,
    encoding: Annotated[str | None, Field(description="else detected")] = None,
) -> Text:
    """Read rows of a CSV file, each cell under the name of its column."""
    if delimiter and delimiter in _NO_DELIMITERS:
        raise ToolError(Code.INVALID_ARGS, "delimiter: expected a character that is no quote, line end or NUL")
    most = limit if limit > 0 else LIMIT
    wanted = Wanted(headers, most, offset, columns or None, delimiter, encoding_named(encoding) if encoding else None)
    rows = await run_read(partial(read, path, wanted))
    if not rows.text and not offset:
        return Text(f"(no rows; the columns are {', '.join(rows.names)})" if rows.names else "empty CSV")
    parts = [*([rows.note] if rows.note else []), *rows.text]
    if not rows.text:
        parts.append(f"(no rows behind the first {offset})")
    if rows.ragged:
        parts.append(ragged_note(rows.ragged))
    if rows.more:
        last = offset + len(rows.text)
        parts.append(
            f"... (rows {offset + 1} to {last} shown)" if offset else f"... (first {len(rows.text)} rows shown)"
        )
    return Text("\n".join(parts), partial(_way_on, offset))


def _way_on(offset: int, head: str) -> str:
    """Return the hint for reading on behind the head of an answer: at the row of which not all may be in it."""
    last = offset
    for number in _ROW.findall(head):
        # A cell may have a line of this form.
        last += int(number) == last + 1
    # A single row that is cut would be cut again.
    return f"offset={last - 1}" if last > offset + 1 else "columns picks some cells"
