"""What a read of a background process returns."""

from typing import Any, Self

from toolbox_mcp.sandbox.background import Output
from toolbox_mcp.tools.results import Budget, Record


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
        """Return the characters of both streams, and room for the form around them."""
        return len(self.stdout) + len(self.stderr) + 200

    def first_line(self) -> str:
        """Return how the process stands."""
        return f"{self.id}: {self.status}" + ("" if self.exit_code is None else f", exit {self.exit_code}")

    def rendered(self) -> str:
        """Return the first line and the stream blocks."""
        parts = [self.first_line()]
        for name, text in (("stdout", self.stdout), ("stderr", self.stderr)):
            if text:
                parts += [f"--- {name} ---", text.removesuffix("\n")]
        return "\n".join(parts if len(parts) > 1 else [*parts, "(no new output)"])

    def within(self, budget: Budget) -> tuple[Self, dict[str, Any]]:
        """Return the result with its streams cut to the budget that they share."""
        stdout, stderr = budget.fit_streams(self.stdout, self.stderr)
        cuts = [cut for cut in (stdout.truncated, stderr.truncated) if cut]
        if not cuts:
            return self, {}
        total = {key: sum(cut[key] for cut in cuts) for key in ("tokens", "cut")}
        return self.model_copy(update={"stdout": stdout.text, "stderr": stderr.text}), {"truncated": total}
