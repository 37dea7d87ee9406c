"""What a read of a background process returns."""

from typing import Any, Self

from ...sandbox.process.background import Output
from ..exec_result import FORM, exec_form
from ..results import Budget, Record, at_most, truncation


class ProcessOutput(Record):
    """What a process wrote since the last read, each part once. dropped_bytes: lost because nobody read them."""

    id: str
    status: str
    exit_code: int | None
    stdout: str
    stderr: str
    matched: bool | None
    dropped_bytes: int

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
        status = f"{self.id}: {self.status}" + ("" if self.exit_code is None else f", exit {self.exit_code}")
        return status if self.matched is None else f"{status}, {'matched' if self.matched else 'no match'}"

    def rendered(self) -> str:
        """Return the first line and the stream blocks."""
        return exec_form(self.first_line(), self.stdout, self.stderr, "(no new output)")

    def within(self, budget: Budget) -> tuple[Self, dict[str, Any]]:
        """Return the result with its streams cut to the budget that they share."""
        stdout, stderr = budget.fit_streams(self.stdout, self.stderr)
        meta = truncation(stdout, stderr)
        return (self.model_copy(update={"stdout": stdout.text, "stderr": stderr.text}) if meta else self), meta
