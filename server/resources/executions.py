"""The records of an owner's own calls as resources: toolbox://executions."""

import json
from dataclasses import asdict

from anyio import to_thread

from ..records.recorder import CallRecord, RecordError, Records

URI = "toolbox://executions"
NEWEST = 100
"""Calls that the list has (TOOLS.md §10)."""

_HIDDEN = ("session", "principal", "root")


async def newest(records: Records, owner: str) -> list[CallRecord]:
    """Return the newest calls of an owner; none where they cannot be read."""
    try:
        return await to_thread.run_sync(lambda: records.newest(NEWEST, session=owner))
    except RecordError:
        return []


async def listed(records: Records, owner: str) -> str:
    """Return the newest calls of an owner as JSON, without their arguments and answers."""
    rows = await newest(records, owner)
    return json.dumps([_fields(row, "input", "output") for row in rows], ensure_ascii=False, indent=1)


async def one(records: Records, owner: str, call_id: str) -> str | None:
    """Return one call of an owner as JSON; None for any other."""
    try:
        row = await to_thread.run_sync(lambda: records.get(call_id, session=owner))
    except RecordError:
        return None
    return None if row is None else json.dumps(_fields(row), ensure_ascii=False, indent=1)


def _fields(row: CallRecord, *left_out: str) -> dict[str, object]:
    return {
        name: value for name, value in asdict(row).items() if value is not None and name not in (*_HIDDEN, *left_out)
    }
