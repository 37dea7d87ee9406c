"""date_time."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from ...safety.errors import Code, ToolError
from ..base import Access, tool
from ..results import Text

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{0,63}")
_SHIFT = re.compile(
    r"([+-])\s*(\d{1,9})\s*(?:(s)(?:ecs?|econds?)?|(m)(?:ins?|inutes?)?|(h)(?:rs?|ours?)?|(d)(?:ays?)?|(w)(?:eeks?)?)",
    re.ASCII,
)


@tool(Access.READ)
def date_time(
    timestamp: float | None = None,
    format: Annotated[str | None, Field(min_length=1, max_length=200, description="strftime")] = None,
    zone: Annotated[str | None, Field(max_length=64, description="Europe/Berlin or +02:00")] = None,
    time: Annotated[str | None, Field(max_length=64, description="ISO 8601, or relative: +3d, -90 min")] = None,
) -> Text:
    """Tell the time in UTC or a zone: now, at a Unix timestamp or at a time given as text."""
    if format is not None and not format.isprintable():
        raise ToolError(Code.INVALID_ARGS, "format: expected printable characters")
    there = _zone(zone) if zone else UTC
    when = datetime.now(UTC) if timestamp is None else _moment(timestamp)
    try:
        when = (_at(time, when, there) if time else when).astimezone(there)
    except (OverflowError, ValueError):
        raise _out_of_range("the time") from None
    seconds = (when - EPOCH) // timedelta(seconds=1)
    if format is None:
        # strftime's %Y has less than four digits for the first years.
        shown = when.replace(tzinfo=None).isoformat(" ", "seconds")
        name = "UTC" if there is UTC else f"{when.isoformat()[-6:]} {zone}" if when.tzname() != zone else zone
        return Text(f"{shown} {name} (unix {seconds})")
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
        raise _out_of_range(f"{timestamp:g}") from None


def _at(text: str, now: datetime, zone: tzinfo) -> datetime:
    """Return the moment that a text means; without an offset of its own it is in the zone. ToolError bad_timestamp."""
    text = text.strip()
    if shift := _SHIFT.fullmatch(text.lower()):
        return now + int(f"{shift[1]}{shift[2]}") * timedelta(seconds=UNITS[shift[shift.lastindex or 0]])
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ToolError(
            Code.BAD_TIMESTAMP,
            f"time: {text[:64]!r} is neither ISO 8601 nor relative",
            "2026-11-21T04:43:58+01:00 or +3d",
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=zone)


def _zone(name: str) -> tzinfo:
    """Return a time zone by its name in the IANA database, or by its offset. ToolError invalid_args."""
    if offset := _OFFSET.fullmatch(name):
        shift = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        if shift < timedelta(hours=24):
            return timezone(-shift if offset[1] == "-" else shift)
    elif name.upper() in ("UTC", "Z"):
        return UTC
    elif _ZONE.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (LookupError, ValueError, OSError):
            pass
    raise ToolError(Code.INVALID_ARGS, f"zone: {name[:64]!r} is not known", "such as Europe/Berlin, UTC, +02:00")


def _out_of_range(what: str) -> ToolError:
    return ToolError(Code.BAD_TIMESTAMP, f"{what} is out of range", "it is in seconds, and years 1 to 9999 can be told")
