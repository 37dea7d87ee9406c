"""git_grep."""

import re
import stat
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.git_refs import GitText
from ...safety.git_repo import Repository
from ...safety.path_jail.opening import Links
from ...safety.paths import EntryPath, ProjectPath
from ...safety.text import visible, visible_name
from ...sandbox.git import Done
from ..base import Access, tool
from ..results import Text
from ..services import GitReads, Settings

MAX_LINE = 500
"""Characters of a line that are shown, as in grep_files."""
_ROW = re.compile(r"([^\0]+)\0([0-9]+)\0([^\n]*)(?:\n|\Z)")
"""A row of git; only the name may hold a line break."""


@tool(Access.READ, deadline=lambda settings, given: 3 * settings.command_timeout)
async def git_grep(
    git: GitReads,
    settings: Settings,
    pattern: GitText,
    path: EntryPath | None = None,
    ignore_case: bool = False,
    fixed: Annotated[bool, Field(description="pattern is plain text")] = False,
    repo: ProjectPath = ".",  # type: ignore[assignment]
) -> Text:
    """Search the files that git tracks. grep_files also finds untracked ones."""
    if not pattern:
        raise ToolError(Code.EMPTY_PATTERN, "pattern is empty")
    at = await git.repository(repo)
    flags = ["-n", "-z", "-I", "--full-name", "--no-color", "--no-recurse-submodules", "--no-textconv"]
    flags += ["-i"] * ignore_case
    paths = [at.inside(path)] if path else ["."]
    done = Done(b"", 1, "")
    for kind in ("-F",) if fixed else ("-P", "-E"):
        try:
            done = await git.run(at, "grep", *flags, kind, "-e", pattern, paths=paths, codes=(0, 1), cut=True)
        except ToolError as failure:
            if "Perl-compatible" in failure.error or "USE_LIBPCRE" in failure.error:
                continue
            if failure.code is Code.GIT_FAILED and ("command line" in failure.error or "-e option" in failure.error):
                why = failure.error.rpartition(": ")[2]
                raise ToolError(
                    Code.BAD_PATTERN, f"git cannot read the pattern: {why}", "fixed takes it as text"
                ) from None
            raise
        break
    rows: list[str] = []
    folders: dict[str, bool] = {}
    for found in _ROW.finditer(done.out.decode("utf-8", "surrogateescape")):
        name, number, text = found.groups()
        if not _is_inside(at, name, folders):
            continue
        text = text.removesuffix("\r").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        text = visible(text if len(text) <= MAX_LINE else text[:MAX_LINE] + "…")
        rows.append(f"{visible_name(at.prefix + name)}:{number}: {text}")
    most = settings.max_grep_matches
    if len(rows) > most or done.cut:
        rows = [*rows[:most], f"... (stopped at {most} matches)"]
    return Text("\n".join(rows) or f"no matches for {visible_name(pattern)}", "narrow the path or the pattern")


def _is_inside(repo: Repository, name: str, folders: dict[str, bool]) -> bool:
    """Return True if no folder above a file is a link: git would search where it leads. folders: those known."""
    folder = name.rpartition("/")[0]
    if folder not in folders:
        tree = repo.work_tree
        parts = (*tree.parts, *folder.split("/")) if folder else tree.parts
        try:
            status = replace(tree, parts=parts, links=Links.NONE).stat()
        except ToolError:
            status = None
        folders[folder] = status is not None and stat.S_ISDIR(status.st_mode)
    return folders[folder]
