"""multi_edit."""

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict

from ...safety.errors import Code, ToolError
from ...safety.guard import Guard, GuardContext
from ...safety.paths import WritePath
from ..base import Access, tool
from ..blocking import IsCancelled, check_cancelled, run_write
from ..results import Text
from ..services import Journal, Parser, Seen
from ._load import LoadedFile, edit
from ._missing import no_match
from ._replace import NoMatch, NormalizedText


class Edit(BaseModel):
    """One replacement, by edit_file's rules."""

    model_config = ConfigDict(extra="forbid")
    old_string: str
    new_string: str
    replace_all: bool = False


Edits = tuple[Edit, ...]


def checked(value: Any, judging: GuardContext) -> Edits:
    """Return the edits, or refuse what is no list of them."""
    if not isinstance(value, list) or not value:
        raise ToolError(
            Code.BAD_EDITS, "edits: expected a list of at least one edit", "each is {old_string, new_string}"
        )
    return tuple(_edit(index, item) for index, item in enumerate(value))


def _edit(index: int, item: Any) -> Edit:
    where = f"edits.{index}"
    if isinstance(item, str):
        with suppress(ValueError, RecursionError):
            item = json.loads(item)
    if not isinstance(item, dict):
        raise ToolError(Code.INVALID_ARGS, f"{where}: expected an object with old_string and new_string")
    if unknown := set(item) - set(Edit.model_fields):
        known = ", ".join(Edit.model_fields)
        raise ToolError(Code.INVALID_ARGS, f"{where}.{min(map(str, unknown))[:100]}: no such field", f"known: {known}")
    for name in ("old_string", "new_string"):
        if name not in item:
            raise ToolError(Code.INVALID_ARGS, f"{where}.{name}: required, but missing")
        if not isinstance(item[name], str):
            raise ToolError(Code.INVALID_ARGS, f"{where}.{name}: expected a string")
    every = item.get("replace_all")
    if isinstance(every, str) and every.lower() in ("true", "false"):
        every = every.lower() == "true"
    if every is not None and not isinstance(every, bool):
        raise ToolError(Code.INVALID_ARGS, f"{where}.replace_all: expected a boolean")
    return Edit(old_string=item["old_string"], new_string=item["new_string"], replace_all=bool(every))


@dataclass
class _Progress:
    """Which edit it is, 1-based, and the replacements made so far."""

    edit: int = 0
    replacements: int = 0


@tool(Access.WRITE)
async def multi_edit(
    parser: Parser,
    seen: Seen,
    journal: Journal,
    path: WritePath,
    edits: Annotated[Edits, Guard(checked, accepts=list[Edit], raw=True)],
    expected_etag: str | None = None,
) -> Text:
    """Make several edit_file replacements in one file, in order, all or none.

    Each edit sees what the ones before it made.
    """
    at = _Progress()
    try:
        edited = await run_write(
            lambda cancelled: edit(path, expected_etag, journal, partial(_change, edits, at, cancelled))
        )
    except NoMatch as missed:
        refusal = await no_match(path, missed, parser)
        raise _numbered(refusal, at.edit, len(edits)) from None
    seen.changed(edited.key, edited.before, edited.written.etag)
    return Text(
        f"Edited {path.shown}: {len(edits)} edits, {at.replacements} replacements", meta={"etag": edited.written.etag}
    )


def _change(edits: Edits, at: _Progress, cancelled: IsCancelled, file: LoadedFile) -> tuple[str, str]:
    text = file.text.text
    for number, one in enumerate(edits, 1):
        check_cancelled(cancelled)
        at.edit = number
        try:
            replaced = NormalizedText(text).replace(
                one.old_string, one.new_string, file.text.line_end, every=one.replace_all
            )
        except ToolError as refusal:
            raise _numbered(refusal, number, len(edits)) from None
        text = replaced.text
        at.replacements += replaced.count
    return text, "".join(one.new_string for one in edits)


def _numbered(refusal: ToolError, number: int, count: int) -> ToolError:
    return ToolError(refusal.code, f"edit {number} of {count}: {refusal.error}", refusal.hint)
