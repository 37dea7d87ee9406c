"""Searching a scope: paths, contents by ripgrep or by a backtracking engine, and blocks of lines."""

from dataclasses import replace
from typing import Literal

from ...sandbox.isolate.worker import Worker
from ...sandbox.ripgrep import Ripgrep
from ..blocking import run_read
from ..progress import Progress
from . import block_search
from . import regex_search as backtracking
from .matches import Found, Row, told
from .query import Query
from .regex_worker import runaway
from .ripgrep import Cut, Rg
from .scope import Scope


async def search(
    query: Query,
    scope: Scope,
    target: Literal["content", "path", "both"],
    ripgrep: Ripgrep,
    worker: Worker,
    progress: Progress,
) -> tuple[list[str], list[str]]:
    """Return the lines that were found, and those that say what is missing. ToolError bad_pattern, regex_timeout."""
    rg = Rg.of(ripgrep, scope)
    parts: list[Found] = []
    if target != "content":
        parts.append(await _paths(query, rg, worker))
    left = query.limit - sum(part.matches for part in parts)
    if target != "path" and not any(part.stopped or part.cut for part in parts):
        # With nothing left, one match more is enough to know that there are more.
        parts.append(await _contents(query, rg, worker, progress, left))
    lines = [line for part in parts for line in part.lines]
    more: list[str] = []
    if any(part.stopped for part in parts):
        more.append(f"... (stopped at {query.limit} matches)")
    elif target != "path" and scope.file is None and not any(part.cut for part in parts):
        await rg.find_large()
    more += [f"... (stopped after {part.cut})" for part in parts if part.cut]
    return lines, more + rg.missed.notes()


async def _paths(query: Query, rg: Rg, worker: Worker) -> Found:
    paths, cut = await rg.files()
    shown = [rg.scope.shown(path) for path in paths]
    if query.block is not None:
        fold = str.casefold if query.ignore_case else str
        wanted = [fold(line.strip()) for line in query.block if line.strip()]
        hits = [path for path in shown if any(line in fold(path) for line in wanted)]
    elif query.backtracks:
        # Each by itself where a match could otherwise lie over two of them.
        texts = [(path, path.encode()) for path in shown] if query.spans else [("", "\n".join(shown).encode())]
        alone = replace(query, output="files" if query.spans else "lines", before=0, after=0)
        try:
            rows = await backtracking.in_worker(worker, alone, texts, query.limit + 1, rg.left)
        except TimeoutError:
            raise runaway(query.pattern, query.attempt) from None
        hits = [row.path or shown[row.line - 1] for row in rows]
    else:
        matching, late = await rg.matching(shown, query)
        hits, cut = [shown[index] for index in matching], cut or late
    stopped = len(hits) > query.limit
    hits = hits[: query.limit]
    return Found(hits, len(hits), stopped, cut)


async def _contents(query: Query, rg: Rg, worker: Worker, progress: Progress, left: int) -> Found:
    # ripgrep looks for text behind the NUL of a file that it is given by name, up to the end of the largest.
    if rg.scope.file is not None and await run_read(rg.scope.is_binary):
        return Found([], 0, False)
    if query.block is not None:
        return await block_search.blocks(query, rg, progress, left)
    if query.backtracks:
        rows, cut = await backtracking.search(query, rg, worker, progress, left)
    elif query.output != "lines":
        counts, cut = await rg.counts(query, left)
        return _counted(counts, query, rg.scope, left, cut)
    else:
        rows, cut = await rg.rows(query, progress, left)
    return told_rows(rows, query, rg.scope, left, cut)


def told_rows(rows: list[Row], query: Query, scope: Scope, left: int, cut: Cut) -> Found:
    """Return rows, sorted by path and line, as an answer of at most left matches."""
    if query.output != "lines":
        counted: dict[str, int] = {}
        for row in rows:
            if row.match:
                counted[row.path] = counted.get(row.path, 0) + row.begins
        return _counted(list(counted.items()), query, scope, left, cut)
    matches = end = 0
    for at, row in enumerate(rows, 1):
        if row.match:
            if matches == left:
                # Behind the last match comes its context, whatever it is itself.
                upto = (rows[end - 1].path, rows[end - 1].line + query.after) if end else ("", 0)
                near = [replace(r, match=False) for r in rows[end:] if r.path == upto[0] and r.line <= upto[1]]
                return Found(_told(rows[:end] + near, query, scope), matches, True, cut)
            matches += 1
            end = at
    return Found(_told(rows, query, scope), matches, False, cut)


def _counted(counts: list[tuple[str, int]], query: Query, scope: Scope, left: int, cut: Cut) -> Found:
    lines = [scope.shown(path) + (f": {n}" if query.output == "count" else "") for path, n in counts[:left]]
    return Found(lines, len(lines), len(counts) > left, cut)


def _told(rows: list[Row], query: Query, scope: Scope) -> list[str]:
    return told(rows, scope.shown, grouped=query.grouped)
