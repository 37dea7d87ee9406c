"""What a read of a background process returns."""

import re
from typing import Any, Self

from pydantic import PrivateAttr

from ...sandbox.process.background import Output
from ..exec_result import FORM, exec_form
from ..outputs import more, read_on
from ..results import Budget, Record, at_most, truncation
from ._selection import Selected


class ProcessOutput(Record):
    """What a process wrote since the last read, each part once. dropped_bytes: lost because nobody read them."""

    id: str
    status: str
    exit_code: int | None
    stdout: str
    stderr: str
    matched: bool | None
    dropped_bytes: int
    _kept: str | None = PrivateAttr(None)
    _lines: Selected | None = PrivateAttr(None)

    def of_lines(self, kept: str, lines: Selected) -> Self:
        """Note that stdout is some lines of a kept output."""
        self._kept, self._lines = kept, lines
        return self

    @classmethod
    def of(cls, id: str, output: Output, **more: Any) -> Self:
        """Return the result of a read, with the further fields of a subclass."""
        return cls(
            id=id,
            status=output.status,
            exit_code=output.exit_code,
            stdout=output.stdout,
            stderr=output.stderr,
            matched=output.matched,
            dropped_bytes=output.dropped,
            **more,
        )

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes of both streams, with room for the form around them."""
        return at_most(self.stdout) + at_most(self.stderr) + FORM

    def first_line(self) -> str:
        """Return the state of the process."""
        if self._lines and self.id == self._kept:
            return f"{self.id} {self._lines.note}"
        status = f"{self.id}: {self.status}" + ("" if self.exit_code is None else f", exit {self.exit_code}")
        if self.matched is not None:
            status += ", matched" if self.matched else ", no match"
        return f"{status} {self._lines.note[:-1]}; all: {self._kept}]" if self._lines else status

    def rendered(self) -> str:
        """Return the first line and the stream blocks."""
        return exec_form(self.first_line(), self.stdout, self.stderr, "(no new output)")

    def _hint(self, head: str) -> str:
        """Return how to read on in the kept output behind the lines of a head."""
        assert self._lines and self._kept
        # With a pattern each line stands behind its number.
        number = re.search(r"(\d+): [^\n]*\n?\Z", head) if self._lines.numbered else None
        line = int(number[1]) + 1 if number else self._lines.first + head.count("\n")
        return more(self._kept, line) + (" and the same pattern" if self._lines.numbered else "")

    def within(self, budget: Budget) -> tuple[Self, dict[str, Any]]:
        """Return the result with its streams cut to the budget that they share."""
        hints = (self._hint if self._lines else read_on(budget, text) for text in (self.stdout, self.stderr))
        stdout, stderr = budget.fit_streams(self.stdout, self.stderr, *hints)
        meta = truncation(stdout, stderr)
        return (self.model_copy(update={"stdout": stdout.text, "stderr": stderr.text}) if meta else self), meta
