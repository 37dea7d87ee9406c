"""When a text to edit is nowhere: the place that resembles it most, and what differs."""

import re
import time
from collections.abc import Callable
from difflib import SequenceMatcher

SEARCH_TIME = 2.0
"""Seconds that the search may take (TOOLS.md §4.4)."""
DIFF_LINES = 40
LINE_SHOWN = 500
"""Characters of a line that the comparison looks at and shows."""
WORTH_SHOWING = 0.4
"""Similarity below which a place says nothing; a guess from trials on source code."""

QUOTES = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u00a0": " "}
)


def nearest(text: str, wanted: str, seconds: float) -> tuple[int, int, float, str] | None:
    """Return (first line, last line, similarity, diff) of the place in text that resembles wanted most, or None.

    wanted is what was looked for, the [-old-] of the diff; the place is what is there, its {+new+}.
    """
    until = time.monotonic() + seconds
    lines = [line[:LINE_SHOWN] for line in text.split("\n")]
    sought = [line[:LINE_SHOWN] for line in wanted.strip("\n").split("\n")]
    best: tuple[float, int] = (0.0, -1)
    for start in _candidates(lines, sought):
        if time.monotonic() > until:
            break
        score = _similarity("\n".join(lines[start : start + len(sought)]), "\n".join(sought), best[0])
        if score > best[0]:
            best = score, start
    score, start = best
    if start < 0 or score < WORTH_SHOWING:
        return None
    found = lines[start : start + len(sought)]
    return start + 1, start + len(found), round(score, 2), character_diff(sought, found)


def cause(text: str, wanted: str) -> str | None:
    """Name what keeps wanted from matching, where it is one thing."""
    if re.search(r"(?m)^\s*\d+\t", wanted) and _without_numbers(wanted) in text:
        return "old_string holds line numbers copied along; leave them out"
    if wanted.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t").replace("\\\\", "\\") in text:
        return 'old_string holds escapes such as \\n or \\" that the file has as characters'
    if _each_line(wanted, str.rstrip) in _each_line(text, str.rstrip):
        return "only trailing white space differs"
    if _each_line(wanted, str.strip) in _each_line(text, str.strip):
        tabs = ("\t" in wanted) != ("\t" in text)
        return "only indentation differs" + (": tabs and spaces" if tabs else "")
    if wanted.translate(QUOTES) in text.translate(QUOTES):
        return "only quotes, dashes or spaces of another kind differ"
    if wanted.casefold() in text.casefold():
        return "only letter case differs"
    return None


def character_diff(old: list[str], new: list[str]) -> str:
    """Return new with its differences to old marked: [-old-] and {+new+}."""
    rows: list[str] = []
    for index in range(max(len(old), len(new))):
        if index == DIFF_LINES:
            rows.append(f"... ({max(len(old), len(new)) - DIFF_LINES} more lines)")
            break
        before = old[index] if index < len(old) else ""
        after = new[index] if index < len(new) else ""
        rows.append(_marked(before, after))
    return "\n".join(rows)


def _marked(old: str, new: str) -> str:
    parts = []
    for what, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            parts.append(old[a1:a2])
            continue
        parts.append(f"[-{old[a1:a2]}-]" if a2 > a1 else "")
        parts.append(f"{{+{new[b1:b2]}+}}" if b2 > b1 else "")
    return "".join(parts)


def _candidates(lines: list[str], sought: list[str]) -> list[int]:
    """Return the starts worth a closer look, those that share most lines first."""
    wanted: dict[str, list[int]] = {}
    for offset, line in enumerate(sought):
        if line.strip():
            wanted.setdefault(_key(line), []).append(offset)
    votes: dict[int, int] = {}
    for number, line in enumerate(lines):
        for offset in wanted.get(_key(line), ()):
            start = max(0, number - offset)
            votes[start] = votes.get(start, 0) + 1
    last = max(0, len(lines) - len(sought))
    voted = sorted(votes, key=lambda start: (-votes[start], start))
    return [min(start, last) for start in voted[:200]] + list(range(last + 1))


def _key(line: str) -> str:
    return "".join(line.split()).casefold()


def _similarity(a: str, b: str, floor: float) -> float:
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.real_quick_ratio() <= floor or matcher.quick_ratio() <= floor:
        return 0.0
    return matcher.ratio()


def _without_numbers(text: str) -> str:
    return re.sub(r"(?m)^\s*\d+\t", "", text)


def _each_line(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(change(line) for line in text.split("\n"))
