"""create_directory."""

from ...safety.path_jail.roots import JailedPath
from ...safety.paths import WritePath
from ...safety.writes.fs_ops import make_folders
from ..base import Access, tool
from ..blocking import run_write
from ..results import Text
from ..services import Journal
from ..undo.journal import made


@tool(Access.WRITE, destructive_hint=False, idempotent_hint=True)
async def create_directory(journal: Journal, path: WritePath) -> Text:
    """Make a folder, and those above it that are missing."""
    done = await run_write(lambda _: _make(path, journal))
    return Text(f"Created {path.shown}/" if done else f"{path.shown}/ already exists")


def _make(place: JailedPath, journal: Journal) -> bool:
    folders = make_folders(place)
    journal.note(made(folders))
    return bool(folders)
