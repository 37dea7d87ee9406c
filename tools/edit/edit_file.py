"""edit_file."""

from typing import Annotated

from pydantic import Field

from toolbox_mcp.safety.paths import WritePath
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.edit.loading import Editable, edit
from toolbox_mcp.tools.edit.missing import no_match
from toolbox_mcp.tools.edit.replacing import Matching, NoMatch, Replaced, named
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.services import Journal, Parser, Seen
from toolbox_mcp.tools.threads import changing

LINES_NAMED = 20
"""Line numbers that an answer names at most; a guess at what is still read."""


@tool(Access.WRITE, briefly=True)
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
    done: list[Replaced] = []

    def change(file: Editable) -> tuple[str, str]:
        matching = Matching(file.text.text)
        done.append(matching.replace(old_string, new_string, file.text.line_end, every=replace_all))
        return done[0].text, new_string

    try:
        edited = await changing(lambda turn: edit(path, expected_etag, journal, change, turn))
    except NoMatch as missed:
        raise await no_match(path, missed, parser) from None
    seen.changed(edited.key, edited.before, edited.written.etag)
    return Text(
        f"Edited {path.shown}: {done[0].count} replacement(s) at line(s) {named(done[0].lines, LINES_NAMED)}",
        meta={"etag": edited.written.etag},
    )
