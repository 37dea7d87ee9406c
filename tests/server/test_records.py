import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from toolbox_mcp.safety.redaction import MASK
from toolbox_mcp.server.records import store as record_file
from toolbox_mcp.server.records.recorder import Finished, RecordError, Records, Started, Status, new_call_id
from toolbox_mcp.server.records.server_id import Server
from toolbox_mcp.server.records.store import RecordStore

BEGAN = datetime(2026, 11, 21, 4, 43, 58, 123000, tzinfo=UTC)
DONE = Finished(Status.SUCCESS, None, "done", None, 1.5)


def call(call_id: str = "", tool: str = "bash", session: str | None = "s1", **other: Any) -> Started:
    started = Started(
        call_id=call_id or new_call_id(),
        execution_id=None,
        tenant_id=None,
        agent=None,
        client=None,
        session=session,
        principal=None,
        tool=tool,
        input={},
        unsafe=False,
        approved_by=None,
        started_at=datetime.now(UTC),
    )
    return started._replace(**other)


async def end(records: Records, call_id: str, finished: Finished) -> None:
    """Complete the row of a call that began."""
    await records.finish(call(call_id), finished, is_begun=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "deep" / "records.sqlite3"


@pytest.fixture
def records(path: Path) -> Iterator[Records]:
    records = Records.open(path)
    yield records
    records.close()


async def test_a_row_is_there_before_the_call_and_complete_after_it(records):
    await records.start(
        call(
            "c1",
            execution_id="e1",
            tenant_id="t1",
            agent="a1",
            client="claude 1.0",
            principal="p1",
            input={"command": "ls", "args": ["-l"]},
            unsafe=True,
            approved_by="person",
            started_at=BEGAN,
        )
    )
    begun = records.get("c1")
    assert vars(begun) == {
        "call_id": "c1",
        "execution_id": "e1",
        "tenant_id": "t1",
        "agent": "a1",
        "client": "claude 1.0",
        "session": "s1",
        "principal": "p1",
        "tool": "bash",
        "iteration": 1,
        "status": "running",
        "code": None,
        "input": '{"command": "ls", "args": ["-l"]}',
        "output": None,
        "output_bytes": None,
        "tokens": None,
        "error_message": None,
        "unsafe": True,
        "approved_by": "person",
        "started_at": "2026-11-21T04:43:58.123Z",
        "completed_at": None,
        "duration_ms": None,
        "root": None,
    }
    await end(records, "c1", Finished(Status.ERROR, "not_found", "no such entry", "nothing there", 2.25, tokens=4))
    ended = records.get("c1")
    assert ended == replace(
        begun,
        status="error",
        code="not_found",
        output="no such entry",
        output_bytes=13,
        tokens=4,
        error_message="nothing there",
        completed_at=ended.completed_at,
        duration_ms=2.25,
    )
    assert datetime.fromisoformat(ended.completed_at) > BEGAN


@pytest.mark.parametrize(
    ("output", "kept", "size"),
    [
        ("", "", 0),
        ("x" * 10_000, "x" * 10_000, 10_000),
        ("x" * 10_001, "x" * 10_000 + "... (truncated)", 10_001),
        ("é" * 10_001, "é" * 10_000 + "... (truncated)", 20_002),
        ("a\x00b\ud800", "a\x00b?", 4),
    ],
    ids=["empty", "longest", "too long", "two bytes", "no text"],
)
async def test_output_is_kept_up_to_its_length_and_measured_whole(records, output, kept, size):
    await records.start(call("c1"))
    await end(records, "c1", DONE._replace(output=output))
    found = records.get("c1")
    assert (found.output, found.output_bytes) == (kept, size)


async def test_calls_are_counted_by_tool_and_session(records):
    order = [
        ("bash", "s1"),
        ("bash", "s1"),
        ("shell", "s1"),
        ("bash", "s2"),
        ("bash", None),
        ("bash", "s1"),
        ("bash", None),
    ]
    for tool, session in order:
        await records.start(call(tool=tool, session=session))
    found = [(row.tool, row.session, row.iteration) for row in reversed(records.newest())]
    counts = [1, 2, 1, 1, 1, 3, 2]
    assert found == [(tool, session, count) for (tool, session), count in zip(order, counts, strict=True)]


async def test_newest_filters_by_what_is_given(records):
    ids = [new_call_id() for _ in range(6)]
    for n, call_id in enumerate(ids):
        await records.start(call(call_id, tool=("bash", "shell")[n % 2], session=f"s{n // 3}"))
    await end(records, ids[0], DONE)
    assert [row.call_id for row in records.newest()] == ids[::-1]
    assert [row.call_id for row in records.newest(2)] == [ids[5], ids[4]]
    assert [row.call_id for row in records.newest(tool="shell")] == [ids[5], ids[3], ids[1]]
    assert [row.call_id for row in records.newest(status="success")] == [ids[0]]
    assert [row.call_id for row in records.newest(session="s0", tool="bash")] == [ids[2], ids[0]]
    assert [row.call_id for row in records.newest(after=ids[3])] == [ids[5], ids[4]]


async def test_the_record_of_another_session_is_not_found(records):
    await records.start(call("c1", session="s1"))
    assert records.get("c1", session="s1") == records.get("c1") is not None
    assert (records.get("c1", session="s2"), records.get("c2")) == (None, None)


async def test_secrets_are_kept_neither_in_arguments_nor_in_output_nor_in_errors(records, path):
    secret = "ghp_" + "Zq9" * 12
    await records.start(call("c1", input={"env": {"API_TOKEN": "hunter2"}, "args": ["--password", "hunter2", secret]}))
    await end(records, "c1", Finished(Status.ERROR, "x", f"{'o' * 9990} {secret} {'o' * 50}", f"bad {secret}", 1))
    found = records.get("c1")
    assert json.loads(found.input) == {"env": {"API_TOKEN": MASK}, "args": ["--password", MASK, MASK]}
    assert found.error_message == f"bad {MASK}"
    records.close()
    raw = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"Zq9" not in raw
    assert b"hunter2" not in raw


@pytest.mark.parametrize(
    "arguments",
    [
        {"content": "x" * 20_000_000, "path": "a.txt"},
        {"content": "é" * 5000, "path": "a.txt"},
        {"edits": [{"old_string": "x" * 500, "new_string": "\U0001f600" * 500}] * 500},
        {"rows": [["cell"] * 50] * 5000},
        {"n" * 9000: 1, "m" * 9000: {"x": 1}},
        {f"name{n}": n for n in range(100_000)},
        {"odd": {1, 2}, "when": BEGAN, "lone": "\ud800" * 9000},
        {"deep": json.loads("[" * 900 + "]" * 900)},
    ],
    ids=["long text", "wide text", "many edits", "many rows", "long names", "many names", "not JSON", "deep"],
)
async def test_arguments_of_any_size_are_kept_as_json_of_8_kib(records, arguments):
    await records.start(call("c1", input=arguments))
    kept = records.get("c1").input
    assert len(kept.encode()) <= 8192
    assert isinstance(json.loads(kept), dict)
    if "path" in arguments:
        assert json.loads(kept)["path"] == "a.txt"


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_the_file_and_its_folders_are_the_users_alone(records, path, tmp_path):
    assert [oct(folder.stat().st_mode & 0o777) for folder in (path.parent, path.parent.parent)] == ["0o700"] * 2
    assert {oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()} == {"0o600"}
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_file_that_others_could_read_is_closed_to_them(path):
    path.parent.mkdir(parents=True)
    path.touch(0o644)
    Records.open(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_ids_have_26_characters_and_sort_as_they_were_made():
    ids = [new_call_id() for _ in range(10_000)]
    assert {len(call_id) for call_id in ids} == {26}
    assert len(set(ids)) == len(ids)
    sampled = ids[::100]
    assert sampled == sorted(sampled)


async def test_rows_beyond_the_newest_are_deleted_but_running_ones_stay(path):
    records = Records.open(path, max_rows=10)
    await records.start(call("running"))
    for n in range(40):
        await records.start(call(f"c{n}"))
        await end(records, f"c{n}", DONE)
    assert [row.call_id for row in records.newest()] == [*(f"c{n}" for n in range(39, 29, -1)), "running"]
    records.close()


async def test_rows_that_are_too_old_are_deleted_when_the_file_is_opened(path, records):
    for call_id, days in (("old", 31), ("older", 300), ("young", 29), ("running", 31)):
        await records.start(call(call_id, started_at=datetime.now(UTC) - timedelta(days=days)))
        if call_id != "running":
            await end(records, call_id, DONE)
    later = Records.open(path, max_days=30)
    assert {row.call_id for row in later.newest()} == {"young", "running"}
    later.close()


async def test_calls_that_a_closed_server_left_running_are_interrupted(path):
    first = Records.open(path)
    await first.start(call("left"))
    await first.start(call("done"))
    await end(first, "done", DONE)
    first.close()
    second = Records.open(path)
    assert {row.call_id: row.status for row in second.newest()} == {"left": "interrupted", "done": "success"}
    second.close()


async def test_calls_of_a_living_server_stay_running(records, path):
    await records.start(call("ours"))
    program = f"""
import asyncio
from pathlib import Path
from toolbox_mcp.server.records.recorder import Records
Records.open(Path({str(path)!r})).close()
"""
    await to_thread.run_sync(lambda: subprocess.run([sys.executable, "-c", program], check=True, timeout=60))
    same_process = Records.open(path)
    same_process.close()
    assert records.get("ours").status == "running"


ME = Server.this()


@pytest.mark.skipif(not ME.start, reason="asks /proc")
@pytest.mark.parametrize(
    ("server", "lives"),
    [
        (ME, True),
        (replace(ME, instance="other"), True),
        (replace(ME, start=ME.start + 1), False),  # the pid is another process's by then
        (replace(ME, pid=2**22 + 1), False),
        (replace(ME, space="another-boot:1"), False),
        (replace(ME, space=ME.space + "9"), None),  # another pid namespace of this boot
        (Server.parse("nonsense"), False),
        (Server.parse("a/b/c/d"), False),
        (Server.parse(str(ME)), True),
    ],
)
def test_a_server_lives_when_its_pid_is_still_the_same_process(server, lives):
    assert server.is_alive(ME) is lives


async def test_calls_of_a_server_that_cannot_be_asked_are_interrupted_after_a_day(path, records):
    file = RecordStore.writable(path)
    for call_id, hours in (("today", 23), ("yesterday", 25)):
        await records.start(call(call_id, started_at=datetime.now(UTC) - timedelta(hours=hours)))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE calls SET server = ?", (str(replace(ME, space=ME.space + "9")),))
    db.close()
    file.interrupt_dead(ME)
    assert {row.call_id: row.status for row in records.newest()} == {"today": "running", "yesterday": "interrupted"}
    file.close()


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
            started = Started(call_id, None, None, None, None, session, None, "bash", {"command": "x" * 500},
                              False, None, datetime.now(UTC))
            await records.start(started)
            print("started", call_id, flush=True)
            done = Finished(Status.SUCCESS, None, "y" * 2000, None, 1.0)
            await records.finish(started, done, is_begun=True)
            print("finished", call_id, flush=True)
            read = new_call_id()
            await records.finish(started._replace(call_id=read, tool="read_file"), done, is_begun=False)
            print("finished", read, flush=True)
    await asyncio.gather(*(calls(str(n)) for n in range(4)))

asyncio.run(main())
"""


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(path):
    acknowledged: dict[str, str] = {}
    for round_ in range(25):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(40 + 7 * round_)]
        writer.send_signal(signal.SIGKILL)
        # communicate() would pass over what readline() has read ahead.
        lines += writer.stdout.readlines()
        writer.stdout.close()
        assert writer.wait(timeout=30) == -signal.SIGKILL
        # A line without its end was cut off by the kill.
        for line in lines:
            if line.endswith("\n"):
                what, call_id = line.split()
                acknowledged[call_id] = what
    file = RecordStore.writable(path)
    file.interrupt_dead(ME)
    kept = {row.call_id: row.status for row in file.newest(1_000_000)}
    file.close()
    assert len(acknowledged) > 25 * 20
    assert {call_id for call_id in acknowledged if call_id not in kept} == set()
    finished = {kept[call_id] for call_id, what in acknowledged.items() if what == "finished"}
    assert finished == {"success"}
    assert set(kept.values()) == {"success", "interrupted"}
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


FULL = """
import asyncio, logging, resource, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from toolbox_mcp.server.records.recorder import Finished, RecordError, Records, Started, Status, new_call_id

def call():
    return Started(new_call_id(), None, None, None, None, "s", None, "bash", {"command": "x" * 4000}, False, None, datetime.now(UTC))

async def main():
    records = Records.open(Path(sys.argv[1]))
    before = call()
    await records.start(before)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))
    for n in range(1000):
        try:
            await records.start(call())
        except RecordError as e:
            print("refused:", e)
            break
    try:
        await records.finish(before, Finished(Status.SUCCESS, None, "y" * 10000, None, 1.0), is_begun=True)
    except RecordError as e:
        print("not completed:", e)
    print("read:", len(records.newest(1)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    last = call()
    await records.start(last)
    print("again:", records.get(last.call_id).status)
    records.close()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX")
def test_a_full_disk_refuses_a_row_but_not_its_end_nor_reads_and_heals(path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    refused, incomplete, read, again = done.stdout.splitlines()
    assert refused.startswith("refused: the record cannot be written (")
    assert incomplete.startswith("not completed: the record cannot be written (")
    assert (read, again) == ("read: 1", "again: running")
    assert "Traceback" not in done.stderr


async def test_a_file_that_cannot_be_made_is_tried_again_at_each_call(tmp_path, caplog):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder is needed")
    records = Records.open(blocked / "records.sqlite3")
    assert "tools that write or execute are refused" in caplog.text
    with pytest.raises(RecordError, match="cannot be made"):
        await records.start(call())
    with pytest.raises(RecordError, match="cannot be made"):
        await end(records, "c1", DONE)
    with pytest.raises(RecordError):
        records.newest()
    blocked.unlink()
    await records.start(call("c1"))
    assert records.get("c1").status == "running"
    records.close()


def _sides(path: Path) -> list[Path]:
    return [path.with_name(path.name + side) for side in ("-wal", "-shm")]


def _deleted(path: Path) -> None:
    for file in (path, *_sides(path)):
        file.unlink()


def _deleted_alone(path: Path) -> None:
    path.unlink()


def _folder_deleted(path: Path) -> None:
    shutil.rmtree(path.parent)


def _moved_away(path: Path) -> None:
    path.rename(path.with_name("old.sqlite3"))


def _replaced(path: Path) -> None:
    other = path.with_name("other.sqlite3")
    Records.open(other).close()
    other.replace(path)


LOSSES = [_deleted, _deleted_alone, _folder_deleted, _moved_away, _replaced]


def ids(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in db.execute("SELECT call_id FROM calls ORDER BY number")]


@pytest.mark.parametrize("lose", LOSSES)
async def test_rows_go_to_a_fresh_file_when_theirs_is_deleted_or_replaced(records, path, caplog, lose):
    await records.start(call("c1"))
    assert records.get("c1")
    lose(path)
    await records.start(call("c2"))
    await records.start(call("c3"))
    await end(records, "c2", DONE)
    assert ids(path) == ["c2", "c3"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [record.message for record in caplog.records] == [
        f"the file of the records was deleted or replaced; further records go to {path.name}"
    ]
    assert [(row.call_id, row.status) for row in records.newest()] == [("c3", "running"), ("c2", "success")]
    records.close()
    assert ids(path) == ["c2", "c3"]


@pytest.mark.parametrize("lose", LOSSES)
async def test_servers_that_lose_a_file_meet_in_the_fresh_one(path, lose):
    servers = [Records.open(path) for _ in range(3)]
    for number, server in enumerate(servers):
        await server.start(call(f"a{number}"))
    lose(path)
    for _ in range(2):
        for server in servers:
            await server.start(call())
    servers.append(Records.open(path))
    await servers[-1].start(call())
    # One that ends takes nothing from the others.
    servers.pop(0).close()
    for server in servers:
        await server.start(call())
    assert len(ids(path)) == 10
    for server in servers:
        server.close()
    assert len(ids(path)) == 10


@pytest.fixture
def stopped(path):
    """Return another server that was stopped while it wrote."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    for _ in range(40):
        writer.stdout.readline()
    writer.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, writer.pid, os.WSTOPPED)
    yield writer
    writer.kill()
    writer.communicate()


# Beside one in its place a server that starts cannot know the old log for what it is.
@pytest.mark.parametrize("lose", [lose for lose in LOSSES if lose is not _replaced])
async def test_a_server_that_still_has_the_lost_file_does_not_harm_the_fresh_one(path, stopped, lose):
    lose(path)
    records = Records.open(path)
    mine = [new_call_id() for _ in range(20)]
    for call_id in mine[:10]:
        await records.start(call(call_id))
    stopped.send_signal(signal.SIGCONT)
    for call_id in mine[10:]:
        await records.start(call(call_id))
    # What was acknowledged before it was stopped is still in the pipe.
    while (line := stopped.stdout.readline().split())[-1] < mine[-1] or line[0] != "started":
        pass
    assert [call_id for call_id in (*mine, line[-1]) if call_id not in ids(path)] == []
    records.close()


async def test_a_row_is_refused_as_long_as_no_fresh_file_can_be_made(records, path):
    await records.start(call("c1"))
    assert records.get("c1")
    shutil.rmtree(path.parent)
    path.parent.write_text("a file where a folder is needed")
    for _ in range(2):
        with pytest.raises(RecordError, match="cannot be made"):
            await records.start(call())
    path.parent.unlink()
    await records.start(call("c2"))
    assert ids(path) == ["c2"]


async def test_a_file_is_made_by_one_server_at_a_time(path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(record_file, "BUSY", 0.2)
    path.parent.mkdir(parents=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(RecordError, match="cannot be made"):
            RecordStore.writable(path)
        assert not path.exists()
    finally:
        os.close(folder)
    RecordStore.writable(path).close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b"no database " * 500), "not a database"),
        (lambda path: path.symlink_to("/dev/null"), "cannot be made"),
        (lambda path: path.mkdir(), "cannot be made"),
        (lambda path: _with_version(path, 99), "version 99"),
    ],
    ids=["another file", "link", "folder", "later version"],
)
def test_a_file_that_is_not_ours_is_left_alone(tmp_path, make, message):
    path = tmp_path / "records.sqlite3"
    make(path)
    with pytest.raises(RecordError, match=message):
        RecordStore.writable(path)
    assert not path.is_file() or path.is_symlink() or b"calls" not in path.read_bytes()


def _with_version(path: Path, version: int) -> None:
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()


async def test_a_locked_file_holds_up_its_calls_and_nothing_else(path, monkeypatch):
    monkeypatch.setattr(record_file, "BUSY", 0.2)
    records = Records.open(path)
    db = sqlite3.connect(path)
    db.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(records.start(call()))
    turns = 0
    while not waiting.done():
        turns += 1
        await asyncio.sleep(0)
    with pytest.raises(RecordError, match="locked"):
        await waiting
    assert turns > 10
    db.rollback()
    db.close()
    await records.start(call())
    records.close()


@pytest.fixture
def locked(path):
    """Hold the file as another server does that writes and does not end."""
    Records.open(path).close()
    db = sqlite3.connect(path)
    db.execute("BEGIN IMMEDIATE")
    yield db
    db.close()


async def test_a_call_that_only_reads_has_one_row_when_it_is_over(records, path):
    await records.finish(call("c1", tool="read_file"), DONE, is_begun=False)
    found = records.get("c1")
    assert (found.status, found.tool, found.iteration, found.output) == ("success", "read_file", 1, "done")
    assert ids(path) == ["c1"]


async def test_calls_that_wait_for_a_locked_file_give_up_together_and_leave_nothing_behind(locked, path, monkeypatch):
    monkeypatch.setattr(record_file, "BUSY", 0)
    records = Records.open(path)
    monkeypatch.setattr(record_file, "BUSY", 0.5)
    begun = [new_call_id() for _ in range(50)]
    # One after the other they would wait for 25 s, and those that gave up meanwhile would be written in the end.
    with anyio.fail_after(5):
        waited = await asyncio.gather(*(records.start(call(call_id)) for call_id in begun), return_exceptions=True)
    assert {type(each) for each in waited} == {RecordError}
    locked.rollback()
    await records.start(call("c1"))
    assert [row.call_id for row in records.newest()] == ["c1"]
    records.close()


async def test_the_end_does_not_wait_for_a_locked_file(locked, path, monkeypatch):
    monkeypatch.setattr(record_file, "BUSY", 0)
    records = Records.open(path)
    monkeypatch.setattr(record_file, "BUSY", 600)
    waiting = [asyncio.ensure_future(records.start(call(f"c{n}"))) for n in range(20)]
    await asyncio.sleep(0)
    with anyio.fail_after(5):
        await asyncio.to_thread(records.close)
    assert {type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)} == {RecordError}
    assert not locked.execute("SELECT 1 FROM calls").fetchall()


async def test_a_server_starts_though_the_file_is_locked(locked, path, monkeypatch, caplog):
    monkeypatch.setattr(record_file, "BUSY", 0.2)
    records = Records.open(path)
    assert "database is locked); tools that write or execute are refused until it works" in caplog.text
    locked.rollback()
    await records.start(call("c1"))
    assert records.get("c1").status == "running"
    records.close()


async def test_a_call_whose_row_is_written_runs_though_old_rows_cannot_be_deleted(path, monkeypatch, caplog):
    records = Records.open(path, max_rows=1)

    def refuse(*args: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(RecordStore, "rotate", refuse)
    await records.start(call("c1"))
    assert records.get("c1").status == "running"
    await end(records, "c1", DONE)
    assert records.get("c1").status == "success"
    assert "old records could not be deleted (disk I/O error)" in caplog.text
    records.close()


async def test_a_row_is_written_at_once_where_nothing_is_in_the_way(records):
    with pytest.raises(StopIteration):
        records.start(call("c1")).__await__().send(None)
    assert records.get("c1").status == "running"


async def test_rows_that_wait_are_written_before_later_ones(locked, path, monkeypatch):
    monkeypatch.setattr(record_file, "BUSY", 0)
    records = Records.open(path)
    monkeypatch.setattr(record_file, "BUSY", 30)
    first = asyncio.ensure_future(records.start(call("c1")))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(records.start(call("c2")))
    await asyncio.sleep(0)
    locked.rollback()
    await asyncio.gather(first, second)
    assert [row.call_id for row in records.newest()] == ["c2", "c1"]
    records.close()


@pytest.mark.slow
async def test_the_log_of_changes_does_not_grow_with_the_calls(records, path):
    sizes = []
    for n in range(1200):
        await records.start(call(f"c{n}"))
        await end(records, f"c{n}", DONE)
        sizes.append(path.with_name(path.name + "-wal").stat().st_size)
    assert max(sizes) < 2 * max(sizes[:300])


async def test_a_cancelled_call_still_has_its_row_and_its_end(records, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        started = asyncio.ensure_future(records.start(call("c1")))
        await asyncio.sleep(0)
        started.cancel()
        with pytest.raises(asyncio.CancelledError):
            await started
        other.execute("ROLLBACK")
    await end(records, "c1", DONE._replace(status=Status.CANCELLED))
    assert records.get("c1").status == "cancelled"


async def test_after_the_end_nothing_is_written(records):
    await records.start(call("c1"))
    records.close()
    records.close()
    with pytest.raises(RecordError, match="closed"):
        await records.start(call())
    with pytest.raises(RecordError, match="closed"):
        await end(records, "c1", DONE)


async def test_two_servers_write_to_one_file(path):
    one, two = Records.open(path), Records.open(path)
    calls = [(server, new_call_id()) for _ in range(50) for server in (one, two)]
    await asyncio.gather(*(server.start(call(call_id)) for server, call_id in calls))
    await asyncio.gather(*(end(server, call_id, DONE) for server, call_id in calls))
    assert [row.status for row in one.newest(1000)] == ["success"] * 100
    one.close()
    two.close()


async def test_a_file_of_the_first_version_is_upgraded_and_keeps_its_rows(path):
    records = Records.open(path)
    await records.start(call("c1"))
    records.close()
    with closing(sqlite3.connect(path)) as db:
        db.executescript("ALTER TABLE calls DROP COLUMN root; PRAGMA user_version = 1;")
    records = Records.open(path, root=path.parent)
    await records.start(call("c2"))
    assert [(row.call_id, row.root) for row in records.newest()] == [("c2", str(path.parent)), ("c1", None)]
    records.close()


async def test_rows_are_bounded_in_bytes_too_and_running_ones_stay(path):
    records = Records.open(path)
    await records.start(call("running"))
    for n in range(200):
        await records.start(call(f"c{n}"))
        await end(records, f"c{n}", DONE)
    with closing(RecordStore.writable(path)) as store:
        store.rotate(1000, 1000)
        assert len(records.newest(1000)) == 201
        store.rotate(1000, 1000, max_bytes=40 << 10)
    left = [row.call_id for row in records.newest(1000)]
    assert (left[0], left[-1]) == ("c199", "running")
    assert 10 < len(left) < 150
    records.close()


def test_a_reader_does_not_change_the_file(path):
    Records.open(path).close()
    reader = RecordStore.readable(path)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.rotate(0, 0)
    reader.close()
