"""diff."""

import re
from typing import Annotated, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.text import visible
from ...sandbox.isolate.worker import WorkerFailure
from ..base import Access, tool
from ..results import Text
from ..services import Parser
from ._line_diff import MAX_WORDED, compared

MAX_BYTES = 2**20
MAX_LINES = 20_000
SECONDS = 1.8
"""Seconds for one comparison. Texts of 20,000 lines take a tenth of that, unless they are made to take long."""


_NAME = re.compile(r"[\w./-]*\w\.[A-Za-z]\w{0,9}", re.ASCII)
"""What looks like the name of a file."""


@tool(Access.READ)
async def diff(
    parser: Parser,
    a: str,
    b: str,
    style: Annotated[
        Literal["lines", "unified", "words"], Field(description="words, for short texts: [-old-]{+new+}")
    ] = "lines",
) -> Text:
    """Compare two texts, not files, line by line: - only in a, + only in b."""
    for name, side in (("a", a), ("b", b)):
        if len(side.encode("utf-8", "surrogatepass")) > MAX_BYTES or side.count("\n") > MAX_LINES:
            raise ToolError(Code.TOO_LARGE, f"{name} is above 1 MiB or {MAX_LINES} lines", "compare smaller parts")
        if style == "words" and len(side) > MAX_WORDED:
            raise ToolError(
                Code.TOO_LARGE, f"{name} is above {MAX_WORDED} characters", 'style="unified" takes long texts'
            )
    if a == b:
        return Text("identical")
    try:
        found = await parser.call(compared, a, b, style, deadline=SECONDS)
    except WorkerFailure:
        raise ToolError(Code.TOO_LARGE, "the texts take too long to compare", "compare smaller parts") from None
    note = "\n(the two names were compared, no files)" if _NAME.fullmatch(a) and _NAME.fullmatch(b) else ""
    return Text(visible(found) + note, "compare smaller parts")
