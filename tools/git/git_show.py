"""git_show."""

from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.git_refs import GitRef
from ...safety.git_repo import Repository
from ...safety.paths import EntryPath, ProjectPath
from ...safety.text import HEAD, clean, decode, is_binary, visible
from ...sandbox.git import Done
from ..base import Access, tool
from ..read._answer import Lines
from ..results import Text
from ..services import GitReads
from ._diffs import FLAGS, Diff, PatchLine, parsed, prefixes
from ._lines import lines_from

_FORMAT = "--format=commit %H%nauthor %an <%ae>%ndate %ad%n%n%w(0,4,4)%B%w(0,0,0)"


@tool(Access.READ, deadline=lambda settings, given: 3 * settings.command_timeout)
async def git_show(
    git: GitReads,
    ref: Annotated[GitRef, Field(description="commit, tag or branch")],
    path: Annotated[EntryPath | None, Field(description="show this file as it was there")] = None,
    start_line: PatchLine = None,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Diff | Lines | Text:
    """Show one commit with its message and patch, or a file as it was at a commit."""
    at = await git.repository(repo)
    if path is not None:
        return await _file(git, at, ref, at.inside(path), path.shown, start_line or 1)
    done = await git.run(
        at, "show", *FLAGS, *prefixes(at), "--no-show-signature", "--no-notes", "--date=iso", f"{_FORMAT}{'%n%x00'}",
        "--ignore-submodules=dirty", "--end-of-options", f"{ref}^{{commit}}", paths=[],
    )  # fmt: skip
    # A message cannot hold a NUL, so nothing in it can pass for a patch.
    head, _, patch = done.out.partition(b"\0\n")
    files = parsed(Done(patch, 0, "").text)
    intro = clean(head.decode("utf-8", "replace")).rstrip() + "\n"
    if files:
        return Diff.of(files, start_line, intro + "\n")
    family = await git.run(
        at,
        "show",
        "--no-patch",
        "--no-show-signature",
        "--no-notes",
        "--format=%H %P",
        "--end-of-options",
        f"{ref}^{{commit}}",
        paths=[],
    )
    commit, *parents = family.text.split()
    brought = f'git_diff ref="{parents[0][:10]}..{commit[:10]}" shows what it brought' if len(parents) > 1 else ""
    return Text(intro + f"\n(a merge without changes of its own; {brought})" if brought else intro.rstrip("\n"))


async def _file(git: GitReads, repo: Repository, ref: str, path: str, shown: str, start: int) -> Lines | Text:
    if path == ".":
        raise ToolError(Code.NOT_A_FILE, f"{shown} is a folder")
    try:
        done = await git.run(repo, "cat-file", "blob", f"{ref}:{path}")
    except ToolError as failure:
        if failure.code is not Code.GIT_FAILED and failure.code is not Code.BAD_REF:
            raise
        # Which of the two it is that git does not know.
        await git.run(repo, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        raise ToolError(
            Code.NOT_A_FILE, f"there is no file {shown} at {ref}", "git_log shows when it was there"
        ) from None
    if is_binary(done.out[:HEAD]):
        raise ToolError(Code.BINARY_FILE, f"{shown} at {ref} is not a text file")
    text = visible(decode(done.out).lf)
    return lines_from(text.removesuffix("\n").split("\n"), start) if text else Text("(empty file)")
