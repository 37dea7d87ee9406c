"""Calls that have begun outlive a server that is killed, also where their rows are not in the file of records yet."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_core import to_json

from toolbox_mcp.safety.redaction import MASK
from toolbox_mcp.server.config.load import Config
from toolbox_mcp.server.records import journal as module
from toolbox_mcp.server.records import store as record_file
from toolbox_mcp.server.records.journal import FULL, Begun, noted
from toolbox_mcp.server.records.recorder import Finished, RecordError, Records, Started, Status, new_call_id
from toolbox_mcp.server.records.rows import begun
from toolbox_mcp.server.records.server_id import Server

DONE = Finished(Status.SUCCESS, None, "done", None, 1.5)
DEAD = Server("another-boot:1", 7, 7, "dead")


def call(call_id: str = "", tool: str = "read_file", *, gated: bool = False, **arguments: Any) -> Started:
    who = (None, None, None, None, "s1", None)
    return Started(call_id or new_call_id(), *who, tool, arguments, False, None, datetime.now(UTC), gated)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "records.sqlite3"


@pytest.fixture
def records(path: Path) -> Iterator[Records]:
    records = Records.open(path)
    yield records
    records.close()


def rows(path: Path) -> list[tuple[str, str]]:
    """Return what the file itself says, oldest first."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT call_id, status FROM calls ORDER BY number").fetchall()


def lines(path: Path) -> list[str]:
    return [row["call_id"] for row in noted(path)]


def folder(path: Path) -> Path:
    return path.with_name(path.name + "-begun")


def file_of(path: Path) -> Path:
    [file] = folder(path).iterdir()
    return file


def row(call_id: str, **other: Any) -> dict[str, Any]:
    return json.loads(to_json(begun(call(call_id), 1))) | other


def left_by(path: Path, server: Server, *call_ids: str) -> Path:
    """Leave lines as a server does that was killed."""
    Records.open(path).close()
    left = Begun(path, server)
    assert all(left.add(begun(call(call_id), 1)) for call_id in call_ids)
    return next(file for file in folder(path).iterdir() if file.name.endswith(server.instance))


async def test_a_call_that_changes_nothing_is_noted_first_and_has_its_row_soon(records, path):
    with pytest.raises(StopIteration):
        records.start(call("c1")).__await__().send(None)
    assert (lines(path), rows(path)) == (["c1"], [])
    await asyncio.wrap_future(records.finish("c1", DONE))
    assert (lines(path), rows(path)) == ([], [("c1", "success")])


async def test_a_call_that_may_change_something_has_its_row_before_it_runs(records, path):
    await records.start(call("c1", gated=True))
    assert (lines(path), rows(path)) == ([], [("c1", "running")])


async def test_a_change_that_is_answered_at_once_is_noted_while_the_file_takes_rows(records, path):
    await records.start(call("c1", gated=True), at_once=True)
    assert (lines(path), rows(path)) == (["c1"], [])
    await asyncio.wrap_future(records.finish("c1", DONE))
    assert (lines(path), rows(path)) == ([], [("c1", "success")])


@pytest.mark.parametrize("moved", ["folder", "file"])
async def test_a_change_is_not_noted_where_nobody_would_look_for_its_line(records, path, tmp_path, moved):
    await records.start(call("c1"))
    await asyncio.wrap_future(records.finish("c1", DONE))
    (folder(path) if moved == "folder" else file_of(path)).rename(tmp_path / "elsewhere")
    await records.start(call("c2", gated=True), at_once=True)
    assert rows(path) == [("c1", "success"), ("c2", "running")]


