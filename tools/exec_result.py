"""The result of a program: the exec fields, and the exec form as its text (TOOLS.md §1.7)."""

from collections.abc import Collection
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr

from ..sandbox.process.runner import Finished
from .outputs import read_on
from .results import Budget, Record, at_most, truncation

FORM = 200
"""Bytes that the exec form adds to the streams, at most; with this much room they fit side by side."""


def exec_form(first_line: str, stdout: str, stderr: str, nothing: str) -> str:
    """Return a first line and the streams below it, each in a block; nothing stands for both where they are empty."""
    parts = [first_line]
    for name, text in (("stdout", stdout), ("stderr", stderr)):
        if text:
            parts += [f"--- {name} ---", text.removesuffix("\n")]
    return "\n".join(parts if len(parts) > 1 else [*parts, nothing])


class ExecResult(Record):
    """How a program ended and what it wrote. Byte counts are of the whole output, cut or not."""

    rest: ClassVar[str] = "have the program print less, or write to a file and read that"
    """How to get what the budget cuts off a stream where it is not kept."""

    exit_code: int
    signal: str | None
    timed_out: bool
    killed_by: str | None
    duration_ms: float
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    stdout_truncated: bool
    stderr_truncated: bool
    _reasons: tuple[str, ...] = PrivateAttr(default=())
    _late: str | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, done: Finished, *, reasons: tuple[str, ...] = (), late: str | None = None, **more: Any) -> Self:
        """Return the result of a finished program, with the further fields of a subclass.

        reasons: what the sandbox it ran in does not contain; its first line says so. late: what to do where it took too long.
        """
        made = cls(
            exit_code=done.exit_code,
            signal=done.signal,
            timed_out=done.timed_out,
            killed_by=done.killed_by,
            duration_ms=done.duration_ms,
            stdout=done.stdout.text,
            stderr=done.stderr.text,
            stdout_bytes=done.stdout.bytes,
            stderr_bytes=done.stderr.bytes,
            stdout_truncated=done.stdout.truncated,
            stderr_truncated=done.stderr.truncated,
            **more,
        )
        made._reasons = reasons
        made._late = late if done.timed_out else None
        return made

    def derived(self) -> Collection[str]:
        """Return the counts of streams that are whole."""
        streams = {"stdout_bytes": self.stdout_truncated, "stderr_bytes": self.stderr_truncated}
        return {name for name, truncated in streams.items() if not truncated}

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes of both streams, with room for the form around them."""
        return at_most(self.stdout) + at_most(self.stderr) + FORM

    def first_line(self) -> str:
        """Return the first line: how the program ended."""
        return self._end() + (f" [degraded: {'; '.join(self._reasons)}]" if self._reasons else "")

    def _end(self) -> str:
        if self.timed_out:
            return f"result: timed out after {round(self.duration_ms / 1000)}s (killed)"
        if self.killed_by:
            return f"result: killed: {self.killed_by}"
        return f"exit: {self.exit_code}"

    def rendered(self) -> str:
        """Return the exec form."""
        form = exec_form(self.first_line(), self.stdout, self.stderr, "(no output)")
        return f"{form}\n({self._late})" if self._late else form

    def within(self, budget: Budget) -> tuple[Self, dict[str, Any]]:
        """Return the result with its streams cut to the budget that they share."""
        hints = (read_on(budget, text, self.rest) for text in (self.stdout, self.stderr))
        stdout, stderr = budget.fit_streams(self.stdout, self.stderr, *hints)
        meta = truncation(stdout, stderr)
        if not meta:
            return self, {}
        fitted = self.model_copy(
            update={
                "stdout": stdout.text,
                "stderr": stderr.text,
                "stdout_truncated": self.stdout_truncated or stdout.truncated is not None,
                "stderr_truncated": self.stderr_truncated or stderr.truncated is not None,
            }
        )
        return fitted, meta
