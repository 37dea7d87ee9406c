"""Applying a patch in memory: what each file comes to, or why it does not fit."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...safety.patches import FilePatch, Hunk
from ...safety.text import Decoded, decode, encode_like, visible

MAX_SHOWN = 12
"""Lines of a hunk that a refusal shows."""
MAX_OCCURRENCES = 10_000
"""Places of a block that are looked at; a guess at where nobody can say any more which is meant."""
_COMMON = 50
"""Times that a line occurs at which it tells nothing of where a hunk belongs; a guess."""
_NAMED = 5


class Rejected(Exception):
    """A hunk that does not fit. applied: the file has already what all of its patch would make."""

    def __init__(self, number: int, why: str, *, applied: bool = False) -> None:
        super().__init__(why)
        self.number = number
        self.why = why
        self.applied = applied


@dataclass(frozen=True)
class Applied:
    """The bytes of a file after its hunks, and how many lines came and went."""

    data: bytes
    added: int
    removed: int


class _Lines:
    """A text as lines without their ends."""

    def __init__(self, text: str) -> None:
        parts = text.split("\n")
        self.final = not text or parts[-1] == ""
        if parts[-1] == "":
            parts.pop()
        self.ends = ["\r\n" if part.endswith("\r") else "\n" for part in parts]
        self.lines = [part.removesuffix("\r") for part in parts]

    def joined(self) -> str:
        """Return the text."""
        text = "".join(line + end for line, end in zip(self.lines, self.ends, strict=True))
        if not self.final and self.ends:
            text = text[: -len(self.ends[-1])]
        return text


def apply(data: bytes, patch: FilePatch, go_on: Callable[[], object] = lambda: None) -> Applied:
    """Return the result for a file. go_on: asked before each hunk; raises to give up.

    Rejected where a hunk does not fit; ToolError binary_file.
    """
    decoded = decode(data, exact=True)
    text = _Lines(decoded.text)
    created = patch.old is None
    added = removed = 0
    cursor = shift = 0
    applied_before: list[int] = []
    for number, hunk in enumerate(patch.hunks, 1):
        go_on()
        old = [line.removesuffix("\r") for line in hunk.old]
        place = _place(text.lines, old, hunk, cursor, shift)
        if isinstance(place, str):
            if _is_applied(text.lines, hunk, cursor, shift):
                applied_before.append(number)
                continue
            raise Rejected(number, place)
        if applied_before:
            break
        cursor = _splice(text, hunk, place, decoded, keep_cr=created)
        if hunk.start is not None:
            shift = place - (hunk.start - 1) + cursor - place - len(old)
        added += sum(mark == "+" for mark, _ in hunk.lines)
        removed += sum(mark == "-" for mark, _ in hunk.lines)
    if applied_before:
        raise Rejected(applied_before[0], "it is applied already", applied=len(applied_before) == len(patch.hunks))
    return Applied(encode_like(text.joined(), decoded), added, removed)


def holds(data: bytes, patch: FilePatch) -> bool:
    """Return True if a file has what a patch that creates it would write."""
    try:
        return apply(b"", patch).data == data
    except Rejected:
        return False


def _splice(text: _Lines, hunk: Hunk, at: int, like: Decoded, *, keep_cr: bool) -> int:
    """Put the hunk's lines in place, keeping those of the file that stay. Return the line behind it."""
    end = like.line_end
    lines: list[str] = []
    ends: list[str] = []
    here = at
    for mark, line in hunk.lines:
        if mark == "+":
            lines.append(line.removesuffix("\r"))
            ends.append("\r\n" if keep_cr and line.endswith("\r") else "\n" if keep_cr else end)
        else:
            if mark == " ":
                lines.append(text.lines[here])
                ends.append(text.ends[here])
            here += 1
    was_last = here == len(text.lines)
    text.lines[at:here] = lines
    text.ends[at:here] = ends
    if was_last and hunk.newline is not None:
        text.final = hunk.newline[1]
    if not text.lines:
        text.final = True
    return at + len(lines)


