"""process_kill."""

from typing import Self

from pydantic import PrivateAttr

from ..base import Access, tool
from ..services import Processes
from ._output import ProcessOutput


class ProcessKilled(ProcessOutput):
    """The last output of a process that is no longer listed. signal: what ended it, or null."""

    signal: str | None
    _ran: bool = PrivateAttr(default=True)

    def ran(self, running: bool) -> Self:
        """Note whether it was still running."""
        self._ran = running
        return self

    def first_line(self) -> str:
        """Return whether it was ended or had ended."""
        return f"Killed {self.id}" if self._ran else f"{self.id} had already exited (exit {self.exit_code})"

    def rendered(self) -> str:
        """Return the first line and the stream blocks, if any."""
        return super().rendered().removesuffix("\n(no new output)")


@tool(Access.STATE, destructive_hint=True, idempotent_hint=True)
async def process_kill(processes: Processes, id: str) -> ProcessKilled:
    """End a background process with all it started; return its last output."""
    running, output = await processes.kill(id)
    return ProcessKilled.of(id, output, signal=output.signal).ran(running)
