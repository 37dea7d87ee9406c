"""undo."""

import time
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, PrivateAttr

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ..base import Access, tool
from ..blocking import run_write
from ..results import Record
from ..services import Journal, Seen
from ..undo.changes import named
from ..undo.journal import History
from ..undo.revert import Reverted, obstacle, revert

MAX_LISTED = 20
MAX_NAMED = 400_000
"""Characters of paths that an answer names, so that the change of very many files can still be told."""
SHOWN = 20
"""Paths that the text names; the record has more."""


class ChangeRow(Record):
    """One change as the list shows it. unnamed: paths that are not named. age: seconds. state: whether it can be undone."""

    id: str
    tool: str
    paths: list[str]
    unnamed: int | None = None
    age: int
    state: str


class UndoRecord(Record):
    """The change that was undone, the paths that are back or as they were, that went away, and that were left as they are.

    undo: the id of this undo itself, by which it is undone. Or, for list, the latest changes.
    """

    id: str | None = None
    undo: str | None = None
    tool: str | None = None
    restored: list[str] | None = None
    removed: list[str] | None = None
    left: list[str] | None = None
    changes: list[ChangeRow] | None = None

    _text: str = PrivateAttr("")

    def rendered(self) -> str:
        """Return a line that names the files, or a line for each change."""
        return self._text


@tool(Access.WRITE)
async def undo(
    seen: Seen,
    journal: Journal,
    id: Annotated[
        str | None,
        Field(description="such as c7, with which the change's answer ends; default: the latest"),
    ] = None,
    list: Annotated[bool, Field(description="only list the latest changes")] = False,
) -> UndoRecord:
    """Take back what an edit, move or delete of this session did to files.

    Files that have changed since stay as they are. To undo the undo, give its own id.
    """
    if list:
        if id is not None:
            raise ToolError(Code.INVALID_ARGS, "id: not used with list", "leave one of them out")
        changes = await run_write(lambda _: _rows(journal.history))
        return _with_text(UndoRecord(changes=changes), "\n".join(map(_row, changes)) or "(no changes)")
    done = await run_write(lambda _: revert(journal.history, id, journal))
    for old, new in done.moves:
        seen.moved(str(old), str(new))
    for path, content in done.files.items():
        if content:
            seen.record(str(path), content.etag)
        else:
            seen.forget(str(path))
    return _record(done, journal.entry.id if journal.entry.undoable else None)


def _record(done: Reverted, own: str | None) -> UndoRecord:
    entry = done.entry
    parts = [
        f"{word} {_some([place.shown for place in places])}"
        for word, places in (
            ("restored", done.restored),
            ("removed", done.removed),
            ("left, as changed since:", done.left),
        )
        if places
    ]
    record = UndoRecord(
        id=entry.id,
        undo=own,
        tool=entry.tool,
        restored=_named(done.restored),
        removed=_named(done.removed),
        left=_named(done.left) or None,
    )
    return _with_text(record, f"Undid {entry.tool} ({entry.id}): {'; '.join(parts) or 'nothing to change'}")


def _with_text(record: UndoRecord, text: str) -> UndoRecord:
    record._text = text
    return record


def _rows(history: History) -> "list[ChangeRow]":
    now = time.monotonic()
    rows = []
    for entry in history.latest()[:MAX_LISTED]:
        places = named(entry.steps)
        paths = _named(places, MAX_NAMED // MAX_LISTED)[:SHOWN]
        state = obstacle(entry, history) or "can be undone"
        unnamed = len(places) - len(paths) or None
        rows.append(
            ChangeRow(
                id=entry.id, tool=entry.tool, paths=paths, unnamed=unnamed, age=round(now - entry.at), state=state
            )
        )
    return rows


def _row(row: ChangeRow) -> str:
    paths = ", ".join(row.paths) + (f" and {row.unnamed} more" if row.unnamed else "")
    return f"{row.id}\t{row.tool}\t{paths}\t{_ago(row.age)}\t{row.state}"


def _ago(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s ago"
    return f"{seconds // 60} min ago" if seconds < 7200 else f"{seconds // 3600} h ago"


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(sorted(names)[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _named(places: "list[JailedPath]", room: int = MAX_NAMED) -> "list[str]":
    names = []
    left = room
    for name in sorted(place.shown for place in places):
        left -= len(name)
        if left < 0:
            break
        names.append(name)
    return names
