"""Which lines of an output are shown."""

from dataclasses import dataclass

from ...safety.errors import Code, ToolError
from ...sandbox.isolate.worker import Worker, WorkerFailure, WorkerTimeout
from ...sandbox.process.pattern import MAX_PATTERN


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
    pattern: str | None = None

    @property
    def narrows(self) -> bool:
        """Return True if something is selected."""
        return (self.from_line, self.tail, self.pattern) != (None, None, None)

    async def of(self, text: str, parser: Worker, seconds: float) -> Selected:
        """Return the selected lines; with a pattern each stands behind its number. ToolError bad_pattern, regex_timeout."""
        lines = text.splitlines()
        first = self.from_line or 1
        rows = [*enumerate(lines[first - 1 :], first)]
        if self.pattern is not None:
            found = {*await self._matching([line for _, line in rows], parser, seconds)}
            rows = [row for index, row in enumerate(rows) if index in found]
        if self.tail is not None:
            rows = rows[-self.tail :]
        shown = [line if self.pattern is None else f"{number}: {line}" for number, line in rows]
        return Selected(
            "\n".join(shown), rows[0][0] if rows else first, len(rows), len(lines), self.pattern is not None
        )

    async def _matching(self, lines: list[str], parser: Worker, seconds: float) -> list[int]:
        assert self.pattern is not None
        if len(self.pattern) > MAX_PATTERN:
            raise ToolError(Code.BAD_PATTERN, f"the pattern has more than {MAX_PATTERN} characters")
        try:
            return await parser.call(matching, self.pattern, lines, deadline=seconds)
        except WorkerTimeout:
            raise ToolError(
                Code.REGEX_TIMEOUT, f"the pattern took longer than {seconds:g} s", "use a simpler pattern"
            ) from None
        except WorkerFailure:
            raise ToolError(Code.BAD_PATTERN, "the pattern takes more memory than there is for it") from None


def matching(pattern: str, lines: list[str]) -> list[int]:
    """Return the indexes of the lines that hold a match. Runs in the worker. ToolError bad_pattern."""
    import regex  # Takes 5 ms, which the server does not need to wait for.

    try:
        compiled = regex.compile(pattern)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise ToolError(Code.BAD_PATTERN, f"the pattern is not valid: {error}") from None
    return [index for index, line in enumerate(lines) if compiled.search(line)]
