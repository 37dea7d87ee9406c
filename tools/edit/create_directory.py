"""create_directory."""

from functools import partial

from toolbox_mcp.safety.entries import make_folders
from toolbox_mcp.safety.paths import WritePath
from toolbox_mcp.safety.roots import Place
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.edit.journal import made
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.services import Journal
from toolbox_mcp.tools.threads import writing


@tool(Access.WRITE, destructive_hint=False, idempotent_hint=True)
async def create_directory(journal: Journal, path: WritePath) -> Text:
    """Make a folder, and those above it that are missing."""
    done = await writing(partial(_make, path, journal))
    return Text(f"Created {path.shown}/" if done else f"{path.shown}/ already exists")


def _make(place: Place, journal: Journal) -> bool:
    folders = make_folders(place)
    journal.note(made(folders))
    return bool(folders)
