"""grep_files."""

import os
from typing import Annotated, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import ProjectPath
from ...safety.text import HEAD, is_binary
from ..base import Access, tool
from ..blocking import run_read
from ..results import Text
from ..search import search
from ..search.query import Query
from ..search.scope import WALK_DEADLINE, IncludeHidden, Scope
from ..services import Parser, Progress, Search, Settings

Around = Annotated[int | None, Field(ge=0, le=50)]


@tool(Access.READ, deadline=lambda settings, given: WALK_DEADLINE)
async def grep_files(
    ripgrep: Search,
    parser: Parser,
    progress: Progress,
    settings: Settings,
    pattern: str | None = None,
    path: ProjectPath = ".",  # type: ignore[assignment]
    query: Annotated[list[str] | None, Field(description="for match=block")] = None,
    glob: str | None = None,
    ignore_case: bool = False,
    context: Around = None,
    before: Around = None,
    after: Around = None,
    match: Literal["regex", "literal", "block"] = "regex",
    target: Literal["content", "path", "both"] = "content",
    output: Literal["lines", "files", "count"] = "lines",
    limit: Annotated[int | None, Field(ge=1)] = None,
    multiline: Annotated[bool, Field(description="matches may span lines")] = False,
    include_hidden: IncludeHidden = True,
    include_ignored: bool = False,
) -> Text:
    """Search file contents or paths below a folder, or in one file."""
    sought = Query(
        pattern=_pattern(pattern, query, match),
        block=tuple(query or ()) if match == "block" else None,
        literal=match == "literal",
        ignore_case=ignore_case,
        before=max(context or 0, before or 0),
        after=max(context or 0, after or 0),
        grouped=context is not None or before is not None or after is not None,
        output=output,
        limit=min(limit or settings.max_grep_matches, settings.max_grep_matches),
        attempt=settings.regex_timeout,
        multiline=multiline,
    )
    scope = await run_read(
        lambda _: Scope.of(path, glob, settings, include_ignored=include_ignored, include_hidden=include_hidden)
    )
    found, more = await search.search(sought, scope, target, ripgrep, parser, progress)
    if not found and scope.file is not None and target != "path":
        await run_read(lambda _: _insist_on_text(path))
    if not found:
        none = f"no matches for {sought.shown}" + (" in what was searched" if more else "")
        found = [none + ("; multiline=true searches across lines" if sought.might_span else "")]
    return Text("\n".join(found + more), "narrow the path, the glob or the pattern")


def _insist_on_text(path: JailedPath) -> None:
    """Refuse a file whose text was not searched: "no matches" would not be true. ToolError binary_file."""
    fd = path.open_file()
    try:
        head = os.read(fd, HEAD)
    finally:
        os.close(fd)
    if head.startswith(b"%PDF-"):
        raise ToolError(Code.BINARY_FILE, f"{path.shown} is a PDF, which is not searched", "read_file shows its text")
    if is_binary(head):
        raise ToolError(Code.BINARY_FILE, f"{path.shown} is not a text file", "file_info tells what it is")


def _pattern(pattern: str | None, query: list[str] | None, match: str) -> str:
    # What would be left out of the search is told, else its answer is taken for that to another question.
    if query and match != "block":
        raise ToolError(
            Code.INVALID_ARGS,
            f"query: not used with match={match}",
            "pattern says what is sought; query is for match=block",
        )
    if pattern and match == "block":
        raise ToolError(Code.INVALID_ARGS, "pattern: not used with match=block", "query holds the lines sought")
    if match == "block":
        if query is None:
            raise ToolError(Code.INVALID_ARGS, "query: required with match=block", "query is the list of lines")
        if not any(line.strip() for line in query):
            raise ToolError(Code.EMPTY_PATTERN, "query has no line that is not blank")
        return ""
    if pattern is None:
        raise ToolError(
            Code.INVALID_ARGS, f"pattern: required with match={match}", "glob and list_directory list files"
        )
    return pattern
