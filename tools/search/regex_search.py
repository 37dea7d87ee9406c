"""Patterns that need a backtracking engine, which can run away: matched in a process that can be killed."""

import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from functools import partial

from ...safety.errors import Code, ToolError
from ...safety.text import HEAD, is_binary
from ...sandbox.isolate.worker import Worker, WorkerFailure, WorkerTimeout
from ..blocking import IsCancelled, run_read
from ..progress import Progress
from .matches import Row
from .query import Query, sendable
from .regex_worker import File, matches_in, runaway
from .ripgrep import Cut, Missed, Rg
from .scope import MAX_BYTES, WALK_SECONDS, Scope

_AT_ONCE = 2**16  # bytes in which ripgrep looks for a NUL before it searches them

BATCH = 8 * 2**20
"""Bytes of files that go to the worker at a time; a guess between many round trips and much memory."""


async def search(query: Query, rg: Rg, worker: Worker, progress: Progress, limit: int) -> tuple[list[Row], Cut]:
    """Return matches and their context in order of path and line; more than limit matches means there are more.

    A match is one file where only files are told.
    """
    paths, cut = await rg.files()
    rows: list[Row] = []
    matches = done = 0
    while done < len(paths) and matches <= limit:
        if not rg.left:
            return rows, f"{WALK_SECONDS:g} s"
        batch, took = await run_read(partial(_read, rg, paths[done:]))
        done += took
        try:
            found = await in_worker(worker, query, batch, limit + 1 - matches, rg.left)
        except TimeoutError:
            if not rows:
                raise runaway(query.pattern, query.attempt) from None
            return rows, f"{WALK_SECONDS:g} s"
        rows += found
        matches += sum(row.match for row in found) if query.output == "lines" else len({row.path for row in found})
        await progress(done, len(paths), f"{matches} matches")
    return rows, cut


async def in_worker(worker: Worker, query: Query, files: list[File], limit: int, seconds: float) -> list[Row]:
    """Return the matching lines of some files, limit of them, or of so many files where only files are told.

    ToolError bad_pattern, regex_timeout; TimeoutError when the seconds are over.
    """
    context = (query.before, query.after)
    arguments = (
        sendable(query.pattern),
        query.spans,
        query.ignore_case,
        query.attempt,
        files,
        limit,
        query.output,
        *context,
    )
    try:
        found = await worker.call(matches_in, *arguments, deadline=seconds)
    except WorkerTimeout:
        raise TimeoutError from None
    except WorkerFailure:
        raise ToolError(
            Code.BAD_PATTERN, f"{query.pattern[:200]} is too much for the engine", "use a simpler pattern"
        ) from None
    return [Row(*match) for match in found]


def _read(rg: Rg, paths: list[str], stop: IsCancelled) -> tuple[list[File], int]:
    """Read files until a batch is full; return them, and how many paths that took."""
    out: list[File] = []
    size = 0
    for count, path in enumerate(paths, 1):
        data = read_searchable(rg.scope, path, rg.missed)
        if data is not None:
            out.append((path, data))
            size += len(data)
        if size >= BATCH or stop():
            return out, count
    return out, len(paths)


def read_searchable(scope: Scope, path: str, missed: Missed) -> bytes | None:
    """Return the bytes of a file below the scope's folder, or None for what is not searched, of which missed takes note.

    ToolError too_large where it is the one file of the scope.
    """
    place = scope.folder
    for name in path.split("/"):
        place = place.child(name)
    try:
        fd = place.open_file()
    except ToolError as refused:
        if refused.code is Code.PATH_DENIED:
            missed.unreadable.add(path)
        return None
    try:
        data = bytearray()
        while len(data) <= MAX_BYTES and (piece := os.read(fd, MAX_BYTES + 1 - len(data))):
            data += piece
    finally:
        os.close(fd)
    if len(data) <= MAX_BYTES:
        return bytes(data) if scope.file is not None else _before_nul(bytes(data))
    if scope.file is None:
        if not is_binary(bytes(data[:HEAD])):
            missed.large.add(path)
        return None
    raise ToolError(
        Code.TOO_LARGE,
        f"{scope.shown(path)} is above 5 MiB, too large for blocks, look-around and back-references",
        "a pattern without these is searched for in a file of any size",
    )


def _before_nul(data: bytes) -> bytes | None:
    """Return the searched part of a file below a folder, as ripgrep does: nothing behind a NUL, of a small file nothing at all."""
    at = -1 if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else data.find(b"\0")
    if at < 0:
        return data
    return data[:at] if len(data) > _AT_ONCE else None
