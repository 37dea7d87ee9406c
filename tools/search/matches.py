"""What a search found, and how it is told."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...safety.text import visible, visible_name

LINE_SHOWN = 500
"""Characters of a line; a longer one is cut around the match (TOOLS.md §4.1)."""

_WINDOW = 8 * LINE_SHOWN  # bytes of a line that are decoded


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a file as it is shown, cut around its match. match: it belongs to a match, and is no context.

    begins: a match begins here, or before on the same line.
    """

    path: str
    line: int
    text: str
    match: bool = True
    begins: bool = True


@dataclass
class Found:
    """Lines of an answer; stopped: there are more matches than the limit. cut: why the search ended early, or None."""

    lines: list[str]
    matches: int
    stopped: bool
    cut: str | None = None


def told(rows: Iterable[Row], shown: Callable[[str], str], *, grouped: bool) -> list[str]:
    """Return the lines of an answer; grouped puts `--` between groups that do not touch. shown: names a file on one line."""
    out: list[str] = []
    before: Row | None = None
    for row in rows:
        if grouped and before and (row.path != before.path or row.line > before.line + 1):
            out.append("--")
        mark = ":" if row.match else "-"
        out.append(f"{shown(row.path)}{mark}{row.line}{mark} {visible(row.text)}")
        before = row
    return out


def excerpt(line: bytes, at: int) -> str:
    """Return a line as text, cut around a byte to 500 characters."""
    if len(line) <= _WINDOW:
        return shortened(line.decode("utf-8", "replace"), len(line[:at].decode("utf-8", "replace")))
    start = max(0, min(at - _WINDOW // 2, len(line) - _WINDOW))
    while start < at and line[start] & 0xC0 == 0x80:
        start += 1
    text = shortened(
        line[start : start + _WINDOW].decode("utf-8", "replace"), len(line[start:at].decode("utf-8", "replace"))
    )
    ahead = "..." if start and not text.startswith("...") else ""
    behind = "..." if start + _WINDOW < len(line) and not text.endswith("...") else ""
    return ahead + text + behind


def shortened(text: str, column: int) -> str:
    """Return a line cut around a column to 500 characters."""
    text = text.removesuffix("\r")
    if len(text) <= LINE_SHOWN:
        return text
    start = min(max(0, column - LINE_SHOWN // 4), len(text) - LINE_SHOWN)
    end = start + LINE_SHOWN
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")


def block_rows(path: str, first: int, lines: Sequence[str]) -> list[str]:
    """Return a found block: where it is, then its lines numbered from first."""
    head = f"{visible_name(path)}:{first}-{first + len(lines) - 1}:"
    return [head, *(f"{number}\t{visible(shortened(line, 0))}" for number, line in enumerate(lines, first))]
