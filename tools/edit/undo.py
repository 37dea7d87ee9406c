"""undo."""

from typing import Annotated

from pydantic import Field, PrivateAttr

from ...safety.path_jail.roots import JailedPath
from ..base import Access, tool
from ..blocking import run_write
from ..results import Record
from ..services import Journal, Seen
from ..undo.revert import Reverted, revert

MAX_NAMED = 400_000
"""Characters of paths that an answer names, so that the change of very many files can still be told."""


class UndoRecord(Record):
    """The call that was undone, the paths that are back or as they were, and those that went away."""

    call_id: str
    tool: str
    restored: list[str]
    removed: list[str]
    _counts: tuple[int, int] = PrivateAttr((0, 0))

    def rendered(self) -> str:
        """Return the counts in a line."""
        restored, removed = self._counts
        return f"Undid {self.tool} ({self.call_id}): {restored} files restored, {removed} removed"


@tool(Access.WRITE)
async def undo(
    seen: Seen,
    journal: Journal,
    call_id: Annotated[str | None, Field(description="_meta.call_id of its answer; default: the latest")] = None,
) -> UndoRecord:
    """Take back what an edit, move or delete of this session did to files.

    Refused where a file has changed since. To undo the undo, name its own call_id.
    """
    done = await run_write(lambda _: revert(journal.history, call_id, journal))
    for old, new in done.moves:
        seen.moved(str(old), str(new))
    for path, content in done.files.items():
        if content:
            seen.record(str(path), content.etag)
        else:
            seen.forget(str(path))
    return _record(done)


def _record(done: Reverted) -> UndoRecord:
    record = UndoRecord(
        call_id=done.entry.call_id, tool=done.entry.tool, restored=_named(done.restored), removed=_named(done.removed)
    )
    record._counts = (len(done.restored), len(done.removed))
    return record


def _named(places: list[JailedPath]) -> list[str]:
    names: list[str] = []
    left = MAX_NAMED
    for name in sorted(place.shown for place in places):
        left -= len(name)
        if left < 0:
            break
        names.append(name)
    return names
