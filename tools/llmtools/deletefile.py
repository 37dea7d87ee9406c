"""deletefile, of the llmtools profile."""

import stat
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.guard import Guard, GuardContext
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import WriteEntry
from ..base import Access, tool
from ..blocking import run_write
from ..edit.delete_file import move_to_trash
from ..results import Verbatim
from ..services import Journal, Seen, Settings
from ..settings import ToolSettings
from ..undo.trash import OWN, system_trash


def _trash(raw: str, judging: GuardContext) -> JailedPath | None:
    if raw.strip().lower() in ("", "auto"):
        return None
    place = judging.policy.roots.place(raw)
    place.check_writable()
    return place


TrashDir = Annotated[JailedPath | None, Guard(_trash)]
"""A folder to write to; None for `auto`."""


@tool(Access.WRITE)
async def deletefile(
    settings: Settings,
    seen: Seen,
    journal: Journal,
    path: WriteEntry,
    trashDir: Annotated[TrashDir, Field(description="auto: the system's trash, else .trash beside the file")] = "auto",  # type: ignore[assignment]
) -> Verbatim:
    """Delete a file or link by moving it to a trash folder. undo brings it back."""
    deleted, method = await run_write(lambda _: _delete(path, trashDir, settings, journal))
    there, trashed = str(deleted[0].path), str(deleted[1].path)
    seen.moved(there, trashed)
    return Verbatim({"originalPath": there, "trashedPath": trashed, "method": method})


def _delete(
    place: JailedPath, wanted: JailedPath | None, settings: ToolSettings, journal: Journal
) -> tuple[tuple[JailedPath, JailedPath], str]:
    at = place.target()
    status = at.stat(follow=False)
    if status is None:
        raise ToolError(Code.NOT_FOUND, f"there is no {place.shown}")
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(Code.IS_A_DIRECTORY, f"{place.shown} is a folder", "deletefile deletes files and links")
    is_link = stat.S_ISLNK(status.st_mode)
    if not is_link and not stat.S_ISREG(status.st_mode):
        raise ToolError(Code.NOT_A_FILE, f"{place.shown} is not a regular file")
    if wanted is None and system_trash(at, settings) is None:
        wanted = at.folder().child(OWN)
    deleted = move_to_trash(place, False, wanted, settings, journal)
    assert deleted.trashed is not None
    folder = deleted.trashed.folder().stat()
    is_near = folder is not None and folder.st_dev == status.st_dev
    method = "rename" if is_near else "symlinkRehome" if is_link else "copyAndRemove"
    return (deleted.entry, deleted.trashed), method
