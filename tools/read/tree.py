"""tree."""

from ...safety.path_jail.tree_walk import Walk
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ..base import Access, tool
from ..blocking import IsCancelled, run_read
from ..results import Text
from ..search.left_out import notes
from ..search.scope import WALK_DEADLINE, IncludeHidden
from ..services import Settings

MAX_ENTRIES = 500
DEPTH = 3


@tool(Access.READ, deadline=lambda settings, given: WALK_DEADLINE)
async def tree(
    settings: Settings,
    path: ProjectPath = ".",  # type: ignore[assignment]
    max_depth: int = DEPTH,
    include_hidden: IncludeHidden = False,
    include_ignored: bool = False,
) -> Text:
    """Show folders and files as an indented tree."""
    depth = max_depth if max_depth > 0 else DEPTH

    def drawn(stop: IsCancelled) -> str:
        walk = Walk(
            path,
            ignored_dirs=() if include_ignored else settings.ignored_dirs,
            gitignore=settings.respect_gitignore and not include_ignored,
            hidden=include_hidden,
            max_depth=depth,
            folders_first=True,
            stop=stop,
        )
        rows = [f"{visible_name(path.target().name)}/"]
        for entry in walk:
            if len(rows) > MAX_ENTRIES:
                return "\n".join([*rows, f"... (truncated at {MAX_ENTRIES} entries)"])
            mark = {"dir": "/", "symlink": "@"}.get(entry.kind, "")
            rows.append("  " * entry.depth + visible_name(entry.name) + mark)
        return "\n".join([*rows, *notes(walk)])

    return Text(await run_read(drawn), "narrow the path or lower max_depth")
