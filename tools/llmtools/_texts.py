"""Text files as the line tools of llmtools take them: UTF-8, few control characters, at most 16 MiB."""

from collections.abc import Callable, Sequence
from typing import Any

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.text import decode
from ...safety.writes.atomic import read_whole
from ..blocking import run_write
from ..edit._lines import Document, LineEdit
from ..edit._load import LoadedFile, edit
from ..edit._replace import NoMatch
from ..services import Journal, Seen

MAX_BYTES = 16 * 2**20
"""Size of a file (TOOLS.md §9)."""

_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\b")) + b"\x7f"
_NAMES = {
    "match_lines": "matchLines",
    "before_lines": "beforeLines",
    "after_lines": "afterLines",
}


def whole_bytes(place: JailedPath) -> bytes:
    """Return the bytes of a file. ToolError not_found, too_large, not_a_file, path_denied."""
    return read_whole(place, MAX_BYTES)[0]


def is_text(data: bytes) -> bool:
    """Return True for bytes without NUL and with at most a tenth of control characters."""
    return b"\0" not in data and 10 * (len(data) - len(data.translate(None, _CONTROLS))) <= len(data)


def text_of(place: JailedPath, data: bytes) -> str:
    """Return the text of a file as UTF-8. ToolError binary_file."""
    if is_text(data):
        decoded = decode(data)
        if decoded.encoding == "utf-8" and not decoded.lossy:
            return decoded.text
    raise ToolError(
        Code.BINARY_FILE, f"{place.shown} is not UTF-8 text", 'readfile with encoding="binary" gives its bytes'
    )


def lines_of(place: JailedPath) -> list[str]:
    """Return the lines of a text file, without their ends."""
    text = text_of(place, whole_bytes(place)).replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n") if text else []


async def change_lines(
    place: JailedPath,
    seen: Seen,
    journal: Journal,
    change: Callable[[Document], LineEdit],
    names: dict[str, str],
) -> LineEdit:
    """Change the lines of a file in one step and return what was done.

    names: what else this tool calls the arguments that a refusal names. ToolError no_match, ambiguous_match.
    """
    done: list[LineEdit] = []

    def changed(file: LoadedFile) -> tuple[str, str]:
        text_of(place, file.data)
        done.append(change(Document(file.text.text, file.text.line_end, MAX_BYTES)))
        return done[0].text, ""

    try:
        edited = await run_write(lambda _: edit(place, None, journal, changed, MAX_BYTES))
    except NoMatch:
        what = {**_NAMES, **names}["match_lines"]
        error = f"{what} is nowhere in {place.shown}"
        raise ToolError(Code.NO_MATCH, error, "lines are compared without the white space around them") from None
    except ToolError as refused:
        raise _renamed(refused, {**_NAMES, **names}) from None
    seen.changed(edited.key, edited.before, edited.written.etag)
    return done[0]


def numbered(lines: Sequence[str], start: int, end: int) -> list[dict[str, Any]]:
    """Return lines start to end, 0-based and without the last, with their 1-based numbers."""
    return [{"lineNumber": number, "text": text} for number, text in enumerate(lines[start:end], start + 1)]


def _renamed(refused: ToolError, names: dict[str, str]) -> ToolError:
    texts = [refused.error, refused.hint or ""]
    for name, own in names.items():
        texts = [text.replace(name, own) for text in texts]
    return ToolError(refused.code, texts[0], texts[1] or None)
