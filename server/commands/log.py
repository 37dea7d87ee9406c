"""log: the records of calls, for a person (in local time) or as JSON lines (in UTC)."""

import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import IO

from ...safety.text import visible_name
from ..config.errors import ConfigError
from ..config.kinds import did_you_mean
from ..config.load import Config
from ..records.rows import Status
from ..records.store import CallRecord, RecordError, RecordStore

PAUSE = 0.5
"""Seconds between two looks for further calls."""
AT_ONCE = 1000
"""Newest records that are looked at while following: a call is missed that ends after so many that began later."""
WIDTH = 100
"""Characters of a call's arguments or error in its line."""


@dataclass(frozen=True)
class Wanted:
    """Which records, and how: the newest limit of one tool and status, where given."""

    tool: str | None = None
    status: str | None = None
    limit: int = 100
    as_json: bool = False


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
    if not config.records_file.exists():
        off = "" if config.records else " (records: false)"
        raise ConfigError(f"no records at {config.records_file}{off}")
    try:
        with closing(RecordStore.readable(config.records_file)) as file:
            rows = file.newest(wanted.limit, wanted.tool, wanted.status, None, None)
            for row in reversed(rows) if follow else rows:
                out.write(_line(row, wanted))
            if follow:
                _follow(file, wanted, out, wait)
    except (RecordError, sqlite3.Error) as e:
        raise ConfigError(f"{config.records_file}: {e}") from None
    return 0


def _follow(file: RecordStore, wanted: Wanted, out: IO[str], wait: Callable[[], None]) -> None:
    def ended_calls() -> list[CallRecord]:
        rows = file.newest(AT_ONCE, wanted.tool, None, None, None)
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
