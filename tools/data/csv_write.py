"""csv_write."""

import json
import re
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.guard import Guard, GuardContext
from ...safety.paths import WritePath
from ..base import Access, tool
from ..edit.write_file import write_file
from ..results import Text
from ..services import Journal, Seen

_SPECIAL = re.compile(r'[,"\r\n]')
Cell = str | float | bool
SHAPE = "rows is a list of lists, or a list of objects, of strings, numbers, booleans and null"


def checked(value: Any, judging: GuardContext) -> list[Any]:
    """Return the rows, or refuse what is neither a list of lists nor one of objects."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise _bad("rows: expected a list") from None
    if not isinstance(value, list):
        raise _bad("rows: expected a list")
    kind = dict if value and isinstance(value[0], dict) else list
    for number, row in enumerate(value, 1):
        if not isinstance(row, kind):
            raise _bad(f"row {number}: expected {'an object' if kind is dict else 'a list'}, as the first row is one")
        for cell in row.values() if isinstance(row, dict) else row:
            if isinstance(cell, dict | list):
                raise _bad(f"row {number}: a cell is a list or an object")
    return value


def _bad(sentence: str) -> ToolError:
    return ToolError(Code.BAD_ROWS, sentence, SHAPE)


@tool(Access.WRITE, idempotent_hint=True)
async def csv_write(
    seen: Seen,
    journal: Journal,
    path: WritePath,
    rows: Annotated[
        list[Any],
        Guard(checked, accepts=list[list[Cell] | dict[str, Cell]], raw=True),
        Field(description="lists, or objects by column"),
    ],
    headers: Annotated[list[str] | None, Field(description="else the keys of objects")] = None,
    expected_etag: Annotated[str | None, Field(description="refuse unless the file is in this state")] = None,
) -> Text:
    """Create a CSV file or replace all of it."""
    names = headers or None
    if rows and isinstance(rows[0], dict):
        names = names or list(dict.fromkeys(key for row in rows for key in row))
        rows = [[row.get(name) for name in names] for row in rows]
    content = _written([*([names] if names else []), *rows])
    try:
        content.encode()
    except UnicodeEncodeError:
        raise _bad("a cell is no valid Unicode") from None
    done = await write_file.run(seen=seen, journal=journal, path=path, content=content, expected_etag=expected_etag)
    assert isinstance(done, Text)
    return replace(done, body=f"Wrote {len(rows)} rows to {path.shown}")


def _written(rows: list[list[Any]]) -> str:
    return "".join(_row([_cell(cell) for cell in row]) for row in rows)


def _row(cells: list[str]) -> str:
    # An empty line is no row, so a single empty cell is quoted.
    return '""\n' if cells == [""] else ",".join(map(_quoted, cells)) + "\n"


def _quoted(cell: str) -> str:
    """Return a cell, in quotes where it needs them; a CR too, which the csv module leaves bare and then cannot read."""
    return '"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell


def _cell(value: Any) -> str:
    """Return a cell as JSON has it, text as it is; null is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
