"""listdirectory, of the llmtools profile."""

import os

from ...safety.path_jail.roots import JailedPath
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ..base import Access, tool
from ..blocking import run_read
from ..results import Verbatim
from ..search.globs import compiled


@tool(Access.READ)
async def listdirectory(path: ProjectPath = ".", pattern: str | None = None) -> Verbatim:  # type: ignore[assignment]
    """List the entries of a folder, filtered by a glob such as *.txt where one is given."""
    return Verbatim({"entries": await run_read(lambda _: _names(path, pattern))})


def _names(place: JailedPath, pattern: str | None) -> list[str]:
    wanted = compiled(pattern, hidden=True).match if pattern is not None else None
    fd = place.open_folder()
    try:
        names = sorted(os.listdir(fd))
    finally:
        os.close(fd)
    return [visible_name(name) for name in names if wanted is None or wanted(name)]
