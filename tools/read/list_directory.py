"""list_directory."""

from typing import Annotated

from pydantic import Field

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.safety.ignore import Entry, Walk
from toolbox_mcp.safety.paths import ProjectPath
from toolbox_mcp.safety.text import visible_name
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.read.globbing import compiled
from toolbox_mcp.tools.read.scope import WALK_DEADLINE
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.services import Settings
from toolbox_mcp.tools.threads import Stop, reading

MAX_ROWS = 1000


@tool(Access.READ, deadline=lambda settings, given: WALK_DEADLINE)
async def list_directory(
    settings: Settings,
    path: ProjectPath = ".",  # type: ignore[assignment]
    recursive: bool = False,
    include_hidden: bool = False,
    pattern: Annotated[str | None, Field(description="glob on the name")] = None,
) -> Text:
    """List a folder: TYPE, SIZE and NAME of each entry."""
    wanted = compiled(pattern, hidden=True) if pattern is not None else None
    if pattern is not None and "/" in pattern:
        raise ToolError(Code.BAD_PATTERN, "pattern goes by the name alone", "glob matches whole paths")

    def listed(stop: Stop) -> str:
        walk = Walk(
            path,
            ignored_dirs=settings.ignored_dirs if recursive else (),
            gitignore=settings.respect_gitignore and recursive,
            hidden=include_hidden,
            max_depth=None if recursive else 1,
            sizes=True,
            show_ignored=True,
            stop=stop,
        )
        rows: list[str] = []
        for entry in walk:
            if wanted and not wanted.match(entry.name):
                continue
            if len(rows) == MAX_ROWS:
                return "\n".join([*rows, f"... (first {MAX_ROWS} entries shown)"])
            rows.append(_row(entry))
        if walk.cut:
            rows.append(f"... (stopped after {walk.cut})")
        return "\n".join(rows) or "(empty directory)"

    return Text(await reading(listed), "narrow the path or give a pattern")


def _row(entry: Entry) -> str:
    size = "-" if entry.size is None else str(entry.size)
    return f"{entry.kind}\t{size}\t{visible_name(entry.path)}"
