"""code_outline."""

import stat
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.guard import Guard
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ..base import Access, tool
from ..blocking import run_read
from ..results import Text
from ..services import Outlines, Parser, Progress, Settings
from ._definitions import Match, any_kind
from ._file import outline
from ._find import MAX_ROWS, found
from ._find import references as lines_that_name
from ._map import RankedMap, ranked
from ._tree import TREE_SECONDS, Tree, tree

DEADLINE = 2 * TREE_SECONDS + 20
Kind = Literal["class", "module", "method", "function", "constant", "type", "interface"]


@tool(Access.READ, deadline=lambda settings, given: DEADLINE)
async def code_outline(
    settings: Settings,
    parser: Parser,
    outlines: Outlines,
    progress: Progress,
    path: ProjectPath = ".",  # type: ignore[assignment]
    query: Annotated[str | None, Field(description="part of a name, A.b or A::b")] = None,
    kind: Annotated[str | None, Guard(any_kind, accepts=Kind, raw=True)] = None,
    match: Annotated[Match, Field(description="how query matches a name")] = "contains",
    references: Annotated[bool, Field(description="add last lines, and who names the first hit")] = False,
    include_ignored: bool = False,
) -> Text | RankedMap:
    """Outline code: the definitions of a file; of a folder, its most used files, or where a name is defined."""
    at = path.target()
    status = at.stat()
    if status is None:
        raise ToolError(Code.NOT_A_FILE, f"there is no {path.shown}", path.similar())
    if not stat.S_ISDIR(status.st_mode):
        return await outline(parser, path, query, kind, match)
    below = await tree(path, settings, include_ignored, parser, outlines, progress)
    if query:
        return Text(
            await run_read(partial(_rows, below, at, query, kind, match, references)), "narrow query, kind or path"
        )

    def ranking(stop: Callable[[], bool]) -> RankedMap | None:
        return outlines.made_of(below, at.absolute, kind, partial(ranked, below, kind, stop))

    return await run_read(ranking) or _nothing(path, below)


def _nothing(path: JailedPath, below: Tree) -> Text:
    return Text("\n".join([f"no definitions found in {path.shown}", *below.notes]))


def _rows(
    below: Tree, folder: JailedPath, query: str, kind: str | None, match: Match, named: bool, stop: Callable[[], bool]
) -> str:
    hits = found(below, query, kind, match, stop)
    rows = [
        f"{below.shown(source)}:{each.line}: {each.kind} {visible_name(each.name)}"
        + (f" (to line {each.last})" if named else "")
        for source, each in hits[:MAX_ROWS]
    ]
    if not rows:
        rows = [f"no definitions found in {folder.shown}"]
    if len(hits) > MAX_ROWS:
        rows.append(f"... (first {MAX_ROWS} of {len(hits)} shown)")
    if named and hits:
        name = hits[0][1].name
        places, more = lines_that_name(below, folder, name, MAX_ROWS, stop)
        rows += [f"--- lines that name {visible_name(name)} ---", *places]
        if more:
            rows.append(f"... (first {MAX_ROWS} shown)")
    return "\n".join([*rows, *below.notes])
