"""log: the records of calls, for a person (in local time) or as JSON lines (in UTC)."""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from ...safety.text import visible_name
from ..config.errors import ConfigError
from ..config.kinds import did_you_mean
from ..config.load import Config
from ..records.places import readable
from ..records.rows import Status
from ..records.statements import CallRecord, RecordError, Statements

PAUSE = 0.5
"""Seconds between two looks for further calls."""
AT_ONCE = 1000
"""Newest records that are looked at while following: a call is missed that ends after so many that began later."""
WIDTH = 100
"""Characters of a call's arguments or error in its line."""


@dataclass(frozen=True)
class Wanted:
    """Which records, and how: the newest limit of those with the given values. summary: a row for each tool instead."""

    tool: str | None = None
    status: str | None = None
    limit: int = 100
    as_json: bool = False
    tenant: str | None = None
    agent: str | None = None
    execution: str | None = None
    principal: str | None = None
    summary: bool = False

    @property
    def columns(self) -> dict[str, str | None]:
        """The values that columns must have, the status aside."""
        return {
            "tool": self.tool,
            "tenant_id": self.tenant,
            "agent": self.agent,
            "execution_id": self.execution,
            "principal": self.principal,
        }


def print_log(
    config: Config,
    wanted: Wanted,
    out: IO[str],
    *,
    follow: bool = False,
    wait: Callable[[], None] = lambda: time.sleep(PAUSE),
) -> int:
    """Print records, newest first; with follow oldest first, then each call as it ends, until wait raises.

    Raises ConfigError for a status that does not exist, and where there are no records to read.
    """
    statuses = [status.value for status in Status]
    if wanted.status is not None and wanted.status not in statuses:
        hint = did_you_mean(wanted.status, statuses) or f"there are {', '.join(statuses)}"
        raise ConfigError(f"--status: no status {wanted.status}; {hint}")
    place = config.records_place
    named = str(place) if isinstance(place, Path) else "records_url"
    if isinstance(place, Path) and not place.exists():
        off = "" if config.records else " (records: false)"
        raise ConfigError(f"no records at {named}{off}")
    try:
        with closing(readable(place)) as file:
            rows = file.newest(wanted.limit, status=wanted.status, **wanted.columns)
            if wanted.summary:
                out.write(_summary(rows, as_json=wanted.as_json))
                return 0
            for row in reversed(rows) if follow else rows:
                out.write(_line(row, wanted))
            if follow:
                _follow(file, wanted, out, wait)
    except (RecordError, sqlite3.Error) as e:
        raise ConfigError(f"{named}: {e}") from None
    return 0


def _follow(file: Statements, wanted: Wanted, out: IO[str], wait: Callable[[], None]) -> None:
    def ended_calls() -> list[CallRecord]:
        rows = file.newest(AT_ONCE, **wanted.columns)
        return [row for row in rows if row.status != Status.RUNNING]

    seen = {row.call_id for row in ended_calls()}
    while True:
        out.flush()
        wait()
        ended = ended_calls()
        for row in reversed(ended):
            if row.call_id not in seen and wanted.status in (None, row.status):
                out.write(_line(row, wanted))
        seen = {row.call_id for row in ended}


def _summary(rows: Sequence[CallRecord], *, as_json: bool) -> str:
    """Return a row for each tool, the most called first: calls, errors, milliseconds (median, 95 %) and tokens."""
    by_tool: dict[str, list[CallRecord]] = {}
    for row in rows:
        by_tool.setdefault(row.tool, []).append(row)
    found = [
        {
            "tool": tool,
            "calls": len(calls),
            "errors": sum(row.status == Status.ERROR for row in calls),
            "p50_ms": _percentile(calls, 0.5),
            "p95_ms": _percentile(calls, 0.95),
            "tokens": sum(row.tokens or 0 for row in calls),
        }
        for tool, calls in sorted(by_tool.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    if as_json:
        return "".join(json.dumps(row) + "\n" for row in found)
    head = f"{'TOOL':16}  {'CALLS':>7}  {'ERRORS':>7}  {'P50 MS':>8}  {'P95 MS':>8}  {'TOKENS':>9}\n"
    return head + "".join(
        f"{row['tool']:16}  {row['calls']:>7}  {row['errors']:>7}  {row['p50_ms']:>8}  {row['p95_ms']:>8}  {row['tokens']:>9}\n"
        for row in found
    )


def _percentile(rows: Sequence[CallRecord], part: float) -> int:
    """Return the milliseconds that a part of the calls took at most; 0 where none has ended."""
    times = sorted(row.duration_ms for row in rows if row.duration_ms is not None)
    return round(times[min(len(times) - 1, int(part * len(times)))]) if times else 0


def _line(row: CallRecord, wanted: Wanted) -> str:
    if wanted.as_json:
        return json.dumps(asdict(row), ensure_ascii=False) + "\n"
    when = f"{datetime.fromisoformat(row.started_at).astimezone():%Y-%m-%d %H:%M:%S}"
    root = visible_name(os.path.basename(row.root or "") or row.root or "-")[:16]
    took = "" if row.duration_ms is None else f"{row.duration_ms:.0f} ms"
    state = f"{row.status} {row.code}" if row.code else row.status
    what = visible_name(row.error_message or row.input)
    shown = what if len(what) <= WIDTH else f"{what[: WIDTH - 3]}..."
    return f"{when}  {root:16}  {row.tool:16}  {state:24}  {took:>9}  {shown}\n"
