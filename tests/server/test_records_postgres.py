"""Records in a PostgreSQL that the tests start: what several servers share, and what happens when it goes away."""

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from tests import postgres
from toolbox_mcp.server.commands.config import show
from toolbox_mcp.server.commands.log import Wanted, print_log
from toolbox_mcp.server.config.errors import ConfigError
from toolbox_mcp.server.records.places import Place, readable, writable
from toolbox_mcp.server.records.recorder import CallRecord, Finished, RecordError, Records, Started, Status
from toolbox_mcp.server.records.server_id import Server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("postgres")]

BEGAN = datetime(2026, 11, 21, 4, 43, 58, 123000, tzinfo=UTC)
DONE = Finished(Status.SUCCESS, None, "done", None, 1.5, 12)


@pytest.fixture(scope="module")
def cluster() -> Iterator[postgres.Cluster]:
    found = postgres.programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres.running(found) as cluster:
        yield cluster


@pytest.fixture
def url(cluster: postgres.Cluster) -> str:
    return cluster.database()


def call(call_id: str, **other: Any) -> Started:
    started = Started(
        call_id, None, None, None, None, "s1", None, "bash", {}, unsafe=False, approved_by=None, started_at=BEGAN
    )
    return started._replace(**other)


def rows(place: Place) -> list[CallRecord]:
    with closing(readable(place)) as store:
        return store.newest(1000)


async def test_the_same_calls_give_the_same_rows_as_in_a_file(url: str, tmp_path: Path) -> None:
    ends = {
        "c1": replace_output(DONE, "é😀 \udc80 text"),
        "c2": Finished(Status.ERROR, "not_a_file", "x" * 20_000, "no file at a", 0.123456789),
        "c3": None,
        "c4": replace_output(DONE, "y" * 100),
    }
    kept = []
    for place in (url, tmp_path / "records.sqlite3"):
        records = Records.open(place, result_max_length=200, root=tmp_path)
        try:
            await records.start(call("c1", unsafe=True, approved_by="person", tenant_id="t", agent="a", principal="p"))
            for name, finished in ends.items():
                if name != "c1":
                    await records.start(call(name, tool="glob", input={"pattern": "*", "password": "x"}))
                if finished is not None:
                    await records.finish(call(name, tool="glob"), finished, is_begun=True)
            await records.finish(call("c5", session="s2"), DONE, is_begun=False)
            asked = [records.newest(2), records.newest(tool="glob", status="error"), records.newest(after="c3")]
            asked += [[records.get("c5")], [records.get("c5", session="s1")], [records.get("none")]]
        finally:
            records.close()
        found = [[each and replace(each, completed_at=None) for each in answer] for answer in asked]
        kept.append((found, [replace(row, completed_at=None) for row in rows(place)]))
    in_database, in_file = kept
    assert in_database == in_file
    assert [row.status for row in in_database[1]] == ["success", "success", "interrupted", "error", "success"]


def replace_output(finished: Finished, output: str) -> Finished:
    return finished._replace(output=output)


async def test_a_text_may_hold_a_nul(url: str) -> None:
    records = Records.open(url)
    await records.finish(call("c1"), replace_output(DONE, "a\0b"), is_begun=False)
    records.close()
    assert [row.output for row in rows(url)] == ["a\ufffdb"]


async def test_a_row_that_is_written_again_is_there_once(url: str) -> None:
    records = Records.open(url)
    for _ in range(2):
        await records.start(call("c1"))
        await records.finish(call("c1"), DONE, is_begun=True)
    records.close()
    assert [row.status for row in rows(url)] == ["success"]


async def test_old_rows_go_and_running_calls_stay(url: str) -> None:
    with closing(writable(url)) as store:
        me = Server.this()
        now = datetime.now(UTC)
        long_ago = (now - timedelta(days=40)).isoformat()
        row = {"tool": "glob", "iteration": 1, "input": "{}", "unsafe": False, "started_at": now.isoformat()}
        for number in range(20):
            begun = long_ago if number < 4 else now.isoformat()
            status = "running" if number == 0 else "success"
            store.insert(row | {"call_id": f"{number:02}", "status": status, "started_at": begun}, me)
        store.rotate(max_rows=1000, max_days=30)
        by_age = [record.call_id for record in store.newest(100)]
        store.rotate(max_rows=10, max_days=30)
        by_count = [record.call_id for record in store.newest(100)]
        for number in range(20, 60):
            big = {"call_id": f"{number:02}", "status": "success", "output": os.urandom(20_000).hex()}
            store.insert(row | big, me)
        store.rotate(max_rows=1000, max_days=30, max_bytes=1_000_000)
        by_bytes = [record.call_id for record in store.newest(100)]
    assert by_age == [*(f"{number:02}" for number in range(19, 3, -1)), "00"]
    assert by_count == [*(f"{number:02}" for number in range(19, 9, -1)), "00"]
    assert by_bytes[0] == "59" and by_bytes[-1] == "00" and 2 < len(by_bytes) < 51