@pytest.mark.parametrize("how", ["held", "gone", "not opened"])
async def test_a_change_is_not_noted_where_the_file_takes_no_rows(records, path, monkeypatch, how):
    monkeypatch.setattr(record_file, "BUSY", 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        if how == "held":
            other.execute("BEGIN IMMEDIATE")
            await records.start(call("c1", gated=True), at_once=True)
            await asyncio.wrap_future(records.finish("c1", DONE))
        elif how == "gone":
            path.unlink()
            path.mkdir()
        else:
            other.execute("BEGIN IMMEDIATE")
            await asyncio.to_thread(records.close)
            records = Records.open(path)
        with pytest.raises(RecordError):
            await records.start(call("c2", gated=True), at_once=True)
        assert lines(path) == (["c1"] if how == "held" else [])
        if how == "held":
            other.execute("ROLLBACK")
            await records.start(call("c3", gated=True), at_once=True)
            await asyncio.wrap_future(records.finish("c3", DONE))
            assert sorted(rows(path)) == [("c1", "success"), ("c3", "success")]
    if how == "not opened":
        await asyncio.to_thread(records.close)


async def test_a_call_that_goes_on_has_a_row_soon_and_its_end_later(records, path):
    await records.start(call("c1"))
    await records.start(call("c2"))
    await asyncio.wrap_future(records.finish("c2", DONE))
    assert (lines(path), rows(path)) == ([], [("c1", "running"), ("c2", "success")])
    await asyncio.wrap_future(records.finish("c1", DONE))
    assert rows(path) == [("c1", "success"), ("c2", "success")]


async def test_who_reads_in_the_server_sees_what_was_answered(records):
    await records.start(call("c1"))
    records.finish("c1", DONE)
    assert records.get("c1").status == "success"
    await records.start(call("c2"))
    assert [(each.call_id, each.status) for each in records.newest()] == [("c2", "running"), ("c1", "success")]


async def test_rows_are_in_the_order_of_their_calls(records, path):
    order = [call(f"c{n}", gated=n % 3 == 0) for n in range(30)]
    for each in order:
        await records.start(each)
        records.finish(each.call_id, DONE)
    await asyncio.wrap_future(records.finish("none", DONE))
    assert rows(path) == [(each.call_id, "success") for each in order]


WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from toolbox_mcp.server.records.recorder import Finished, Records, Started, Status, new_call_id

async def main():
    records = Records.open(Path(sys.argv[1]))
    async def calls(session):
        while True:
            call_id = new_call_id()
            await records.start(Started(call_id, None, None, None, None, session, None, "glob", {"pattern": "x" * 500},
                                        False, None, datetime.now(UTC), False))
            print("started", call_id, flush=True)
            await asyncio.sleep(0)
            ended = records.finish(call_id, Finished(Status.SUCCESS, None, "y" * 2000, None, 1.0))
            if session == "0":
                await asyncio.wrap_future(ended)
                print("finished", call_id, flush=True)
    await asyncio.gather(*(calls(str(n)) for n in range(4)))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_call_that_began_has_a_row_when_the_server_is_killed(path):
    acknowledged: dict[str, str] = {}
    for round_ in range(15):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        kept = [writer.stdout.readline() for _ in range(10 + 37 * round_)]
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
        writer.wait(30)
        writer.stdout.close()
        for line in [*kept, *rest.splitlines(keepends=True)]:
            if line.endswith("\n"):
                what, call_id = line.split()
                acknowledged[call_id] = what
    Records.open(path).close()
    found = dict(rows(path))
    assert len(acknowledged) > 15 * 20
    assert {call_id for call_id in acknowledged if call_id not in found} == set()
    assert {found[call_id] for call_id, what in acknowledged.items() if what == "finished"} == {"success"}
    assert {found[call_id] for call_id in acknowledged} <= {"success", "interrupted"}
    assert len(rows(path)) == len(found)
    assert not list(folder(path).iterdir())


def ask(server: subprocess.Popen[str], number: int, method: str, **params: Any) -> None:
    assert server.stdin
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    server.stdin.flush()


def test_the_log_shows_a_call_right_after_the_server_that_answered_it_was_killed(tmp_path):
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text("one\n")
    run = [sys.executable, "-P", "-m", "toolbox_mcp"]
    command = [*run, "--root", str(tmp_path / "project")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    ) as server:
        assert server.stdout
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        ask(server, 1, "initialize", **about)
        assert json.loads(server.stdout.readline())["id"] == 1
        ask(server, 2, "tools/call", name="read_file", arguments={"path": "a.txt"})
        answer = json.loads(server.stdout.readline())
        server.kill()
    shown = subprocess.run(
        [*run, "log", "--json"], check=True, capture_output=True, text=True, env=env, cwd=tmp_path / "project"
    )
    [found] = [json.loads(line) for line in shown.stdout.splitlines()]
    assert found["call_id"] == answer["result"]["_meta"]["call_id"]
    assert (found["tool"], found["input"]) == ("read_file", '{"path": "a.txt"}')
    assert found["status"] in ("running", "success")


def test_what_a_dead_server_left_is_taken_in_once_and_is_interrupted(path):
    file = left_by(path, DEAD, "c1", "c2")
    saved = file.read_bytes()
    with closing(sqlite3.connect(path)) as db:
        assert not db.execute("SELECT 1 FROM calls").fetchall()
    Records.open(path).close()
    assert rows(path) == [("c1", "interrupted"), ("c2", "interrupted")]
    assert not file.exists()
    # Another server that began at the same moment has read the same lines.
    file.write_bytes(saved)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE calls SET status = 'success' WHERE call_id = 'c2'")
        db.commit()
    Records.open(path).close()
    assert rows(path) == [("c1", "interrupted"), ("c2", "success")]


def test_the_rows_of_a_dead_server_say_all_that_was_known(path):
    left_by(path, DEAD, "c1")
    later = Records.open(path)
    found = vars(later.get("c1"))
    later.close()
    assert found == dict.fromkeys(found) | row("c1") | {
        "input": "{}",
        "started_at": found["started_at"],
        "status": "interrupted",
        "error_message": "the server ended before the call did",
    }


async def test_the_lines_of_a_living_server_are_its_own(records, path):
    await records.start(call("c1"))
    Records.open(path).close()
    assert (lines(path), rows(path)) == (["c1"], [])
    await asyncio.wrap_future(records.finish("c1", DONE))
    assert rows(path) == [("c1", "success")]


async def test_two_servers_have_a_file_each(records, path):
    other = Records.open(path)
    await records.start(call("c1"))
    await other.start(call("c2"))
    assert len(list(folder(path).iterdir())) == 2
    assert sorted(lines(path)) == ["c1", "c2"]
    other.close()
    assert (lines(path), rows(path)) == (["c1"], [("c2", "interrupted")])


def test_a_server_that_cannot_be_asked_is_dead_after_a_day_without_a_line(path):
    me = Server.this()
    if not me.start:
        pytest.skip("asks /proc")
    file = left_by(path, me.__class__(me.space + "9", 1, 1, "other"), "c1")
    Records.open(path).close()
    assert (lines(path), rows(path)) == (["c1"], [])
    os.utime(file, (0, file.stat().st_mtime - 25 * 3600))
    Records.open(path).close()
    assert (lines(path), rows(path)) == ([], [("c1", "interrupted")])


@pytest.mark.parametrize(
    "spoilt",
    [
        b'{"call_id": "c9", "tool"',
        b"\xff\x00 no text",
        b"[" * 100_000,
        b'["call_id"]',
        b"{}",
        json.dumps(row("c9", extra=1)).encode(),
        json.dumps(row("c9", session=["s"])).encode(),
        json.dumps(row("c9", iteration=2**70)).encode(),
        json.dumps(row("c9", iteration=True)).encode(),
        json.dumps(row("c9", status="success")).encode(),
        json.dumps(row("c9", started_at="yesterday")).encode(),
        json.dumps(row("c9", started_at="0001-01-01T00:00:00+23:59")).encode(),
        json.dumps(row("c9", input="text")).encode(),
        json.dumps(row("c9") | {"call_id": None}).encode(),
    ],
    ids=[
        "torn",
        "bytes",
        "deep",
        "list",
        "empty",
        "more",
        "list in it",
        "number",
        "truth",
        "status",
        "time",
        "year",
        "text",
        "no id",
    ],
)
def test_a_line_that_is_none_is_passed_over(path, spoilt):
    file = left_by(path, DEAD, "c1")
    with file.open("ab") as more:
        more.write(b"\n" + spoilt + b"\n" + json.dumps(row("c2")).encode() + b"\n" + spoilt)
    Records.open(path).close()
    assert rows(path) == [("c1", "interrupted"), ("c2", "interrupted")]


def test_lines_whose_rows_are_in_the_file_do_not_count(path):
    Records.open(path).close()
    left = Begun(path, DEAD)
    for call_id in ("c1", "c2"):
        assert left.add(begun(call(call_id), 1))
    left.settle(2)
    assert left.add(begun(call("c3"), 1))
    assert lines(path) == ["c3"]


async def test_the_lines_do_not_grow_with_the_calls(records, path):
    sizes = []
    for n in range(3000):
        await records.start(call(f"c{n}"))
        ended = records.finish(f"c{n}", DONE)
        await asyncio.sleep(0)
        if n % 100 == 0:
            await asyncio.wrap_future(ended)
            sizes.append(file_of(path).stat().st_size)
    await asyncio.wrap_future(ended)
    assert max(sizes) <= FULL
    assert (len(rows(path)), lines(path)) == (3000, [])


async def test_calls_above_what_is_noted_have_their_rows_at_once(records, path, monkeypatch):
    monkeypatch.setattr(module, "FULL", 600)
    for n in range(10):
        await records.start(call(f"c{n}"))
    assert len(rows(path)) > 5
    for n in range(10):
        ended = records.finish(f"c{n}", DONE)
    await asyncio.wrap_future(ended)
    assert rows(path) == [(f"c{n}", "success") for n in range(10)]


def test_the_lines_and_their_folder_are_the_users_alone(path):
    file = left_by(path, DEAD, "c1")
    assert [oct(place.stat().st_mode & 0o777) for place in (file, file.parent)] == ["0o600", "0o700"]


async def test_secrets_are_kept_in_no_line(records, path):
    secret = "ghp_" + "Zq9" * 12
    await records.start(call("c1", headers={"Authorization": "hunter2"}, query=f"find {secret}"))
    [kept] = noted(path)
    assert json.loads(kept["input"]) == {"headers": {"Authorization": MASK}, "query": f"find {MASK}"}
    raw = file_of(path).read_bytes()
    assert b"Zq9" not in raw
    assert b"hunter2" not in raw


def _a_file_in_the_way(path: Path) -> None:
    folder(path).write_text("")


def _a_link_in_the_way(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    elsewhere.mkdir()
    folder(path).symlink_to(elsewhere)


@pytest.mark.parametrize("spoil", [_a_file_in_the_way, _a_link_in_the_way])
async def test_where_nothing_can_be_noted_a_call_has_its_row_before_it_runs(records, path, spoil):
    spoil(path)
    await records.start(call("c1"))
    assert rows(path) == [("c1", "running")]
    assert not path.with_name("elsewhere").exists() or not list(path.with_name("elsewhere").iterdir())


async def test_what_is_no_unicode_is_not_noted_but_kept(records, path):
    await records.start(call("c1", query="\ud800"))
    assert rows(path) == [("c1", "running")]


def _deleted(file: Path) -> None:
    file.unlink()


def _folder_deleted(file: Path) -> None:
    file.unlink()
    file.parent.rmdir()


@pytest.mark.parametrize("lose", [_deleted, _folder_deleted])
async def test_lines_go_to_a_fresh_file_when_theirs_is_deleted(records, path, lose):
    await records.start(call("c1"))
    lose(file_of(path))
    await records.start(call("c2"))
    assert lines(path) == ["c2"]
    await asyncio.wrap_future(records.finish("c2", DONE))
    assert rows(path) == [("c1", "running"), ("c2", "success")]


async def test_lines_go_to_a_fresh_file_after_theirs_was_moved_away(records, path):
    await records.start(call("c1"))
    folder(path).rename(path.with_name("away"))
    await asyncio.wrap_future(records.finish("c1", DONE))
    await records.start(call("c2"))
    assert lines(path) == ["c2"]


@pytest.mark.parametrize("what", ["link", "fifo", "file"])
async def test_what_takes_the_place_of_the_lines_is_left_alone(records, path, what):
    await records.start(call("c1"))
    await asyncio.wrap_future(records.finish("c1", DONE))
    file, victim = file_of(path), path.with_name("victim")
    victim.write_text("mine")
    other = path.with_name("other")
    if what == "link":
        other.symlink_to(victim)
    elif what == "fifo":
        os.mkfifo(other)
    else:
        other.write_text("mine")
    other.replace(file)
    with anyio.fail_after(5):
        await records.start(call("c2"))
    assert rows(path) == [("c1", "success"), ("c2", "running")]
    records.close()
    assert victim.read_text() == "mine"
    assert file.is_symlink() or file.is_fifo() or file.read_text() == "mine"


@pytest.mark.parametrize("what", ["link", "fifo", "folder"])
def test_what_is_no_file_of_lines_is_not_taken_in(path, what, caplog):
    file = left_by(path, DEAD, "c1")
    victim = path.with_name("victim")
    file.rename(victim)
    if what == "link":
        file.symlink_to(victim)
    elif what == "fifo":
        os.mkfifo(file)
    else:
        file.mkdir()
    before = victim.read_bytes()
    Records.open(path).close()
    assert rows(path) == []
    assert victim.read_bytes() == before
    assert os.path.lexists(file)
    assert "calls that have begun cannot be read" in caplog.text


FULL_DISK = """
import asyncio, resource, sys
from datetime import UTC, datetime
from pathlib import Path
from toolbox_mcp.server.records.journal import noted
from toolbox_mcp.server.records.recorder import Finished, RecordError, Records, Started, Status

def call(call_id, gated=False):
    return Started(call_id, None, None, None, None, "s", None, "glob", {"pattern": "x" * 400}, False, None,
                   datetime.now(UTC), gated)

async def main():
    path = Path(sys.argv[1])
    records = Records.open(path)
    await records.start(call("before"))
    [file] = path.with_name(path.name + "-begun").iterdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 20, resource.RLIM_INFINITY))
    for call_id, gated in (("full", False), ("change", True)):
        try:
            await records.start(call(call_id, gated))
        except RecordError as e:
            print("refused:", call_id)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await records.start(call("after"))
    print(*(row["call_id"] for row in noted(path)))
    ended = [records.finish(name, Finished(Status.SUCCESS, None, "", None, 1.0)) for name in ("before", "full", "after")]
    await asyncio.wrap_future(ended[-1])
    print(*(f"{row.call_id} {row.status}" for row in reversed(records.newest())))
    records.close()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX")
def test_a_full_disk_spoils_no_other_line_and_heals(path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [
        "refused: full",
        "refused: change",
        "before after",
        "before success after success",
    ]


@pytest.fixture
def locked(path):
    """Hold the file as another server does that writes and does not end."""
    Records.open(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db


async def test_calls_that_change_nothing_wait_for_no_other_server(locked, path, monkeypatch):
    monkeypatch.setattr(record_file, "BUSY", 0)
    records = Records.open(path)
    monkeypatch.setattr(record_file, "BUSY", 600)
    ids = [f"c{n}" for n in range(50)]
    for call_id in ids:
        with pytest.raises(StopIteration):
            records.start(call(call_id)).__await__().send(None)
        records.finish(call_id, DONE)
    monkeypatch.setattr(record_file, "BUSY", 0)
    assert lines(path) == ids
    locked.execute("ROLLBACK")
    await records.start(call("c50"))
    await asyncio.wrap_future(records.finish("c50", DONE))
    assert rows(path) == [(call_id, "success") for call_id in [*ids, "c50"]]
    records.close()


async def test_rows_that_the_file_did_not_take_come_with_later_ones(records, path, monkeypatch):
    monkeypatch.setattr(record_file, "BUSY", 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await records.start(call("c1"))
        await asyncio.wrap_future(records.finish("c1", DONE))
        await records.start(call("c2"))
        await asyncio.wrap_future(records.finish("none", DONE))
        with pytest.raises(RecordError):
            await records.start(call("change", gated=True))
        assert lines(path) == ["c1", "c2"]
        other.execute("ROLLBACK")
    await asyncio.wrap_future(records.finish("c2", DONE))
    assert (lines(path), rows(path)) == ([], [("c1", "success"), ("c2", "success")])


async def test_what_another_server_kept_from_the_file_until_the_end_is_left_to_the_next(locked, path, monkeypatch):
    monkeypatch.setattr(record_file, "BUSY", 0)
    records = Records.open(path)
    await records.start(call("c1"))
    records.finish("c1", DONE)
    await asyncio.to_thread(records.close)
    assert lines(path) == ["c1"]
    with pytest.raises(RecordError):
        await records.start(call("c2"))


async def test_the_end_leaves_no_line_and_no_file(records, path):
    await records.start(call("c1"))
    await records.start(call("c2"))
    records.finish("c1", DONE)
    records.close()
    assert rows(path) == [("c1", "success"), ("c2", "interrupted")]
    assert not list(folder(path).iterdir())


def test_no_tool_writes_where_calls_are_noted(user):
    config: Config = user.load()
    assert folder(config.records_file) in config.own_files
