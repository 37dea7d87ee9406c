"""diff."""

from ...safety.errors import Code, ToolError
from ..base import Access, tool
from ..results import Text
from ..services import Parser
from ._line_diff import compared

MAX_BYTES = 2**20
MAX_LINES = 20_000
PATIENCE = 30.0
"""Seconds for one comparison; a guess, as the worst pairs of 20,000 lines took less than ten."""


@tool(Access.READ)
async def diff(
    parser: Parser,
    a: str,
    b: str,
) -> Text:
    """Compare two texts, not files, line by line: - only in a, + only in b."""
    for name, side in (("a", a), ("b", b)):
        if len(side.encode("utf-8", "surrogatepass")) > MAX_BYTES or side.count("\n") > MAX_LINES:
            raise ToolError(Code.TOO_LARGE, f"{name} is above 1 MiB or {MAX_LINES} lines", "compare smaller parts")
    if a == b:
        return Text("identical")
    return Text(await parser.call(compared, a, b, deadline=PATIENCE), "compare smaller parts")
