"""The difference of two texts, line by line."""

from collections.abc import Iterator
from difflib import SequenceMatcher

FOLD_ABOVE = 200
"""Lines of either text above which long equal runs are folded."""
FOLD_RUN = 6
"""Equal lines that are shown at most in a row when folding."""
EXACT_UP_TO = 2000
"""Lines up to which the shortest difference is sought; above, frequent lines are not used as anchors, which
keeps texts of thousands of equal lines from taking quadratic time."""


def compared(a: str, b: str) -> str:
    """Return every line with `+ `, `- ` or two spaces before it; a and b differ."""
    old, new = _lines(a), _lines(b)
    fold = max(len(old), len(new)) > FOLD_ABOVE
    rows = list(_rows(old, new, fold))
    for name, mine, other in (("a", a, b), ("b", b, a)):
        if old == new and other.endswith("\n") and not mine.endswith("\n"):
            rows.append(f"\\ no newline at end of {name}")
    return "\n".join(rows)


def _rows(old: list[str], new: list[str], fold: bool) -> Iterator[str]:
    matcher = SequenceMatcher(None, old, new, autojunk=max(len(old), len(new)) > EXACT_UP_TO)
    for what, a1, a2, b1, b2 in matcher.get_opcodes():
        if what == "equal":
            yield from _equal(old[a1:a2], fold)
        else:
            yield from ("- " + line for line in old[a1:a2])
            yield from ("+ " + line for line in new[b1:b2])


def _equal(lines: list[str], fold: bool) -> Iterator[str]:
    if not fold or len(lines) <= FOLD_RUN:
        yield from ("  " + line for line in lines)
        return
    half = FOLD_RUN // 2
    yield from ("  " + line for line in lines[:half])
    yield f"  ... ({len(lines) - FOLD_RUN} unchanged lines)"
    yield from ("  " + line for line in lines[-half:])


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
