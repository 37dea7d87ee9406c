"""date_time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ..base import Access, tool
from ..results import Text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@tool(Access.READ)
def date_time(
    timestamp: float | None = None,
    format: Annotated[str | None, Field(min_length=1, max_length=200, description="strftime")] = None,
) -> Text:
    """Tell the time in UTC, now or at a Unix timestamp."""
    if format is not None and not format.isprintable():
        raise ToolError(Code.INVALID_ARGS, "format: expected printable characters")
    when = datetime.now(UTC) if timestamp is None else _moment(timestamp)
    seconds = (when - EPOCH) // timedelta(seconds=1)
    if format is None:
        # strftime's %Y has less than four digits for the first years.
        return Text(f"{when.replace(tzinfo=None).isoformat(' ', 'seconds')} UTC (unix {seconds})")
    # strftime's own %s counts from local time.
    known = re.sub(r"%(.)", lambda m: str(seconds) if m[1] == "s" else m[0], format)
    try:
        return Text(when.strftime(known) or "(empty)")
    except (ValueError, UnicodeError):
        raise ToolError(Code.INVALID_ARGS, "format: expected a strftime format") from None


def _moment(timestamp: float) -> datetime:
    try:
        return EPOCH + timedelta(seconds=timestamp)
    except (OverflowError, ValueError):
        raise ToolError(
            Code.BAD_TIMESTAMP, f"{timestamp:g} is out of range", "it is in seconds, and years 1 to 9999 can be told"
        ) from None
