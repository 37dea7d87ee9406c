"""move_file."""

from contextlib import suppress

from ...safety.errors import ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import WriteEntry
from ...safety.writes import fs_ops as entries
from ...safety.writes.cross_device_move import SourceLeft
from ..base import Access, tool
from ..blocking import run_write
from ..results import Text
from ..services import Journal, Seen
from ..undo.changes import Put
from ..undo.journal import current, identified, made


@tool(Access.WRITE)
async def move_file(
    seen: Seen, journal: Journal, source: WriteEntry, destination: WriteEntry, overwrite: bool = False
) -> Text:
    """Move or rename a file or folder. The destination is its full path, not the folder to put it into."""
    old, new = await run_write(lambda _: _move(source, destination, overwrite, journal))
    seen.moved(str(old.path), str(new.path))
    return Text(f"Moved {source.shown} to {destination.shown}")


def _move(
    source: JailedPath, destination: JailedPath, overwrite: bool, journal: Journal
) -> tuple[JailedPath, JailedPath]:
    old, new = source.target(), destination.target()
    with old.roots.locks.hold(old.absolute, new.absolute):
        replaced = current(new, journal.left) if overwrite else None
        # What undo brings back has to be what goes away.
        try:
            moved = entries.move(old, new, overwrite=replaced is not None, expect=replaced.seen if replaced else None)
        except SourceLeft:
            if replaced:
                with suppress(ToolError):
                    journal.note([Put(new, replaced, identified(new))])
            raise
        journal.note(made(moved.folders))
        if moved.replaced:
            journal.note([Put(new, replaced, None)])
        journal.moved(old, new)
    return old, new
