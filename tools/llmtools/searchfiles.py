"""searchfiles, of the llmtools profile."""

import stat
from typing import Annotated, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..blocking import IsCancelled, run_read
from ..results import Verbatim
from ..search.query import Query
from ..search.ripgrep import Rg
from ..search.scope import WALK_DEADLINE, Scope
from ..services import Search, Settings

MAX_BYTES = 2**20
"""Size below which the content of a file is searched (TOOLS.md §9)."""
MOST = 10_000
"""Paths of an answer, where the call sets no bound."""


@tool(Access.READ, deadline=lambda settings, given: WALK_DEADLINE)
async def searchfiles(
    ripgrep: Search,
    settings: Settings,
    pattern: str,
    root: ProjectPath = ".",  # type: ignore[assignment]
    maxResults: Annotated[int, Field(ge=0, description="0: no bound")] = 100,
) -> Verbatim:
    """Find files whose path or text content matches a regular expression."""
    if not pattern:
        raise ToolError(Code.EMPTY_PATTERN, "pattern is empty")
    limit = min(maxResults or MOST, MOST)
    scope = await run_read(lambda _: Scope.of(root, None, settings, include_ignored=True))
    rg = Rg.of(ripgrep, scope)
    files, cut = await rg.files()
    try:
        by_path = {files[index] for index in (await rg.matching(files, _query(pattern, "lines", len(files))))[0]}
    except ToolError as refused:
        if refused.code is not Code.BAD_PATTERN:
            raise
        hint = "a backslash before a special character takes it as it is"
        raise ToolError(Code.BAD_PATTERN, refused.error, hint) from None
    # Not the first few alone, as those may be too large.
    found, late = await rg.counts(_query(pattern, "files", MOST), MOST)
    rest = [path for path, _ in found if path not in by_path]
    by_content = await run_read(lambda stop: _small(scope, rest, stop))
    matches = sorted(by_path | by_content)
    result = {
        "matchCount": min(len(matches), limit),
        "reachedMaxResults": len(matches) >= limit or bool(cut or late),
        "matches": [scope.shown(path) for path in matches[:limit]],
    }
    return Verbatim(result)


def _query(pattern: str, output: Literal["lines", "files"], limit: int) -> Query:
    return Query(pattern, None, False, False, 0, 0, False, output, limit, 0.0)


def _small(scope: Scope, paths: list[str], stop: IsCancelled) -> set[str]:
    found = set()
    for path in paths:
        if stop():
            break
        status = scope.below(path).stat()
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_size < MAX_BYTES:
            found.add(path)
    return found
