"""list_directory."""

from itertools import islice
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.path_jail.tree_walk import Entry, Walk
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ..base import Access, tool
from ..blocking import IsCancelled, run_read
from ..results import Text
from ..search.globs import compiled
from ..search.scope import WALK_DEADLINE
from ..services import Settings

MAX_ROWS = 1000


@tool(Access.READ, deadline=lambda settings, given: WALK_DEADLINE)
async def list_directory(
    settings: Settings,
    path: ProjectPath = ".",  # type: ignore[assignment]
    recursive: bool = False,
    include_hidden: bool = False,
    pattern: Annotated[str | None, Field(description="name glob")] = None,
    sizes: bool = True,
) -> Text:
    """List a folder: rows of TYPE, SIZE, NAME."""
    wanted = compiled(pattern, hidden=True).match if pattern is not None else None
    if pattern is not None and "/" in pattern:
        raise ToolError(Code.BAD_PATTERN, "pattern goes by the name alone", "glob matches whole paths")

    def listed(stop: IsCancelled) -> str:
        walk = Walk(
            path,
            ignored_dirs=settings.ignored_dirs,
            hidden=include_hidden,
            max_depth=None if recursive else 1,
            sizes=sizes,
            show_ignored=True,
            stop=stop,
        )
        found = (entry for entry in walk if wanted is None or wanted(entry.name))
        row = _row if sizes else _unsized_row
        rows = "\n".join([row(entry) for entry in islice(found, MAX_ROWS)])
        cut = f"first {MAX_ROWS} entries shown" if next(found, None) else walk.cut and f"stopped after {walk.cut}"
        if cut:
            return f"{rows}\n... ({cut})" if rows else f"... ({cut})"
        return rows or "(empty directory)"

    return Text(await run_read(listed), "narrow the path or give a pattern")


def _row(entry: Entry) -> str:
    size = "-" if entry.size is None else entry.size
    return f"{entry.kind}\t{size}\t{visible_name(entry.path)}"


def _unsized_row(entry: Entry) -> str:
    return f"{entry.kind}\t{visible_name(entry.path)}"
