"""edit_file."""

from typing import Annotated, Any

from pydantic import Field

from toolbox_mcp.safety.atomic import LetGo
from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.safety.paths import WritePath
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.edit.loading import Editable, Edited, edit
from toolbox_mcp.tools.edit.missing import no_match
from toolbox_mcp.tools.edit.replacing import MAX_BYTES, Matching, NoMatch, Replaced, named
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.services import Journal, Parser, Seen
from toolbox_mcp.tools.threads import changing, closed_soon

LINES_NAMED = 20
"""Line numbers that an answer names at most; a guess at what is still read."""
LIGHT = 128 * 1024
"""Bytes of a file that is edited in the loop: some 1 ms beside the disk."""


def _alone(
    seen: Seen,
    journal: Journal,
    path: WritePath,
    old_string: str,
    new_string: str,
    replace_all: bool,
    expected_etag: str | None,
    **_: Any,
) -> Text | None:
    """Edit a small file. What has to be looked for longer, and files that are not there, are for a thread."""
    if not path.was_file or replace_all or len(new_string) > LIGHT:
        return None
    try:
        done = _edited(closed_soon, path, journal, old_string, new_string, replace_all, expected_etag, limit=LIGHT)
    except NoMatch:
        return None
    except ToolError as refused:
        if refused.code is Code.TOO_LARGE:
            return None
        raise
    return _told(seen, path, *done)


@tool(Access.WRITE, alone=_alone)
async def edit_file(
    parser: Parser,
    seen: Seen,
    journal: Journal,
    path: WritePath,
    old_string: Annotated[str, Field(description="exact text, unique in the file")],
    new_string: Annotated[str, Field(description="its replacement, taken literally")],
    replace_all: bool = False,
    expected_etag: str | None = None,
) -> Text:
    """Replace one exact piece of text in a file, or with replace_all every occurrence.

    White space must match; line ends are matched for you.
    """
    asked = path, journal, old_string, new_string, replace_all, expected_etag
    try:
        done = await changing(lambda turn: _edited(turn.let_go, *asked))
    except NoMatch as missed:
        raise await no_match(path, missed, parser) from None
    return _told(seen, path, *done)


def _edited(
    let_go: LetGo,
    path: WritePath,
    journal: Journal,
    old: str,
    new: str,
    every: bool,
    expected_etag: str | None,
    limit: int = MAX_BYTES,
) -> tuple[Edited, Replaced]:
    done: list[Replaced] = []

    def change(file: Editable) -> tuple[str, str]:
        matching = Matching(file.text.text)
        done.append(matching.replace(old, new, file.text.line_end, every=every))
        return done[0].text, new

    return edit(path, expected_etag, journal, change, let_go, limit), done[0]


def _told(seen: Seen, path: WritePath, edited: Edited, replaced: Replaced) -> Text:
    seen.changed(edited.key, edited.before, edited.written.etag)
    return Text(
        f"Edited {path.shown}: {replaced.count} replacement(s) at line(s) {named(replaced.lines, LINES_NAMED)}",
        meta={"etag": edited.written.etag},
    )
