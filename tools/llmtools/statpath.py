"""statpath, of the llmtools profile."""

import stat
from datetime import UTC, datetime
from typing import Any

from ...safety.path_jail.roots import JailedPath
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ..base import Access, tool
from ..blocking import run_read
from ..results import Verbatim


@tool(Access.READ)
async def statpath(path: ProjectPath) -> Verbatim:
    """Return whether a path exists, is a folder, its size and when it was changed (UTC)."""
    return Verbatim(await run_read(lambda _: status_of(path)))


def status_of(place: JailedPath) -> dict[str, Any]:
    """Return what is known of an entry; of one that is not there, no size and no time."""
    about = {"path": visible_name(str(place.path)), "name": visible_name(place.name)}
    status = place.stat()
    if status is None:
        return {**about, "exists": False, "isDir": False}
    return {
        **about,
        "exists": True,
        "isDir": stat.S_ISDIR(status.st_mode),
        "sizeBytes": status.st_size,
        "modTime": datetime.fromtimestamp(status.st_mtime, UTC).isoformat().replace("+00:00", "Z"),
    }
