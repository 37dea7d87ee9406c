"""When a text to edit is nowhere: the place that resembles it most, and what differs."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from unicodedata import normalize

from ...safety.text import visible

SEARCH_TIME = 2.0
"""Seconds that the search may take (TOOLS.md §4.4)."""
DIFF_LINES = 40
"""Lines of a difference (TOOLS.md §4.4)."""
EQUAL_SHOWN = 2
"""Equal lines shown beside a difference; a guess at what it takes to see where it is."""
PAIRS_TRIED = 900
"""Pairs of lines that are compared for the most similar ones: 30 by 30 take 0.1 s, or 0.4 s where they are made to."""
WHOLE = 2000
"""Characters of two pieces up to which they are compared as a whole; the time grows with the square, to 0.1 s here."""
COMPARED, PAIRED = 80, 0.5
"""Characters of two lines that are compared, and the similarity above which one became the other; both guesses."""
SLACK = 10
"""Lines around the place that are looked at as well, since the file may have more of them there; a guess."""
LINE_SHOWN = 500
"""Characters of a line that the comparison looks at and shows."""
SURE = 0.97
"""Similarity above which no better place is looked for, as those that share most lines come first; a guess."""
WORTH_SHOWING = 0.4
"""Similarity below which a place says nothing; a guess from trials on source code."""

NUMBERED = re.compile(r"(?m)^(?:\S*[:-])?[^\S\n]*\d+(?:\t|\u2192|[:-] ?)")
"""Line numbers as read_file, grep_files, grep and other clients show them."""

QUOTES = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u00a0": " "}
)


def find_closest(text: str, wanted: str, seconds: float) -> tuple[int, int, float, str] | None:
    """Return (first line, last line, similarity, diff) of the place in text that resembles wanted most, or None.

    wanted is what was looked for, the [-old-] of the diff; the place is what is there, its {+new+}.
    """
    until = time.monotonic() + seconds
    text = _as_read(text)
    lines = [line[:LINE_SHOWN] for line in text.split("\n")]
    sought = [line[:LINE_SHOWN] for line in wanted.strip("\n").split("\n")]
    best: tuple[float, int] = (0.0, -1)
    for start in _candidates(lines, sought):
        if time.monotonic() > until or best[0] > SURE:
            break
        score = _likeness(lines[start : start + len(sought)], sought, best[0])
        if score > best[0]:
            best = score, start
    score, start = best
    if start < 0 or score < WORTH_SHOWING:
        return None
    slack = min(SLACK, len(sought) // 2)
    first = max(0, start - slack)
    before, pairs = _trimmed(list(_aligned(sought, lines[first : start + len(sought) + slack])))
    first += before
    last = first + sum(new is not None for _, new in pairs)
    # What is nowhere is not there, however little is missing.
    return first + 1, last, min(0.99, round(score, 2)), _shown(pairs)


def explain_mismatch(text: str, wanted: str, what: str) -> str | None:
    """Name what keeps wanted from matching, where it is one thing. what: the argument that holds it."""
    trimmed = _each_line(text, str.strip)
    at = trimmed.find(_each_line(wanted, str.strip))
    if wanted in text or (at >= 0 and what == "match_lines"):
        return "whole lines are compared, without the white space around them"
    bare = NUMBERED.sub("", wanted)
    if bare != wanted and bare.strip() and bare in text:
        return f"{what} holds line numbers copied along; leave them out"
    if (plain := _without_escapes(wanted)) in text:
        return f'{what} holds escapes such as \\n or \\" that the file has as characters'
    if plain in _without_escapes(text):
        return f'the file holds escapes such as \\n or \\" that {what} has as characters'
    if "\r" in text and wanted.replace("\n", "\r") in text:
        return "the lines of the file end in a carriage return alone: \\r in JSON"
    if ("<U+" in wanted or "\ufffd" in wanted) and wanted in visible(_as_read(text)):
        return f"{what} holds <U+XXXX> or U+FFFD, which the file has as other bytes"
    if not wanted.isascii() and normalize("NFC", wanted) in normalize("NFC", text):
        return "only the Unicode form differs: composed or combining characters"
    if _each_line(wanted, str.rstrip) in _each_line(text, str.rstrip):
        return "only trailing white space differs"
    if at >= 0:
        first = trimmed.count("\n", 0, at)
        there = text.split("\n")[first : first + wanted.count("\n") + 1]
        tabs = ("\t" in wanted) != any("\t" in line for line in there)
        return "only indentation differs" + (": tabs and spaces" if tabs else "")
    if (lines := _without_blank(wanted)) and lines in _without_blank(text):
        return "only blank lines differ"
    if wanted.translate(QUOTES) in text.translate(QUOTES):
        return "only quotes, dashes or spaces of another kind differ"
    if wanted.casefold() in text.casefold():
        return "only letter case differs"
    return None


Pair = tuple[str | None, str | None]
"""A line of the old text and the one of the new text that it became; None where there is no such line."""


def _trimmed(pairs: list[Pair]) -> tuple[int, list[Pair]]:
    """Return the pairs without the new lines around them, and how many of these came before.

    At either end as many new lines stay as there are old ones that became none.
    """
    both = [index for index, (old, new) in enumerate(pairs) if old is not None and new is not None]
    start, end = (both[0], both[-1] + 1) if both else (0, 0)
    gone, came = _sides(pairs[:start])
    left, more = _sides(pairs[end:])
    before = max(0, len(came) - len(gone))
    return before, [*zip_longest(gone, came[before:]), *pairs[start:end], *zip_longest(left, more[: len(left)])]


def _sides(pairs: Iterable[Pair]) -> tuple[list[str], list[str]]:
    pairs = list(pairs)
    return [old for old, _ in pairs if old is not None], [new for _, new in pairs if new is not None]


def _shown(pairs: Iterable[Pair]) -> str:
    """Return the differences marked, [-old-] and {+new+}, on DIFF_LINES lines at most."""
    rows: list[str] = []
    runs = [(same, list(run)) for same, run in groupby(pairs, key=lambda pair: pair[0] == pair[1])]
    for index, (same, run) in enumerate(runs):
        marked = [_marked(old, new) for old, new in run]
        before = EQUAL_SHOWN if index > 0 else 0
        after = EQUAL_SHOWN if index < len(runs) - 1 else 0
        if same and len(marked) > 2 * EQUAL_SHOWN + 1:
            marked[before : len(marked) - after] = [f"... ({len(marked) - before - after} equal lines)"]
        rows += marked
    if len(rows) > DIFF_LINES:
        rows[DIFF_LINES - 1 :] = [f"... ({len(rows) - DIFF_LINES + 1} more lines)"]
    return "\n".join(rows)


def _aligned(old: list[str], new: list[str]) -> Iterator[Pair]:
    """Pair the lines: first those that differ in white space or case only, then between these the similar ones."""
    matcher = SequenceMatcher(None, [_key(line) for line in old], [_key(line) for line in new], autojunk=False)
    for what, a1, a2, b1, b2 in matcher.get_opcodes():
        if what == "equal":
            yield from zip(old[a1:a2], new[b1:b2], strict=True)
        else:
            yield from _paired(old[a1:a2], new[b1:b2])


def _paired(old: list[str], new: list[str]) -> Iterator[Pair]:
    """Pair the lines of two pieces in order, so that the pairs are as similar as can be."""
    if len(old) * len(new) > PAIRS_TRIED:
        yield from zip_longest(old, new)
        return
    # best[i][j]: how similar the pairs of old[i:] and new[j:] can be together.
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    alike = [[_similarity(a.strip()[:COMPARED], b.strip()[:COMPARED], PAIRED) for b in new] for a in old]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            pair = alike[i][j] + best[i + 1][j + 1] if alike[i][j] > PAIRED else 0.0
            best[i][j] = max(pair, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(old) and j < len(new):
        if best[i][j] == best[i + 1][j]:
            yield old[i], None
            i += 1
        elif best[i][j] == best[i][j + 1]:
            yield None, new[j]
            j += 1
        else:
            yield old[i], new[j]
            i, j = i + 1, j + 1
    yield from ((line, None) for line in old[i:])
    yield from ((None, line) for line in new[j:])


def _marked(old: str | None, new: str | None) -> str:
    if old is None or new is None:
        return f"{{+{new}+}}" if old is None else f"[-{old}-]"
    if old.strip() and new.strip() and _similarity(old.strip(), new.strip(), PAIRED) <= PAIRED:
        # Of lines that have little in common, the letters they share only confuse.
        return f"[-{old}-]{{+{new}+}}"
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


def _likeness(found: list[str], sought: list[str], floor: float) -> float:
    """Return the similarity of two pieces, or 0 where it is certainly not above floor; of long ones line by line."""
    total = sum(map(len, found)) + sum(map(len, sought))
    if total <= WHOLE:
        return _similarity("\n".join(found), "\n".join(sought), floor)
    same = 0.0
    matcher = SequenceMatcher(None, [_key(line) for line in sought], [_key(line) for line in found], autojunk=False)
    for what, a1, a2, b1, b2 in matcher.get_opcodes():
        for old, new in zip(sought[a1:a2], found[b1:b2], strict=False):
            alike = 1.0 if what == "equal" else SequenceMatcher(None, old, new, autojunk=False).quick_ratio()
            same += alike * (len(old) + len(new))
    return same / total


def _similarity(a: str, b: str, floor: float) -> float:
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.real_quick_ratio() <= floor or matcher.quick_ratio() <= floor:
        return 0.0
    return matcher.ratio()


def _as_read(text: str) -> str:
    """Return a text as read_file shows it, with U+FFFD for bytes that are not valid UTF-8."""
    with suppress(UnicodeEncodeError):
        return text.encode(errors="surrogateescape").decode(errors="replace")
    return text


def _without_escapes(text: str) -> str:
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t").replace("\\\\", "\\")


def _without_blank(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if line.strip())


def _each_line(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(change(line) for line in text.split("\n"))
