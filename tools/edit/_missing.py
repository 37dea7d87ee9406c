"""The answer to an edit whose text is nowhere."""

import time
from contextlib import suppress

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.text import visible
from ...sandbox.isolate.worker import Worker, WorkerFailure
from ._closest import SEARCH_TIME, explain_mismatch, find_closest
from ._replace import NoMatch

SHOWING = 0.5
"""Seconds that are kept of the search's time for showing the difference; twice what the longest took here, a guess."""


async def no_match(place: JailedPath, missed: NoMatch, parser: Worker, what: str = "old_string") -> ToolError:
    """Return the refusal that shows the nearest text, and names the cause where it is one thing."""
    near, why = None, None
    until = time.monotonic() + SEARCH_TIME
    # White space alone resembles nothing. Where the system has no process to spare, the answer does without.
    if missed.wanted.strip():
        with suppress(WorkerFailure, OSError):
            why = await parser.call(explain_mismatch, missed.lf, missed.wanted, what, deadline=SEARCH_TIME)
        left = until - time.monotonic()
        with suppress(WorkerFailure, OSError):
            if left > SHOWING:
                near = await parser.call(find_closest, missed.lf, missed.wanted, left - SHOWING, deadline=left)
    error = f"{what} is nowhere in {place.shown}"
    hint = "read the lines again and copy them exactly"
    if near:
        hint = f"[-...-] is what {what} has there, {{+...+}} what the file has"
        first, last, similarity, diff = near
        error += f". Nearest: {place.shown} lines {first}-{last} (similarity {similarity:.2f}):\n{visible(diff)}"
    return ToolError(Code.NO_MATCH, error, why or hint)
