"""move_file."""

from contextlib import suppress
from functools import partial

from toolbox_mcp.safety import entries
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.far_moves import SourceLeft
from toolbox_mcp.safety.paths import WriteEntry
from toolbox_mcp.safety.roots import Place
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.edit.journal import current, identified, made
from toolbox_mcp.tools.edit.steps import Put
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.services import Journal, Seen
from toolbox_mcp.tools.threads import writing


@tool(Access.WRITE)
async def move_file(
    seen: Seen, journal: Journal, source: WriteEntry, destination: WriteEntry, overwrite: bool = False
) -> Text:
    """Move or rename a file or folder. The destination is its full path, not the folder to put it into."""
    old, new = await writing(partial(_move, source, destination, overwrite, journal))
    seen.moved(str(old.path), str(new.path))
    return Text(f"Moved {source.shown} to {destination.shown}")


def _move(source: Place, destination: Place, overwrite: bool, journal: Journal) -> tuple[Place, Place]:
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
