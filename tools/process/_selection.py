"""Which lines of an output are shown."""

from dataclasses import dataclass

from ...sandbox.process.pattern import Pattern


@dataclass(frozen=True)
class Selected:
    """Some lines of an output. first: the 1-based number of the first one. total: lines of the output.

    numbered: each stands behind its number.
    """

    text: str
    first: int
    shown: int
    total: int
    numbered: bool

    @property
    def note(self) -> str:
        """Return the line that says which lines these are."""
        if self.shown == 0:
            return f"[no lines of {self.total}]"
        return f"[{self.shown} of {self.total} lines]"


@dataclass(frozen=True)
class Selection:
    """Lines from one on, of those that match a regex, and of those the last ones. None selects nothing away."""

    from_line: int | None = None
    tail: int | None = None
    pattern: Pattern | None = None

    @property
    def narrows(self) -> bool:
        """Return True if something is selected."""
        return (self.from_line, self.tail, self.pattern) != (None, None, None)

    async def of(self, text: str) -> Selected:
        """Return the selected lines; with a pattern each stands behind its number. ToolError regex_timeout."""
        lines = text.splitlines()
        first = self.from_line or 1
        rows = [*enumerate(lines[first - 1 :], first)]
        if self.pattern is not None:
            found = {*await self.pattern.matching([line for _, line in rows])}
            rows = [row for index, row in enumerate(rows) if index in found]
        if self.tail is not None:
            rows = rows[-self.tail :]
        shown = [line if self.pattern is None else f"{number}: {line}" for number, line in rows]
        return Selected(
            "\n".join(shown), rows[0][0] if rows else first, len(rows), len(lines), self.pattern is not None
        )
