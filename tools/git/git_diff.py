"""git_diff."""

from typing import Annotated

from pydantic import Field

from ...safety.git_refs import GitRange
from ...safety.paths import EntryPath, ProjectPath
from ..base import Access, tool
from ..results import Text
from ..services import GitReads
from ._diffs import Diff, PatchLine, diff


@tool(Access.READ, deadline=lambda settings, given: 3 * settings.command_timeout)
async def git_diff(
    git: GitReads,
    staged: Annotated[bool, Field(description="what the next commit holds")] = False,
    path: EntryPath | None = None,
    ref: Annotated[GitRange | None, Field(description="compare with it, or main..topic")] = None,
    start_line: PatchLine = None,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Diff | Text:
    """Show changes of the work tree, or between commits: a summary, then the patch."""
    at = await git.repository(repo)
    # In a work tree git would look into submodules.
    looks = "dirty" if staged or (ref and ".." in ref) else "all"
    args = [f"--ignore-submodules={looks}", *(["--cached"] if staged else [])]
    if ref:
        args += ["--end-of-options", ref]
    files = await diff(git, at, *args, paths=[at.inside(path)] if path else [])
    return Diff.of(files, start_line) if files else Text("no changes")
