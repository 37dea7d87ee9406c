"""The difference of two texts, line by line or word by word. For the worker: some pairs take quadratic time."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher, unified_diff

FOLD_ABOVE = 200
"""Lines of either text above which long equal runs are folded."""
FOLD_RUN = 6
"""Equal lines that are shown at most in a row when folding."""
EXACT_UP_TO = 2000
"""Lines up to which the shortest difference is sought; above, frequent lines are not used as anchors, which
keeps texts of thousands of equal lines from taking quadratic time."""
MAX_WORDED = 10_000
"""Characters of a text that is compared word by word."""

_WORD = re.compile(r"\s+|\w+|[^\w\s]")


def compared(a: str, b: str, style: str = "lines") -> str:
    """Return the difference of two texts that differ.

    lines: every line with `+ `, `- ` or two spaces before it. unified: as patches are written. words: one text with
    `[-old-]` and `{+new+}` in it.
    """
    if style == "words":
        return _worded(_WORD.findall(a), _WORD.findall(b))
    old, new = _lines(a), _lines(b)
    if style == "unified":
        rows = list(unified_diff(old, new, "a", "b", lineterm=""))
    else:
        rows = list(_rows(old, new, fold=max(len(old), len(new)) > FOLD_ABOVE))
    for name, mine, other in (("a", a, b), ("b", b, a)):
        if old == new and other.endswith("\n") and not mine.endswith("\n"):
            rows.append(f"\\ no newline at end of {name}")
    return "\n".join(rows)


def _worded(old: list[str], new: list[str]) -> str:
    out: list[str] = []
    for what, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            out += old[a1:a2]
            continue
        if a1 < a2:
            out.append(f"[-{''.join(old[a1:a2])}-]")
        if b1 < b2:
            out.append(f"{{+{''.join(new[b1:b2])}+}}")
    return "".join(out)


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
