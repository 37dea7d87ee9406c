"""process_output."""

from typing import Annotated

from pydantic import Field

from ...sandbox.processes import WAIT_FOR_SECONDS
from ..base import Access, tool
from ..services import Processes
from ._output import ProcessOutput


def _deadline(wait: float, wait_for: str | None) -> float:
    return (wait or (WAIT_FOR_SECONDS if wait_for is not None else 0)) + 5


@tool(
    Access.STATE,
    deadline=lambda settings, given: _deadline(given["wait"], given["wait_for"]) + settings.regex_timeout,
)
async def process_output(
    processes: Processes,
    id: str,
    wait: Annotated[float, Field(ge=0, le=60, description="seconds")] = 0,
    wait_for: Annotated[str | None, Field(description="regex; wait is then 30")] = None,
) -> ProcessOutput:
    """Read what a background process wrote since the last read. Use wait_for, not polling."""
    return ProcessOutput.of(id, await processes.output(id, wait, wait_for))