def _place(lines: Sequence[str], old: Sequence[str], hunk: Hunk, cursor: int, shift: int) -> int | str:
    """Return the line, 0-based, at which a hunk belongs, or why there is none."""
    start = cursor
    for anchor in hunk.anchors:
        found = _anchored(lines, anchor, start)
        if found is None:
            return f"no line reads {visible(anchor)[:100]!r}"
        start = found + 1
    if not old:
        if hunk.start is not None:
            at = hunk.start - 1 + shift
            return at if cursor <= at <= len(lines) else f"the file has {len(lines)} lines"
        return start if hunk.anchors else len(lines)
    if hunk.start is not None and not hunk.at_end:
        wanted = hunk.start - 1 + shift
        if wanted >= cursor and lines[wanted : wanted + len(old)] == old:
            return wanted
    same: Callable[[str], str]
    for same in (str, str.rstrip):
        found_at = _occurrences(lines, old, start, same)
        if hunk.at_end and (last := len(lines) - len(old)) in found_at:
            return last
        if not found_at:
            continue
        if hunk.start is not None:
            wanted = hunk.start - 1 + shift
            return min(found_at, key=lambda at: abs(at - wanted))
        if len(found_at) > 1 and not hunk.anchors and not (cursor and found_at[0] == cursor):
            named = ", ".join(str(at + 1) for at in found_at[:_NAMED])
            return f"it fits at lines {named}; an @@ line with what stands above, or more context, decides"
        return found_at[0]
    return _nearest(lines, old, hunk, start, shift)


def _occurrences(lines: Sequence[str], old: Sequence[str], start: int, same: Callable[[str], str]) -> list[int]:
    """Return the places of a block, the first MAX_OCCURRENCES places. Linear also where lines repeat."""
    text = "\n" + "\n".join(map(same, lines[start:])) + "\n"
    block = "\n" + "\n".join(map(same, old)) + "\n"
    out: list[int] = []
    line, seen = start, 0
    at = text.find(block)
    while at >= 0 and len(out) < MAX_OCCURRENCES:
        line += text.count("\n", seen, at)
        seen = at
        out.append(line)
        at = text.find(block, at + 1)
    return out


def _anchored(lines: Sequence[str], anchor: str, start: int) -> int | None:
    for same in (str, str.strip):
        for at in range(start, len(lines)):
            if same(lines[at]) == same(anchor):
                return at
    return None


def _is_applied(lines: Sequence[str], hunk: Hunk, cursor: int, shift: int) -> bool:
    """Return True if the file has what a hunk would make, where the hunk belongs."""
    new = [line.removesuffix("\r") for line in hunk.new]
    if not new or all(not line.strip() for line in new):
        return False
    found = _occurrences(lines, new, cursor, str)
    if hunk.start is None:
        return len(found) == 1
    # Others may have changed the lines before it.
    return bool(found) and (len(found) == 1 or hunk.start - 1 + shift in found)


def _nearest(lines: Sequence[str], old: Sequence[str], hunk: Hunk, start: int, shift: int) -> str:
    """Say where most of a block is, and what there is different."""
    where: dict[str, list[int]] = {}
    wanted = {line.strip() for line in old if line.strip()}
    for at, line in enumerate(lines):
        if (bare := line.strip()) in wanted:
            where.setdefault(bare, []).append(at)
    votes: Counter[int] = Counter()
    for index, line in enumerate(old):
        places = where.get(line.strip(), ())
        if len(places) <= _COMMON:
            votes.update(at - index for at in places if at >= index)
    if votes:
        most = max(votes.values())
        close = hunk.start - 1 + shift if hunk.start is not None else start
        best = min((at for at, count in votes.items() if count == most), key=lambda at: abs(at - close))
    elif hunk.start is not None and lines:
        best = min(max(0, hunk.start - 1 + shift), len(lines) - 1)
    else:
        return f"none of its lines is in the file ({len(lines)} lines)"
    rows = []
    for index, line in enumerate(old):
        at = best + index
        have = lines[at] if at < len(lines) else None
        if have == line:
            rows.append(f"  {at + 1}: {have}")
        else:
            rows += [f"- {at + 1}: {have}"] if have is not None else []
            rows.append(f"+ {at + 1}: {line}")
    first = next((at for at, row in enumerate(rows) if not row.startswith("  ")), 0)
    begin = max(0, min(first - 3, len(rows) - MAX_SHOWN))
    shown = "\n".join(visible(row)[:200] for row in rows[begin : begin + MAX_SHOWN])
    return f"nearest at line {best + 1} (- the file has, + the patch expects):\n{shown}"
