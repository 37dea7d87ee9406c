"""The outline of one file."""

import os
from collections.abc import Callable
from functools import partial

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.text import HEAD, is_binary
from ...safety.writes.atomic import read_whole
from ...sandbox.isolate.worker import Worker, WorkerFailure
from ..blocking import run_read
from ..results import Text
from ._definitions import Match, definitions, wanted
from ._languages import LANGUAGES, language_of, language_of_head
from ._parse import parsed

MAX_BYTES = 5 * 2**20
"""Size of a file (TOOLS.md §4.2)."""
SECONDS = 1.2
"""Seconds that one file may take; code takes a tenth of a second for a megabyte."""
_WAY_ON = "query or kind narrows it"


async def outline(
    parser: Worker,
    path: JailedPath,
    query: str | None,
    kind: str | None,
    match: Match = "contains",
    language: str | None = None,
) -> Text:
    """Return the definitions of a file, of any name where the language is given.

    ToolError not_a_file, too_large, binary_file, unsupported_language, parse_error.
    """
    data, found = await run_read(partial(_read, path, language))
    try:
        ((rows, error, _, _),) = await parser.call(parsed, [(found, data)], False, SECONDS, deadline=SECONDS + 0.3)
    except WorkerFailure:
        rows, error = "", -1
    if error == -1:
        raise ToolError(Code.PARSE_ERROR, f"{path.shown} takes too much time or memory to parse")
    if error and not rows:
        raise ToolError(Code.PARSE_ERROR, f"{path.shown} does not parse: a syntax error near line {error}")
    shown = [each.shown() for each in wanted(definitions(rows), query, kind, match)]
    body = "\n".join(shown) or f"no definitions found in {path.shown}"
    return Text(f"{body}\n(syntax error near line {error})" if error else body, _WAY_ON)


def _read(path: JailedPath, language: str | None, stop: Callable[[], bool]) -> tuple[bytes, str]:
    data, _ = read_whole(path, MAX_BYTES)
    found = language or language_of(path.target().name) or language_of(path.name) or language_of_head(data[:HEAD])
    if found is None:
        raise ToolError(
            Code.UNSUPPORTED_LANGUAGE, f"{path.shown} is in no language that has an outline", ", ".join(LANGUAGES)
        )
    if is_binary(data):
        raise ToolError(Code.BINARY_FILE, f"{path.shown} is not a text file")
    return data, found


def head_of(path: JailedPath) -> bytes:
    """Return the first bytes of a file; none where it cannot be read."""
    try:
        fd = path.open_file()
    except ToolError:
        return b""
    try:
        return os.pread(fd, 128, 0)
    finally:
        os.close(fd)
