"""When a text to edit is nowhere: the place that resembles it most, and what differs."""

import re
import time
from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import zip_longest

SEARCH_TIME = 2.0
"""Seconds that the search may take (TOOLS.md §4.4)."""
DIFF_LINES = 40
LINE_SHOWN = 500
"""Characters of a line that the comparison looks at and shows."""
COMPARED = 4_000
"""Characters of a place that are compared one by one, which takes some 0.1 s; a longer one is compared by lines."""
ALIGNED = 1_000
"""Lines that are brought into line with each other; more are compared one after the other."""
AROUND = 2
"""Lines that are alike and shown around one that differs, where not all of them fit."""
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
    long = sum(map(len, sought)) > COMPARED
    similarity = _similarity_by_lines if long else _similarity
    for start in _candidates(lines, sought, every=not long):
        if time.monotonic() > until:
            break
        score = similarity(lines[start : start + len(sought)], sought, best[0])
        if score > best[0]:
            best = score, start
    score, start = best
    if start < 0 or score < WORTH_SHOWING:
        return None
    found = lines[start : start + len(sought)]
    # What is nowhere is not there, however little is missing.
    return start + 1, start + len(found), min(0.99, round(score, 2)), character_diff(sought, found)


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
    """Return new with its differences to old marked: [-old-] and {+new+}. Of many lines those around the differences."""
    pairs = _pairs(old, new)
    if len(pairs) <= DIFF_LINES:
        return "\n".join(_marked(*pair) for pair in pairs)
    differ = (index for index, (before, after) in enumerate(pairs) if before != after)
    near = {at for index in differ for at in range(max(0, index - AROUND), min(len(pairs), index + AROUND + 1))}
    out: list[str] = []
    done = 0
    for index in sorted(near):
        if len(out) >= DIFF_LINES - 2:
            break
        if index > done:
            out.append(f"... ({index - done} lines alike)")
        out.append(_marked(*pairs[index]))
        done = index + 1
    if done < len(pairs):
        out.append(f"... ({len(pairs) - done} more lines)")
    return "\n".join(out)


def _pairs(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    """Return the lines of both beside each other; "" where one has none."""
    if max(len(old), len(new)) > ALIGNED:
        return list(zip_longest(old, new, fillvalue=""))
    out: list[tuple[str, str]] = []
    for _, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        out += zip_longest(old[a1:a2], new[b1:b2], fillvalue="")
    return out


def _marked(old: str, new: str) -> str:
    parts = []
    for what, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            parts.append(old[a1:a2])
            continue
        parts.append(f"[-{old[a1:a2]}-]" if a2 > a1 else "")
        parts.append(f"{{+{new[b1:b2]}+}}" if b2 > b1 else "")
    return "".join(parts)


def _candidates(lines: list[str], sought: list[str], *, every: bool) -> list[int]:
    """Return the starts worth a closer look, those that share most lines first; every: then all others."""
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
    return [min(start, last) for start in voted[:200]] + (list(range(last + 1)) if every else [])


def _key(line: str) -> str:
    return "".join(line.split()).casefold()


def _similarity(found: list[str], sought: list[str], floor: float) -> float:
    matcher = SequenceMatcher(None, "\n".join(found), "\n".join(sought), autojunk=False)
    if matcher.real_quick_ratio() <= floor or matcher.quick_ratio() <= floor:
        return 0.0
    return matcher.ratio()


def _similarity_by_lines(found: list[str], sought: list[str], floor: float) -> float:
    """Return how much of both is in lines that both have, white space and case left out; wherever they stand."""
    there, wanted = Counter(map(_key, found)), Counter(map(_key, sought))
    shared = sum(len(line) * count for line, count in (there & wanted).items())
    total = sum(len(line) * count for line, count in (there + wanted).items())
    return 2 * shared / total if total else 0.0


def _without_numbers(text: str) -> str:
    return re.sub(r"(?m)^\s*\d+\t", "", text)


def _each_line(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(change(line) for line in text.split("\n"))
