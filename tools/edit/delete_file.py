"""delete_file."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import WriteEntry, WritePath
from ...safety.writes import fs_ops as entries
from ..base import Access, tool
from ..blocking import run_write
from ..results import Text
from ..services import Journal, Seen, Settings
from ..settings import ToolSettings
from ..undo.journal import made
from ..undo.trash import Trash


@dataclass(frozen=True)
class Deleted:
    """What was deleted, and where in the trash it is."""

    entry: JailedPath
    kind: str
    trashed: JailedPath | None


@tool(Access.WRITE)
async def delete_file(
    settings: Settings,
    seen: Seen,
    journal: Journal,
    path: WriteEntry,
    recursive: Annotated[bool, Field(description="also a folder with content")] = False,
    mode: Literal["trash", "permanent"] | None = None,
    trash_dir: WritePath | None = None,
) -> Text:
    """Delete a file, link or folder, by default by moving it to a trash folder.

    undo brings it back, unless mode is permanent.
    """
    if trash_dir is not None and mode == "permanent":
        raise ToolError(Code.INVALID_ARGS, "trash_dir: not with mode=permanent")
    to_trash = trash_dir is not None or (mode or settings.delete_mode) == "trash"
    if to_trash:
        deleted = await run_write(lambda _: move_to_trash(path, recursive, trash_dir, settings, journal))
    else:
        deleted = await run_write(lambda _: _for_good(path, recursive, journal))
    if deleted.trashed:
        # undo brings it back, and what the session knew of it.
        seen.moved(str(deleted.entry.path), str(deleted.trashed.path))
        return Text(f"Moved {deleted.kind} {path.shown} to trash: {deleted.trashed.shown}")
    seen.forget(str(deleted.entry.path))
    return Text(f"Deleted {deleted.kind} {path.shown}")


def _for_good(place: JailedPath, recursive: bool, journal: Journal) -> Deleted:
    at = place.target()
    kind = entries.remove(at, recursive=recursive)
    journal.cannot("it deleted for good", at)
    return Deleted(at, kind, None)


def move_to_trash(
    place: JailedPath, recursive: bool, wanted: JailedPath | None, settings: ToolSettings, journal: Journal
) -> Deleted:
    """Move an entry to the trash. wanted: a folder for it; None for that of the settings."""
    at = place.target()
    trash = Trash.of(at, wanted, settings)
    # All of them at once: who holds one and waits for another may wait for ever.
    with at.roots.locks.hold(at.absolute, trash.ignore.absolute):
        kind = entries.removable(at, recursive=recursive)
        if at.path.is_relative_to(trash.folder.path):
            raise ToolError(Code.REFUSED, f"{at.shown} is in the trash already", "mode=permanent deletes it for good")
        if trash.folder.path.is_relative_to(at.path):
            raise ToolError(Code.REFUSED, f"{at.shown} holds the trash {trash.folder.shown}", "name another trash_dir")
        name = trash.name(at)
        trashed = trash.folder.child(name)
        with trash.made() as folders:
            note = trash.note(at, name)
            try:
                entries.move(at, trashed)
            except ToolError:
                if note:
                    entries.remove(note.place)
                raise
        journal.note([*made(folders), *([note] if note else [])])
        journal.moved(at, trashed, to_trash=True)
    return Deleted(at, kind, trashed)
