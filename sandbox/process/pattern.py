"""A regular expression from a client, searched for where a runaway one can be killed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ...safety.errors import Code, ToolError
from ..isolate.worker import Worker, WorkerFailure, WorkerTimeout

if TYPE_CHECKING:
    import regex

Subject = TypeVar("Subject")
Result = TypeVar("Result")

MAX_PATTERN = 10_000
"""Characters of a pattern; a guess that no pattern written for a purpose comes near."""


@dataclass(frozen=True)
class Pattern:
    """A pattern and the process that searches for it. `^` and `$` match at lines. seconds: for each search."""

    worker: Worker
    pattern: str
    seconds: float

    async def check(self) -> None:
        """Raise ToolError(bad_pattern) for a pattern that is none."""
        if len(self.pattern) > MAX_PATTERN:
            raise ToolError(Code.BAD_PATTERN, f"the pattern has more than {MAX_PATTERN} characters")
        if not self.pattern:
            raise ToolError(Code.BAD_PATTERN, "the pattern is empty")
        if not self._literal:
            await self._call(search, "")

    async def found(self, text: str) -> bool:
        """Return True if text holds a match; ToolError(regex_timeout) when that takes too long."""
        return self.pattern in text if self._literal else await self._call(search, text)

    async def matching(self, lines: Sequence[str]) -> list[int]:
        """Return the indexes of the lines that hold a match; ToolError(regex_timeout) when that takes too long."""
        return await self._call(matching, lines)

    @property
    def _literal(self) -> bool:
        return self.pattern == re.escape(self.pattern)

    async def _call(self, work: Callable[[str, Subject], Result], subject: Subject) -> Result:
        try:
            return await self.worker.call(work, self.pattern, subject, deadline=self.seconds)
        except WorkerTimeout:
            raise ToolError(
                Code.REGEX_TIMEOUT, f"the pattern took longer than {self.seconds:g} s", "use a simpler pattern"
            ) from None
        except WorkerFailure:
            raise ToolError(Code.BAD_PATTERN, "the pattern takes more memory than there is for it") from None


def search(pattern: str, text: str) -> bool:
    """Return True if text holds a match; runs in a worker."""
    return bool(_compiled(pattern).search(text))


def matching(pattern: str, lines: Sequence[str]) -> list[int]:
    """Return the indexes of the lines that hold a match; runs in a worker."""
    compiled = _compiled(pattern)
    return [index for index, line in enumerate(lines) if compiled.search(line)]


def _compiled(pattern: str) -> "regex.Pattern[str]":
    import regex  # Takes 5 ms, which the server does not need to wait for.

    try:
        return regex.compile(pattern, regex.MULTILINE)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise ToolError(Code.BAD_PATTERN, f"the pattern is not valid: {error}") from None
