"""process_output."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...sandbox.process.pattern import Pattern
from ...sandbox.processes import WAIT_FOR_SECONDS
from ..base import Access, tool
from ..outputs import PREFIX
from ..services import Outputs, Parser, Processes, Settings
from ._output import ProcessOutput
from ._selection import Selection


def _deadline(wait: float, wait_for: str | None) -> float:
    return (wait or (WAIT_FOR_SECONDS if wait_for is not None else 0)) + 5


@tool(
    Access.STATE,
    deadline=lambda settings, given: _deadline(given["wait"], given["wait_for"]) + 3 * settings.regex_timeout,
)
async def process_output(
    processes: Processes,
    outputs: Outputs,
    parser: Parser,
    settings: Settings,
    id: Annotated[str, Field(description="of a process, or out_N of a cut output")],
    wait: Annotated[float, Field(ge=0, le=60, description="seconds")] = 0,
    wait_for: Annotated[str | None, Field(description="regex; wait is then 30")] = None,
    from_line: Annotated[int | None, Field(ge=1)] = None,
    tail: Annotated[int | None, Field(ge=1, description="only the last lines")] = None,
    pattern: Annotated[str | None, Field(description="regex; only lines that match")] = None,
) -> ProcessOutput:
    """Read what a background process wrote since the last read, or a cut output. Use wait_for, not polling."""
    wanted = None if pattern is None else Pattern(parser, pattern, settings.regex_timeout)
    if wanted is not None:
        await wanted.check()
    selection = Selection(from_line, tail, wanted)
    if id.startswith(PREFIX):
        if wait or wait_for is not None:
            raise ToolError(Code.INVALID_ARGS, "wait, wait_for: a kept output does not grow", "leave them out")
        lines = await selection.of(outputs.get(id))
        return ProcessOutput(
            id=id, status="kept", exit_code=None, stdout=lines.text, stderr="", matched=None, dropped_bytes=0
        ).of_lines(id, lines)
    output = await processes.output(id, wait, wait_for)
    if not selection.narrows:
        return ProcessOutput.of(id, output)
    # A process's output is read once: what the selection leaves out can be asked for again.
    kept = outputs.keep(output.stdout + output.stderr)
    lines = await selection.of(outputs.get(kept))
    return ProcessOutput.of(id, replace(output, stdout=lines.text, stderr="")).of_lines(kept, lines)
