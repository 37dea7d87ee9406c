"""git_status."""

from ...safety.paths import EntryPath, ProjectPath
from ..base import Access, tool
from ..results import Text
from ..services import GitReads
from ._status import shown, state


@tool(Access.READ, deadline=lambda settings, given: 3 * settings.command_timeout)
async def git_status(
    git: GitReads,
    path: EntryPath | None = None,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Text:
    """Show the branch and what is staged, changed or untracked in a git repository."""
    at = await git.repository(repo)
    found = await state(git, at, [at.inside(path)] if path else ())
    return Text(f"## {found.branch}\n{shown(found.rows) or 'clean'}", "path shows one folder")
