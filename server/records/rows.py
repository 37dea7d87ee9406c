"""What the row of a call holds: who asked for what, and how it ended, without secrets and cut to size."""

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from ...safety.redaction import OMITTED, redact

INPUT_MAX = 8192
"""Bytes of a call's arguments in its record (TOOLS.md §6.3)."""
MESSAGE_MAX = 2000
"""Characters of an error message in a record, as in an answer."""

Row = dict[str, Any]
"""Columns of the file of records and their values."""


class Status(StrEnum):
    """How a call stands, or ended."""

    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    DENIED = "denied"
    INTERRUPTED = "interrupted"


class Started(NamedTuple):
    """What is known of a call before it runs.

    input: its arguments as they came; their secrets are not kept.
    """

    call_id: str
    execution_id: str | None
    tenant_id: str | None
    agent: str | None
    client: str | None
    session: str | None
    principal: str | None
    tool: str
    input: Mapping[str, Any]
    unsafe: bool
    approved_by: str | None
    started_at: datetime


class Finished(NamedTuple):
    """What is known of a call when it is over. output: its whole text; tokens: None where it was not counted."""

    status: Status
    code: str | None
    output: str
    error_message: str | None
    duration_ms: float
    tokens: int | None = None


def new_call_id() -> str:
    """Make an id of 26 characters. Ids sort as the times at which they were made, and no two are equal."""
    return f"{time.time_ns():016x}{os.urandom(5).hex()}"


def start_row(started: Started, iteration: int) -> Row:
    """Return the row of a call that begins, without secrets. iteration: which call of its tool in its session it is."""
    return {
        "call_id": started.call_id,
        "execution_id": started.execution_id,
        "tenant_id": started.tenant_id,
        "agent": started.agent,
        "client": started.client,
        "session": started.session,
        "principal": started.principal,
        "tool": started.tool,
        "iteration": iteration,
        "status": Status.RUNNING.value,
        "input": _as_json(redact(started.input, most=INPUT_MAX)),
        "unsafe": started.unsafe,
        "approved_by": started.approved_by,
        "started_at": timestamp(started.started_at),
    }


def end_row(finished: Finished, at: datetime, most: int) -> Row:
    """Return the fields of a call's row about its end; most: characters of output that are kept."""
    message = finished.error_message
    return {
        "status": finished.status.value,
        "code": None if finished.code is None else str(finished.code),
        "output": _cut(finished.output, most),
        "output_bytes": len(finished.output.encode(errors="replace")),
        "tokens": finished.tokens,
        "error_message": None if message is None else redact(message[:MESSAGE_MAX]),
        "completed_at": timestamp(at),
        "duration_ms": finished.duration_ms,
    }


def timestamp(moment: datetime) -> str:
    """Write a time so that texts sort as the times do."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut(output: str, most: int) -> str:
    # A little more is looked through, so that a secret on the edge is seen whole.
    text: str = redact(output[: most + 1000])
    return text[:most] + "... (truncated)" if len(output) > most else text


def _as_json(value: Any) -> str:
    """Write arguments as JSON of at most INPUT_MAX bytes; long texts and lists are shortened."""
    text = _dumped(value)
    for longest in (4096, 1024, 256, 64, 16):
        if len(text.encode(errors="replace")) <= INPUT_MAX:
            return text
        text = _dumped(_shortened(value, longest))
    return text if len(text.encode(errors="replace")) <= INPUT_MAX else json.dumps({OMITTED: "all arguments"})


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shortened(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[:longest]}... ({len(value)} characters)"
    if isinstance(value, dict):
        kept = list(value.items())[:longest]
        rest = {OMITTED: len(value) - longest} if len(value) > longest else {}
        return {_shortened(name, longest): _shortened(inner, longest) for name, inner in kept} | rest
    if isinstance(value, list):
        return [_shortened(inner, longest) for inner in value[:longest]] + [OMITTED] * (len(value) > longest)
    return value
