"""edit_file."""

from typing import Annotated

from pydantic import Field

from ...safety.paths import WritePath
from ..base import Access, tool
from ..blocking import run_write
from ..results import Text
from ..services import Journal, Parser, Seen
from ._load import LoadedFile, edit
from ._missing import no_match
from ._replace import NoMatch, NormalizedText, Replaced, named

LINES_NAMED = 20
"""Line numbers that an answer names at most; a guess at what is still read."""


@tool(Access.WRITE)
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

    def change(file: LoadedFile) -> tuple[str, str]:
        matching = NormalizedText(file.text.text)
        done.append(matching.replace(old_string, new_string, file.text.line_end, every=replace_all))
        return done[0].text, new_string

    try:
        edited = await run_write(lambda _: edit(path, expected_etag, journal, change))
    except NoMatch as missed:
        raise await no_match(path, missed, parser) from None
    seen.changed(edited.key, edited.before, edited.written.etag)
    return Text(
        f"Edited {path.shown}: {done[0].count} replacement(s) at line(s) {named(done[0].lines, LINES_NAMED)}",
        meta={"etag": edited.written.etag},
    )
