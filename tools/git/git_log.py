"""git_log."""

from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.git_refs import GitRange, GitText
from ...safety.paths import EntryPath, ProjectPath
from ...safety.text import clean
from ..base import Access, tool
from ..results import Text
from ..services import GitReads

MAX_COUNT = 200
_FORMAT = "--format=%h%x00%ad%x00%an%x00%s"


@tool(Access.READ, deadline=lambda settings, given: 3 * settings.command_timeout)
async def git_log(
    git: GitReads,
    count: int = 20,
    path: EntryPath | None = None,
    ref: Annotated[GitRange | None, Field(description="where to start, or main..topic")] = None,
    author: Annotated[GitText | None, Field(description="part of name or mail")] = None,
    since: Annotated[GitText | None, Field(description='a date, or "2 weeks ago"')] = None,
    until: GitText | None = None,
    grep: Annotated[GitText | None, Field(description="part of the message")] = None,
    follow: Annotated[bool, Field(description="past renames of one file")] = False,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Text:
    """List commits, the newest first."""
    if follow and path is None:
        raise ToolError(Code.INVALID_ARGS, "follow: needs path, the file to follow")
    at = await git.repository(repo)
    filters = {"author": author, "since": since, "until": until, "grep": grep}
    args = [_FORMAT, "--date=short", f"--max-count={min(max(count, 1), MAX_COUNT)}", "--no-color"]
    args += [
        "--fixed-strings",
        "--regexp-ignore-case",
        *(f"--{name}={value}" for name, value in filters.items() if value),
    ]
    if follow:
        args.append("--follow")
    try:
        done = await git.run(
            at, "log", *args, "--end-of-options", ref or "HEAD", paths=[at.inside(path)] if path else []
        )
    except ToolError as failure:
        if failure.code is Code.BAD_REF and ref is None:
            return Text("no commits")
        raise
    rows = ["  ".join(clean(part) for part in line.split("\0")) for line in _lines(done.out)]
    return Text("\n".join(rows) or "no commits", "narrow with path, since or a lower count")


def _lines(data: bytes) -> list[str]:
    return [line for line in data.decode("utf-8", "replace").split("\n") if line]
