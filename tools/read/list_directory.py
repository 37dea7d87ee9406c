"""list_directory."""

from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.path_jail.tree_walk import Entry, Walk
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ..base import Access, tool
from ..blocking import IsCancelled, run_read
from ..results import Text
from ..search.globs import compiled
from ..search.left_out import notes
from ..search.scope import WALK_DEADLINE, IncludeHidden, is_hidden
from ..services import Settings
from ._nearby import MAX_ENTRIES, MAX_SECONDS

MAX_ROWS = 1000


@tool(Access.READ, deadline=lambda settings, given: WALK_DEADLINE)
async def list_directory(
    settings: Settings,
    path: ProjectPath = ".",  # type: ignore[assignment]
    recursive: bool = False,
    include_hidden: IncludeHidden = False,
    pattern: Annotated[str | None, Field(description="name glob")] = None,
    sizes: bool = True,
) -> Text:
    """List a folder: rows of TYPE, SIZE, NAME."""
    wanted = compiled(pattern, hidden=include_hidden).match if pattern is not None else None
    if pattern is not None and "/" in pattern:
        raise ToolError(Code.BAD_PATTERN, "pattern goes by the name alone", "glob matches whole paths")

    enters = None if include_hidden else _is_shown

    def walked(stop: IsCancelled, **how: Any) -> Walk:
        depth = None if recursive else 1
        return Walk(path, ignored_dirs=settings.ignored_dirs, max_depth=depth, show_ignored=True, stop=stop, **how)

    def listed(stop: IsCancelled) -> str:
        # A pattern that spells out the dot names what is hidden, but not what hidden folders hold.
        walk = walked(stop, hidden=include_hidden or wanted is not None, sizes=sizes, enters=enters)
        found = (entry for entry in walk if wanted is None or wanted(entry.name))
        row = _row if sizes else _unsized_row
        rows = "\n".join([row(entry) for entry in islice(found, MAX_ROWS)])
        more = [f"... (first {MAX_ROWS} entries shown)"] if next(found, None) else notes(walk)
        if not rows and not walk.cut:
            rows = _nothing(walked(stop, max_entries=MAX_ENTRIES, max_seconds=MAX_SECONDS), pattern)
        return "\n".join([rows, *more] if rows else more)

    return Text(await run_read(listed), "narrow the path or give a pattern")


def _is_shown(path: str) -> bool:
    return not path.rpartition("/")[2].startswith(".")


def _nothing(walk: Walk, pattern: str | None) -> str:
    """Return what to say where no entry is listed. walk: over all that there is."""
    entries = [*walk]
    if not entries:
        return "(empty directory)"
    hidden = sum(is_hidden(entry.path) for entry in entries)
    if pattern is None:
        return f"(nothing but {hidden} hidden: include_hidden=true)"
    match = compiled(pattern, hidden=True).match
    if count := sum(match(entry.name) is not None for entry in entries):
        return f"no matches for {pattern}; {count} hidden: include_hidden=true"
    return f"no matches for {pattern}; {len(entries)} entries" + (f", {hidden} hidden" if hidden else "")


def _row(entry: Entry) -> str:
    size = "-" if entry.size is None else entry.size
    return f"{entry.kind}\t{size}\t{visible_name(entry.path)}"


def _unsized_row(entry: Entry) -> str:
    return f"{entry.kind}\t{visible_name(entry.path)}"
