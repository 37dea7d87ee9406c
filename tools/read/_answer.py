"""Lines of a file as an answer: those that fit, and how to get the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_types import ContentBlock, TextContent

from ...safety.errors import ToolError
from ..results import Answer, Budget, Result, at_most, bare_json

MARKER = 48
"""Tokens kept free for the line that says how to go on."""

REPLACED = "[not valid {}: what stands for no character is shown as U+FFFD]"


@dataclass(frozen=True)
class Lines:
    """Lines of a file, the first of them with its number in the file.

    total: how many the file has, None where they were not counted. char: the 1-based character at which the first line
    begins here; length: the characters of that line, where it is known. latest: the end is kept where not all fits, and
    not the start. cut: there was more than could be read. part: the one line here is longer than could be read, and this its
    start, or its end where that is kept. note: a line that stands before all others.
    """

    lines: Sequence[str]
    first: int = 1
    total: int | None = None
    char: int = 1
    numbered: bool = False
    latest: bool = False
    cut: bool = False
    part: bool = False
    note: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> str:
        """Return all lines as they are shown."""
        if not self.numbered:
            return "\n".join(self.lines)
        return "\n".join(f"{number}\t{line}" for number, line in enumerate(self.lines, self.first))

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes of the text."""
        return at_most(self.body) + 4 * MARKER + len(self.note or "")

    def fit(self, budget: Budget) -> Answer:
        """Return whole lines from the start, or the end, and the range where that is not all."""
        body = self.body
        room = MARKER * (2 if self.note else 1)
        whole = budget.head(body)
        if whole.truncated is None and not self.cut:
            text = body or "(empty line)"
            if self.note is None and bare_json(text) is not None:
                text = f"{self._range(self.first, self.first + len(self.lines) - 1)}]\n{text}"
            note = f"{self.note}\n" if self.note else ""
            kept = budget.head(note + text)
            if kept.truncated is None:
                return self._answer(kept.text, noted=True)
        if self.latest:
            kept_end = budget.end(body, room)
            return self._answer(f"{self._ended(kept_end)}\n{kept_end}", whole.truncated)
        start = budget.start(body, room)
        return self._answer(start if start == body and not self.cut else self._continued(start), whole.truncated)

    def _ended(self, kept: str) -> str:
        """Return the line that says which lines the end of the body has, and how much of the first of them."""
        count = kept.count("\n") + 1
        last = self.first + len(self.lines) - 1
        head = self._range(last - count + 1, last) if self.total is not None else f"[the last {count} lines"
        at = len(self.body) - len(kept)
        if not (self.part or (at and self.body[at - 1] != "\n")):
            return f"{head}]"
        shown = min(len(kept.split("\n", 1)[0]), len(self.lines[-count]))
        return f"{head}; of the first only its last {shown} characters]"

    def _continued(self, start: str) -> str:
        """Return the start of the body with the line that says how to go on."""
        if self.part and start == self.body:
            onward = "" if self.total == self.first else f"; continue with start_line={self.first + 1}"
            end = self.char + len(self.lines[0]) - 1
            return f"{start}\n[line {self.first}: characters {self.char}-{end}; of a line 5 MiB can be read{onward}]"
        count = start.count("\n")
        if start == self.body:
            count = len(self.lines)
        if not count:
            return self._within_line(start)
        kept = start[: start.rfind("\n")] if start.count("\n") == count else start
        last = self.first + count - 1
        return f"{kept}\n{self._range(self.first, last)}; continue with start_line={last + 1}]"

    def _within_line(self, start: str) -> str:
        shown = len(start) - (len(f"{self.first}\t") if self.numbered else 0)
        end = self.char + shown - 1
        length = "" if self.cut else f" of {self.char - 1 + len(self.lines[0])}"
        return (
            f"{start}\n[line {self.first}: characters {self.char}-{end}{length};"
            f" continue with start_line={self.first}, start_char={end + 1}]"
        )

    def _range(self, first: int, last: int) -> str:
        return f"[lines {first}-{last}" + (f" of {self.total}" if self.total is not None else "")

    def _answer(self, text: str, truncated: dict[str, int] | None = None, *, noted: bool = False) -> Answer:
        if self.note and not noted:
            text = f"{self.note}\n{text}"
        meta = dict(self.meta) | ({"truncated": truncated} if truncated else {})
        return Answer([TextContent(type="text", text=text)], meta=meta)


@dataclass(frozen=True)
class Files:
    """Several files, each under its name; what cannot be read says why in its place."""

    parts: Sequence[tuple[str, Result | ToolError]]

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes of the text."""
        return sum(20 + at_most(name) + (500 if isinstance(one, ToolError) else one.size) for name, one in self.parts)

    def fit(self, budget: Budget) -> Answer:
        """Return all files, of which each that is too long for its share of the budget is cut."""
        blocks: list[ContentBlock] = []
        cut: list[Answer] = []
        share = budget.part(len(self.parts))
        for name, one in self.parts:
            head = f"==> {name} <=="
            if isinstance(one, ToolError):
                hint = f" ({one.hint})" if one.hint else ""
                blocks.append(TextContent(type="text", text=f"{head}\n{one.code}: {one.error}{hint}"))
                continue
            answer = one.fit(share)
            cut.append(answer)
            blocks.append(TextContent(type="text", text=f"{head}\n{answer.text}"))
            blocks += [block for block in answer.content if not isinstance(block, TextContent)]
        truncated = [answer.meta["truncated"] for answer in cut if "truncated" in answer.meta]
        total = {key: sum(one[key] for one in truncated) for key in ("tokens", "cut")}
        return Answer(blocks, meta={"truncated": total} if truncated else {})
