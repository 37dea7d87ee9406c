"""log shows what the records hold."""

import io
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import pytest

from toolbox_mcp.server.commands.log import Wanted, print_log
from toolbox_mcp.server.config.errors import ConfigError
from toolbox_mcp.server.records.recorder import Finished, Records, Started, Status

START = datetime(2026, 11, 21, 4, 43, 58, tzinfo=UTC)


class Enough(Exception):
    pass


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


async def test_times_are_local(user, records, monkeypatch):
    monkeypatch.setenv("TZ", "UTC-03:30")
    time.tzset()
    await call(records, "1")
    (line,) = printed(user)
    assert line.split()[:2] == ["2026-11-21", "08:13:59"]


@pytest.fixture
async def records(user) -> Any:
    made = Records.open(
        user.load().records_file, max_rows=100, max_days=36500, result_max_length=100, root=user.project
    )
    yield made
    made.close()


def started(call_id: str, tool: str = "read_file", **arguments: Any) -> Started:
    return Started(
        call_id=call_id,
        execution_id=None,
        tenant_id=None,
        agent=None,
        client=None,
        session="s",
        principal=None,
        tool=tool,
        input=arguments,
        unsafe=False,
        approved_by=None,
        started_at=START + timedelta(seconds=int(call_id)),
    )


async def begin(records: Records, call_id: str, tool: str = "read_file", **arguments: Any) -> None:
    await records.start(started(call_id, tool, **arguments))


async def end(records: Records, call_id: str, status: Status = Status.SUCCESS, error: str | None = None) -> None:
    code = "not_a_file" if error else None
    finished = Finished(status=status, code=code, output="text", error_message=error, duration_ms=12.4)
    await records.finish(started(call_id), finished, is_begun=True)


async def call(records: Records, call_id: str, tool: str = "read_file", error: str | None = None, **given: Any) -> None:
    await begin(records, call_id, tool, **given)
    await end(records, call_id, Status.ERROR if error else Status.SUCCESS, error)


def printed(user, **wanted: Any) -> list[str]:
    out = io.StringIO()
    assert print_log(user.load(), Wanted(**wanted), out) == 0
    return out.getvalue().splitlines()


async def test_the_newest_call_is_first(user, records):
    await call(records, "1", path="a.txt")
    await call(records, "2", "glob", pattern="*")
    await begin(records, "3", "bash", command="ls")
    running, globbed, read = printed(user)
    assert read.split() == [
        "2026-11-21",
        "04:43:59",
        "project",
        "read_file",
        "success",
        "12",
        "ms",
        '{"path":',
        '"a.txt"}',
    ]
    assert globbed.split()[3:5] == ["glob", "success"]
    assert running.split()[3:5] == ["bash", "running"]


async def test_an_error_is_shown_with_its_code(user, records):
    await call(records, "1", error="no file at nope")
    (line,) = printed(user)
    assert line.split()[4:6] == ["error", "not_a_file"]
    assert line.endswith("no file at nope")


async def test_records_are_filtered_and_limited(user, records):
    await call(records, "1", "glob")
    await call(records, "2", "read_file", error="no")
    await call(records, "3", "read_file")
    assert [line.split()[3] for line in printed(user, limit=2)] == ["read_file", "read_file"]
    assert [line.split()[3] for line in printed(user, tool="glob")] == ["glob"]
    assert [line.split()[4] for line in printed(user, status="error")] == ["error"]


async def test_json_is_one_object_a_line(user, records):
    await call(records, "1", path="a.txt")
    (line,) = printed(user, as_json=True)
    row = json.loads(line)
    assert (row["call_id"], row["tool"], row["status"]) == ("1", "read_file", "success")
    assert json.loads(row["input"]) == {"path": "a.txt"}


async def test_a_line_stays_one_line_whatever_the_call_held(user, records):
    await call(records, "1", error="a\nb\x1b[31mred\u202e" + "x" * 500)
    (line,) = printed(user)
    assert line.isprintable()
    assert len(line) < 200


