"""replace_in_files."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath, Writable
from ...safety.paths import WritePath
from ...sandbox.isolate.worker import Worker, WorkerFailure, WorkerTimeout
from ..base import Access, tool
from ..blocking import check_cancelled, run_read, run_write
from ..results import Text
from ..search.left_out import notes
from ..search.scope import WALK_DEADLINE, WALK_SECONDS, Scope
from ..services import Journal, Parser, Progress, Seen, Settings
from ..settings import ToolSettings
from ._plan import File, Files, Plan, Replacement, literal
from ._regex import Template, parsed, runaway, substituted

EVERYTHING = "**/*"
MAX_ROWS = 100
SAME = "what replaces is the same there, as line ends stay those of the file"
_LIKE_REGEX = re.compile(r"\\[AbBdDsSwWZ]|\.[*+]|\[\^|\(\?|\\[.()]|\w\|\w")
TRIES = 3
"""Times that all is read and replaced, where others change a file meanwhile; a guess."""


@tool(Access.WRITE, deadline=lambda settings, given: WALK_DEADLINE)
async def replace_in_files(
    settings: Settings,
    parser: Parser,
    progress: Progress,
    seen: Seen,
    journal: Journal,
    pattern: str,
    replacement: str = "",
    glob: str = EVERYTHING,
    path: Annotated[WritePath, Field(description="folder or file")] = ".",  # type: ignore[assignment]
    regex: Annotated[bool, Field(description=r"pattern is one; \1 and \g<name> in the replacement are groups")] = False,
    ignore_case: bool = False,
    dry_run: bool = False,
    include_ignored: bool = False,
) -> Text:
    """Replace text in all files below a folder, or in one, in every one or in none.

    dry_run tells what would change.
    """
    if not pattern:
        raise ToolError(Code.EMPTY_PATTERN, "pattern is empty")
    compute: Callable[[Files, Plan], Awaitable[None]]
    if regex or ignore_case:
        template = parsed(replacement) if regex else [("text", replacement.replace("\r\n", "\n"))]
        in_batch = _Worker(parser, pattern, not regex, ignore_case, template, settings.regex_timeout)
        compute = partial(_in_worker, in_batch, progress)
    else:
        compute = partial(_in_threads, literal(pattern, replacement), progress)
    tries = looked_at = 0
    while True:
        found = Plan(journal.left, Writable(path.roots), looked_at=looked_at)
        files = Files(await run_read(lambda stop: _scope(path, glob, settings, include_ignored)), found)
        await compute(files, found)
        if dry_run:
            break
        tries += 1
        try:
            await _written(found, journal, seen)
            break
        except ToolError as refused:
            if refused.code is not Code.FILE_CHANGED or tries == TRIES:
                raise
            looked_at = found.looked_at
    same = sum(hit.change is None for hit in found.hits)
    if same and pattern != replacement:
        found.left_out[SAME] = same
    return Text(_told(found, pattern, notes(files.walk), dry_run=dry_run, regex=regex), "narrow the path or the glob")


def _scope(path: JailedPath, glob: str, settings: ToolSettings, include_ignored: bool) -> Scope:
    # The default means every file, so no path need be matched.
    return Scope.of(path, None if glob == EVERYTHING else glob, settings, include_ignored=include_ignored)


@dataclass(frozen=True)
class _Worker:
    """A replacement as the worker computes it."""

    parser: Worker
    pattern: str
    literal: bool
    ignore_case: bool
    template: Template
    attempt: float

    async def __call__(self, files: Sequence[File]) -> list[Replacement]:
        """Return the result for each file. ToolError bad_pattern, regex_timeout."""
        try:
            return await self.parser.call(
                substituted,
                self.pattern,
                self.literal,
                self.ignore_case,
                self.template,
                self.attempt,
                [file.data for file in files],
                deadline=WALK_SECONDS,
            )
        except WorkerTimeout:
            raise runaway(self.pattern, self.attempt) from None
        except WorkerFailure:
            raise ToolError(
                Code.BAD_PATTERN, f"{self.pattern[:200]} is too much for the engine", "use a simpler pattern"
            ) from None


async def _written(found: Plan, journal: Journal, seen: Seen) -> None:
    changes = [hit.change for hit in found.hits if hit.change]
    before = [hit.before for hit in found.hits if hit.change]
    for put in await run_write(
        lambda cancelled: journal.change_all(changes, before, partial(check_cancelled, cancelled))
    ):
        if put.before and put.after:
            seen.changed(str(put.place.path), put.before.etag, put.after.etag)


async def _in_threads(replace: Callable[[bytes], Replacement], progress: Progress, files: Files, found: Plan) -> None:
    while not files.ended:
        await run_read(partial(files.each, replace))
        await progress(found.looked_at, None, f"{len(found.hits)} files to change")


async def _in_worker(replaced: _Worker, progress: Progress, files: Files, found: Plan) -> None:
    # A bad pattern is told also where there are no files.
    await replaced([])
    while not files.ended:
        batch = await run_read(files.stretch)
        done = await replaced(batch)
        await run_read(partial(found.add_all, batch, done))
        await progress(found.looked_at, None, f"{len(found.hits)} files to change")


def _told(found: Plan, pattern: str, more: list[str], *, dry_run: bool, regex: bool) -> str:
    count = sum(hit.count for hit in found.hits)
    done = "Would replace" if dry_run else "Replaced"
    meant = "; regex=true reads it as an expression" if not regex and _LIKE_REGEX.search(pattern) else ""
    lines = [f"no matches for {pattern}{meant}"]
    if count:
        lines = [f"{done} {count} occurrence(s) in {len(found.hits)} file(s)"]
    lines += [f"{hit.place.shown}: {hit.count}" for hit in found.hits[:MAX_ROWS]]
    if len(found.hits) > MAX_ROWS:
        lines.append(f"... and {len(found.hits) - MAX_ROWS} more files")
    lines += [
        f"... ({files} file(s) left as they are: {why})" for why, files in sorted(found.left_out.items()) if files
    ]
    return "\n".join([*lines, *more])