BEGIN_AND_WAIT = """
import asyncio, sys
sys.path[:0] = {path!r}
from tests.server.test_records_postgres import Records, call
async def main():
    records = Records.open({url!r})
    await records.start(call({name!r}))
    print("begun", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


async def test_calls_of_a_server_that_was_killed_are_interrupted_and_those_of_one_that_lives_are_not(url: str) -> None:
    servers = {}
    for name in ("killed", "alive"):
        program = BEGIN_AND_WAIT.format(path=sys.path, url=url, name=name)
        servers[name] = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
    try:
        for server in servers.values():
            assert server.stdout and server.stdout.readline() == b"begun\n"
        servers["killed"].kill()
        servers["killed"].wait()
        records = Records.open(url)
        await records.start(call("own"))
        found = {row.call_id: row.status for row in records.newest()}
        records.close()
        assert found == {"killed": "interrupted", "alive": "running", "own": "running"}
        assert {row.call_id: row.status for row in rows(url)} == found | {"own": "interrupted"}
    finally:
        for server in servers.values():
            server.kill()
            server.communicate()


async def test_a_lost_connection_is_made_again_and_loses_no_row(url: str) -> None:
    records = Records.open(url)
    await records.start(call("c1"))
    cut_connections(url)
    await records.finish(call("c1"), DONE, is_begun=True)
    await records.start(call("c2"))
    cut_connections(url)
    other = Records.open(url)
    await records.start(call("c3"))
    third = Records.open(url)
    # The lock that shows that a server lives is taken again with the connection.
    assert {row.call_id: row.status for row in third.newest()}["c3"] == "running"
    for each in (records, other, third):
        each.close()
    assert [row.call_id for row in rows(url)] == ["c3", "c2", "c1"]


def cut_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        cut = db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'toolbox-mcp' AND datname = current_database()"
        ).fetchall()
    assert cut


async def test_a_call_that_cannot_be_recorded_is_refused_until_the_database_is_back(
    cluster: postgres.Cluster, url: str
) -> None:
    records = Records.open(url)
    await records.start(call("c1"))
    cluster.stop()
    try:
        with pytest.raises(RecordError):
            await records.start(call("c2"))
        late = Records.open(url)
        with pytest.raises(RecordError, match="cannot be reached"):
            await late.start(call("c3"))
    finally:
        cluster.start()
    await records.start(call("c4"))
    await late.start(call("c5"))
    records.close()
    late.close()
    # The end of c1 is told by the server that began it.
    assert {row.call_id: row.status for row in rows(url)} == dict.fromkeys(("c5", "c4", "c1"), "interrupted")


async def test_a_database_that_lets_it_wait_stops_no_other_work(url: str) -> None:
    records = Records.open(url)
    with psycopg.connect(url) as db:
        db.execute("LOCK TABLE toolbox_mcp.calls")
        write = asyncio.create_task(records.start(call("c1")))
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
            await anyio.to_thread.run_sync(lambda: None)
        assert not write.done()
        db.rollback()
        with anyio.fail_after(10):
            await write
    records.close()


def test_of_servers_that_start_together_one_makes_the_table(url: str) -> None:
    stores: list[Any] = []
    threads = [threading.Thread(target=lambda: stores.append(writable(url))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 8
    for store in stores:
        store.close()


def test_a_role_that_may_only_use_the_table_is_enough(cluster: postgres.Cluster, url: str) -> None:
    writable(url).close()
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE ROLE clerk LOGIN PASSWORD 'clerk'")
        db.execute("GRANT USAGE ON SCHEMA toolbox_mcp TO clerk")
        db.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON toolbox_mcp.calls TO clerk")
    with closing(writable(cluster.url(name, "clerk", "clerk"))) as store:
        row = {"call_id": "c1", "tool": "glob", "iteration": 1, "status": "success", "input": "{}", "unsafe": False}
        store.insert(row | {"started_at": "2026"}, Server.this())
    assert [row.call_id for row in rows(url)] == ["c1"]


def test_a_reader_cannot_write_and_makes_nothing(url: str) -> None:
    with pytest.raises(RecordError, match="holds no records"):
        readable(url)
    writable(url).close()
    with closing(readable(url)) as store, pytest.raises(RecordError, match="read-only"):
        store.rotate(1, 1)


def test_the_password_is_in_no_message(cluster: postgres.Cluster, user: Any) -> None:
    wrong = cluster.url("postgres", password="hunter2hunter2")
    bad = "postgresql://toolbox:hunter2hunter2@127.0.0.1:x%zz/db"
    away = "postgresql://toolbox:hunter2hunter2@127.0.0.1:1/db"
    for address in (wrong, bad, away):
        with pytest.raises(RecordError) as refused:
            writable(address)
        assert "hunter2" not in str(refused.value)
        config = user.load(env={"TOOLBOX_RECORDS_URL": address})
        assert "hunter2" not in show(config, as_json=False) + show(config, as_json=True)
        with pytest.raises(ConfigError) as unread:
            print_log(config, Wanted(), io.StringIO())
        assert "hunter2" not in str(unread.value) and str(unread.value).startswith("records_url: ")


async def test_log_prints_the_rows_of_every_server(user: Any, url: str) -> None:
    for number in range(2):
        records = Records.open(url, max_days=36500, root=user.project)
        await records.finish(call(f"c{number}", started_at=BEGAN), DONE, is_begun=False)
        records.close()
    out = io.StringIO()
    assert print_log(user.load(env={"TOOLBOX_RECORDS_URL": url}), Wanted(as_json=True), out) == 0
    assert [f'"call_id": "c{number}"' in line for number, line in zip((1, 0), out.getvalue().splitlines(), strict=True)]
