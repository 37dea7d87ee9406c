"""git_branch."""

from typing import Annotated

from pydantic import Field

from ...safety.paths import ProjectPath
from ...safety.text import clean
from ..base import Access, tool
from ..results import Text
from ..services import GitReads
from ._status import state

_FORMAT = "--format=%(HEAD)%00%(refname)%00%(symref)"


@tool(Access.READ, deadline=lambda settings, given: 3 * settings.command_timeout)
async def git_branch(
    git: GitReads,
    all: Annotated[bool, Field(description="remote ones too")] = False,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Text:
    """List the branches and mark the current one."""
    at = await git.repository(repo)
    done = await git.run(at, "for-each-ref", _FORMAT, "refs/heads", *(["refs/remotes"] if all else []))
    rows, current = [], False
    for line in done.out.decode("utf-8", "replace").split("\n"):
        if not line:
            continue
        mark, name, target = (clean(part) for part in line.split("\0"))
        current = current or mark == "*"
        name = name.removeprefix("refs/heads/").removeprefix("refs/")
        rows.append(f"{mark or ' '} {name}" + (f" -> {target.removeprefix('refs/remotes/')}" if target else ""))
    if not current:
        head = await git.run(at, "rev-parse", "--verify", "--quiet", "--short", "HEAD", codes=(0, 1))
        if head.code == 0:
            rows.insert(0, f"* (detached at {head.text.strip()})")
        else:
            unborn = (await state(git, at, [".git"])).branch
            rows.insert(0, f"* {unborn.removeprefix('No commits yet on ')} (no commits yet)")
    return Text("\n".join(rows))
