"""process_input."""

from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ..base import Access, tool
from ..results import Record
from ..services import Processes

MAX_INPUT = 64 * 1024
"""Bytes of input a call."""


class ProcessInput(Record):
    """How many bytes a process has taken."""

    id: str
    written: int

    def rendered(self) -> str:
        """Return one line."""
        return f"Wrote {self.written} bytes to {self.id}"


@tool(Access.EXEC)
async def process_input(
    processes: Processes,
    id: str,
    text: Annotated[str, Field(description="verbatim; end a line with a line break")],
    end: Annotated[bool, Field(description="close stdin afterwards; on a terminal, send end-of-file")] = False,
) -> ProcessInput:
    """Write to the stdin or terminal of a background process, such as a REPL."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ToolError(Code.INVALID_ARGS, "text: is not valid Unicode") from None
    if len(data) > MAX_INPUT:
        raise ToolError(Code.INVALID_ARGS, f"text: has {len(data)} bytes, more than {MAX_INPUT}", "send it in parts")
    return ProcessInput(id=id, written=await processes.write(id, data, end=end))