async def follow(user, *steps: Callable[[], Awaitable[None]], **wanted: Any) -> list[str]:
    """Return what is printed when one step happens between each two looks."""
    out = io.StringIO()
    left = iter(steps)

    def wait() -> None:
        step = next(left, None)
        if step is None:
            raise Enough
        anyio.from_thread.run(step)

    with pytest.raises(Enough):
        await anyio.to_thread.run_sync(
            lambda: print_log(user.load(), Wanted(**wanted), out, follow=True, wait=wait), abandon_on_cancel=True
        )
    return out.getvalue().splitlines()


async def test_following_shows_what_was_and_each_call_as_it_ends(user, records):
    await call(records, "1", "glob")
    await begin(records, "2", "bash")
    lines = await follow(
        user,
        partial(call, records, "3", "tree"),
        partial(end, records, "2"),
        partial(begin, records, "4", "diff"),
    )
    assert [tuple(line.split()[3:5]) for line in lines] == [
        ("glob", "success"),
        ("bash", "running"),
        ("tree", "success"),
        ("bash", "success"),
    ]


async def test_following_keeps_to_the_filters(user, records):
    lines = await follow(
        user,
        partial(call, records, "1", "tree"),
        partial(call, records, "2", "glob"),
        partial(call, records, "3", "glob", error="no"),
        tool="glob",
        status="error",
    )
    assert [tuple(line.split()[3:5]) for line in lines] == [("glob", "error")]


@pytest.mark.parametrize(("status", "part"), [("sucess", "did you mean success?"), ("x", "running, success, error")])
def test_a_status_that_does_not_exist_is_refused(user, status, part):
    with pytest.raises(ConfigError) as refused:
        print_log(user.load(), Wanted(status=status), io.StringIO())
    assert part in str(refused.value)


def test_without_records_there_is_one_line_that_says_so(user):
    with pytest.raises(ConfigError, match="no records at"):
        print_log(user.load(), Wanted(), io.StringIO())
    with pytest.raises(ConfigError, match="records: false"):
        print_log(user.load(["--set", "records=no"]), Wanted(), io.StringIO())


def test_a_file_that_holds_no_records_is_refused(user):
    file = user.file("r.db", "not a database, but long enough to look at it as one " * 40)
    with pytest.raises(ConfigError) as refused:
        print_log(user.load(["--set", f"records_file={file}"]), Wanted(), io.StringIO())
    assert str(file) in str(refused.value)


async def test_calls_are_chosen_by_who_made_them_and_summed_up_by_tool(user, records):
    for number, (tool, agent, error) in enumerate(
        [("glob", "a", None), ("glob", "a", "no"), ("glob", "b", None), ("bash", "a", None)], 1
    ):
        row = started(str(number), tool)._replace(agent=agent, tenant_id="t", execution_id=f"e{number}", principal="p")
        await records.start(row)
        status = Status.ERROR if error else Status.SUCCESS
        finished = Finished(
            status=status, code=None, output="text", error_message=error, duration_ms=10.0 * number, tokens=5
        )
        await records.finish(row, finished, is_begun=True)
    assert len(printed(user, agent="a")) == 3
    assert len(printed(user, tenant="t", principal="p", execution="e2")) == 1
    assert printed(user, tenant="nobody") == []
    head, *rows = [line.split() for line in printed(user, summary=True)]
    assert head[:3] == ["TOOL", "CALLS", "ERRORS"]
    assert rows == [["glob", "3", "1", "20", "30", "15"], ["bash", "1", "0", "40", "40", "5"]]
    (only,) = printed(user, summary=True, agent="b", as_json=True)
    assert json.loads(only) == {"tool": "glob", "calls": 1, "errors": 0, "p50_ms": 30, "p95_ms": 30, "tokens": 5}
