"""glob."""

import stat
from dataclasses import replace

from ...safety.errors import Code, ToolError
from ...safety.path_jail.opening import Links
from ...safety.path_jail.roots import JailedPath
from ...safety.path_jail.tree_walk import Walk
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ..base import Access, tool
from ..blocking import IsCancelled, run_read
from ..results import Text
from ..search.globs import Glob, compiled, expanded
from ..search.left_out import notes
from ..search.scope import WALK_DEADLINE, IncludeHidden
from ..services import Settings
from ..settings import ToolSettings
from ._nearby import near

MAX_HITS = 1000


@tool(Access.READ, deadline=lambda settings, given: WALK_DEADLINE)
async def glob(
    settings: Settings,
    pattern: str,
    base: ProjectPath = ".",  # type: ignore[assignment]
    include_hidden: IncludeHidden = False,
    include_ignored: bool = False,
) -> Text:
    """Find files by path, such as src/**/*.{ts,tsx}. Without a slash, such as *.py, at any depth."""
    if _leaves(pattern) or any(map(_leaves, expanded(pattern))):
        raise ToolError(Code.PATH_DENIED, f"{pattern} leaves the folder", "give the folder as base")
    whole = pattern.removeprefix("./") if "/" in pattern else f"**/{pattern}" if pattern else pattern
    wanted = compiled(whole, hidden=include_hidden)

    def found(stop: IsCancelled) -> str:
        hits, more = _found(base, wanted, settings, include_ignored, stop)
        if hits:
            return "\n".join([*hits, *more])
        if more:
            return "\n".join([f"no matches for {pattern} in what was searched", *more])
        also = near(base, whole, settings, stop, include_hidden=include_hidden, include_ignored=include_ignored)
        return f"no matches for {pattern}{also}"

    return Text(await run_read(found), "narrow the pattern or the base")


def _leaves(pattern: str) -> bool:
    return pattern.startswith("/") or ".." in pattern.split("/")


def _found(
    base: JailedPath, wanted: Glob, settings: ToolSettings, include_ignored: bool, stop: IsCancelled
) -> tuple[list[str], list[str]]:
    """Return a line for each file, and lines that say what is missing."""
    top = base.target()
    walk = Walk(
        base,
        ignored_dirs=() if include_ignored else settings.ignored_dirs,
        gitignore=settings.respect_gitignore and not include_ignored,
        enters=wanted.enters,
        wanted=wanted.meant,
        stop=stop,
    )
    prefix = "" if top.shown == "." else top.shown.rstrip("/") + "/"
    hits: list[str] = []
    for entry in walk:
        if entry.kind == "dir" or entry.kind == "other":
            continue
        if entry.kind == "symlink" and not _leads_to_file(replace(walk.at(entry), links=Links.FOLLOW)):
            continue
        if len(hits) == MAX_HITS:
            return hits, [f"... (truncated at {MAX_HITS} matches)"]
        hits.append(prefix + visible_name(entry.path))
    return hits, notes(walk)


def _leads_to_file(link: JailedPath) -> bool:
    """Return True if a link ends at a regular file inside the roots."""
    try:
        status = link.stat()
    except ToolError:
        return False
    return status is not None and stat.S_ISREG(status.st_mode)
