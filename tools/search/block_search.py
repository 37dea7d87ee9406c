"""Blocks of consecutive lines in many files: ripgrep finds the files, then the lines are compared trimmed."""

from functools import partial

from ...safety.text import HEAD, decode, is_binary
from ..blocking import IsCancelled, run_read
from ..progress import Progress
from . import blocks as lines_of
from .matches import Found, block_rows
from .query import Query
from .regex_search import read_searchable
from .ripgrep import Rg
from .scope import WALK_SECONDS

FILES_AT_A_TIME = 200


async def blocks(query: Query, rg: Rg, progress: Progress, limit: int) -> Found:
    """Return the places where a block occurs; a match is one place, or one file where only files are told."""
    assert query.block is not None
    block = lines_of.split(query.block)
    rarest = max((line.strip() for line in block), key=len)
    paths, cut = await rg.holding(rarest, query.ignore_case)
    found = Found([], 0, False, cut)
    for at in range(0, len(paths), FILES_AT_A_TIME):
        if not rg.left:
            found.cut = f"{WALK_SECONDS:g} s"
            break
        await run_read(partial(_look, query, block, rg, paths[at : at + FILES_AT_A_TIME], found, limit))
        await progress(min(at + FILES_AT_A_TIME, len(paths)), len(paths), f"{found.matches} matches")
        if found.stopped:
            break
    return found


def _look(
    query: Query, block: list[str], rg: Rg, paths: list[str], found: Found, limit: int, stop: IsCancelled
) -> None:
    scope, missed = rg.scope, rg.missed
    wanted = [line.casefold() for line in block] if query.ignore_case else block
    for path in paths:
        data = read_searchable(scope, path, missed)
        if stop() or found.stopped:
            return
        if data is None or is_binary(data[:HEAD]):
            continue
        lines = decode(data).lf.removesuffix("\n").split("\n")
        starts = lines_of.find(wanted, (line.casefold() for line in lines) if query.ignore_case else lines)
        if not starts:
            continue
        if query.output != "lines":
            starts_told = [scope.shown(path) + (f": {len(starts)}" if query.output == "count" else "")]
            _add(found, [starts_told], limit)
            continue
        _add(found, [block_rows(scope.shown(path), s + 1, lines[s : s + len(block)]) for s in starts], limit)


def _add(found: Found, groups: list[list[str]], limit: int) -> None:
    for group in groups:
        if found.matches == limit:
            found.stopped = True
            return
        found.matches += 1
        found.lines += group
