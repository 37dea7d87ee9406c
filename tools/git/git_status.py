"""git_status."""

from typing import Annotated

from pydantic import Field

from ...safety.paths import EntryPath, ProjectPath
from ..base import Access, tool
from ..read._answer import Lines
from ..results import Text
from ..services import GitReads
from ._lines import lines_from
from ._status import shown, state


@tool(Access.READ, deadline=lambda settings, given: 3 * settings.command_timeout)
async def git_status(
    git: GitReads,
    path: EntryPath | None = None,
    start_line: Annotated[int | None, Field(ge=1, description="list every entry, from this one on")] = None,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Lines | Text:
    """Show the branch and what is staged, changed or untracked in a git repository."""
    at = await git.repository(repo)
    found = await state(git, at, [at.inside(path)] if path else ())
    head = f"## {found.branch}"
    if start_line is None or not found.rows:
        return Text(f"{head}\n{shown(found.rows) or 'clean'}", "start_line=1 lists every entry")
    return lines_from([f"{mark} {path}" for mark, path in found.rows], start_line, head)
