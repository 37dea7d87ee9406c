import asyncio
import os
import sys

import pytest

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.sandbox.isolate.worker import Worker
from toolbox_mcp.sandbox.process.output_buffer import UNREAD, OutputBuffer
from toolbox_mcp.sandbox.processes import Processes
from toolbox_mcp.sandbox.programs import Programs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs do not run on Windows")

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@pytest.fixture
async def registry(tmp_path, zygote):
    worker = Worker()
    made = Processes(worker, Programs(str(tmp_path), ENV, zygote=zygote), limit=8)
    made.events = []
    made.when_output(lambda *event: made.events.append(event))
    yield made
    await made.aclose()
    await worker.aclose()


@pytest.fixture
def mine(registry):
    return registry.of("me")


def sh(text):
    return ["sh", "-c", text]


def py(text):
    return [sys.executable, "-c", text]


async def until(mine, id_, pattern, seconds=20):
    got = await mine.output(id_, seconds, pattern)
    assert got.matched, got
    return got


async def rest(mine, id_):
    """Read until the process has ended; return the last read with all the output."""
    stdout = stderr = ""
    async with asyncio.timeout(20):
        while True:
            got = await mine.output(id_, 5)
            stdout, stderr = stdout + got.stdout, stderr + got.stderr
            if got.status != "running":
                return got, stdout, stderr


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def eventually(condition, seconds=10):
    """Wait for a state of the system, which tells nobody when it comes."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def gone(pids, seconds=5):
    await eventually(lambda: not any(alive(pid) for pid in pids), seconds)


async def test_output_comes_once_and_in_order(mine):
    one = await mine.start(sh("echo one; read x; echo two; echo err >&2"), stdin=True)
    assert (await until(mine, one.id, "one")).stdout == "one\n"
    assert (await mine.output(one.id)).stdout == ""
    await mine.write(one.id, b"\n")
    _, stdout, stderr = await rest(mine, one.id)
    assert (stdout, stderr) == ("two\n", "err\n")
    last = await mine.output(one.id)
    assert (last.status, last.exit_code, last.stdout) == ("exited", 0, "")


async def test_ids_are_never_used_twice(mine):
    ids = []
    for _ in range(3):
        started = await mine.start(["true"])
        ids.append(started.id)
        await mine.kill(started.id)
    assert ids == ["proc_1", "proc_2", "proc_3"]


async def test_a_row_shows_what_was_started(mine):
    started = await mine.start(["sleep", "60 s"], name="nap")
    (row,) = mine.list()
    assert (row.id, row.name, row.status, row.exit_code, row.command) == (
        "proc_1",
        "nap",
        "running",
        None,
        "sleep '60 s'",
    )
    assert row.pid == started.pid and 0 <= row.age_seconds < 60


@pytest.mark.parametrize(
    ("text", "status", "code", "name"),
    [
        ("exit 0", "exited", 0, None),
        ("exit 3", "exited", 3, None),
        ("kill -9 $$", "killed", 137, "SIGKILL"),
        ("kill -TERM $$", "killed", 143, "SIGTERM"),
    ],
)
async def test_the_end_of_a_process_is_told(mine, text, status, code, name):
    started = await mine.start(sh(text))
    got, _, _ = await rest(mine, started.id)
    assert (got.status, got.exit_code, got.signal) == (status, code, name)


async def test_one_owner_does_not_see_the_processes_of_another(registry, mine):
    started = await mine.start(["sleep", "60"])
    other = registry.of("other")
    assert other.list() == []
    for attempt in (other.output(started.id), other.write(started.id, b"x"), other.kill(started.id)):
        with pytest.raises(ToolError, match=r"^there is no process proc_1$") as refused:
            await attempt
        assert refused.value.code == "unknown_process"
    with pytest.raises(ToolError):
        other.peek(started.id, "stdout")
    assert mine.list()[0].status == "running"


async def test_only_live_processes_count_against_the_limit(registry, mine):
    for owner in range(8):
        await registry.of(str(owner)).start(["sleep", "60"])
    with pytest.raises(ToolError) as refused:
        await mine.start(["true"])
    assert refused.value.code == "too_many_processes"
    await registry.of("0").kill("proc_1")
    ended = await mine.start(["true"])
    await rest(mine, ended.id)
    assert (await mine.start(["true"])).id == "proc_10"


async def test_the_oldest_ended_processes_leave_the_list(mine):
    running = await mine.start(["sleep", "60"])
    for _ in range(53):
        started = await mine.start(["true"])
        await rest(mine, started.id)
    await mine.start(["true"])
    ids = [row.id for row in mine.list()]
    assert running.id in ids
    assert len(ids) == 52 and "proc_4" not in ids and ids[-1] == "proc_55"


DAEMON = "setsid sh -c 'echo $$; exec sleep 60 >/dev/null 2>&1' & sleep 0.1"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_what_a_process_left_behind_counts_against_the_limit(mine):
    for _ in range(8):
        started = await mine.start(sh(DAEMON))
        await until(mine, started.id, r"^\d+\n")
    await eventually(lambda: all(row.status == "exited" for row in mine.list()))
    with pytest.raises(ToolError) as refused:
        await mine.start(["true"])
    assert refused.value.code == "too_many_processes"
    await mine.kill("proc_1")
    assert (await mine.start(["true"])).id == "proc_9"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_what_left_something_behind_stays_on_the_list(registry, mine):
    started = await mine.start(sh(DAEMON))
    daemon = int((await until(mine, started.id, r"^\d+\n")).stdout)
    await eventually(lambda: mine.list()[0].status == "exited")
    for _ in range(53):
        other = await mine.start(["true"])
        await rest(mine, other.id)
    assert mine.list()[0].id == started.id and alive(daemon)
    await registry.end_owner("me")
    await gone([daemon], 0.5)


async def test_a_program_that_is_not_installed_is_unavailable(mine):
    for options in ({}, {"pty": True}):
        with pytest.raises(ToolError) as refused:
            await mine.start(["no-such-program"], **options)
        assert refused.value.code == "unavailable"
    assert mine.list() == []


async def test_a_read_without_output_waits_no_longer_than_it_is_told(mine):
    started = await mine.start(["sleep", "60"])
    got = await mine.output(started.id, 0.05)
    assert (got.status, got.stdout, got.stderr, got.matched) == ("running", "", "", None)


@pytest.mark.parametrize("pattern", ["ready on port 80", r"port \d+", r"^ready", r"(?<=ready )on", "80$"])
async def test_a_read_waits_for_a_pattern(mine, pattern):
    started = await mine.start(sh("echo starting; sleep 0.05; echo ready on port 80; sleep 60"))
    got = await mine.output(started.id, 20, pattern)
    assert (got.matched, got.stdout) == (True, "starting\nready on port 80\n")


async def test_a_pattern_is_looked_for_on_both_streams(mine):
    started = await mine.start(sh("echo ready >&2; sleep 60"))
    assert (await until(mine, started.id, "ready")).stderr == "ready\n"


async def test_a_pattern_that_does_not_come_ends_with_the_process(mine):
    started = await mine.start(sh("echo other"))
    got = await mine.output(started.id, 20, "ready")
    assert (got.matched, got.stdout, got.status) == (False, "other\n", "exited")


async def test_a_pattern_is_not_found_in_what_was_read_before(mine):
    started = await mine.start(sh("echo ready; sleep 60"))
    await until(mine, started.id, "ready")
    assert (await mine.output(started.id, 0.05, "ready")).matched is False


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<", "\\", "a{2,1}", "", "(?<name", "x" * 10_001])
async def test_a_pattern_that_is_none_is_refused(mine, pattern):
    started = await mine.start(["sleep", "60"])
    with pytest.raises(ToolError) as refused:
        await mine.output(started.id, 5, pattern)
    assert refused.value.code == "bad_pattern"


@pytest.mark.parametrize(
    "pattern", [r"(a|a)*$x", r"(a+)+$x", r"(.*)*(.*)*(.*)*[^a]x", r"((a{1,1000}){1,1000}){1,1000}b"]
)
async def test_a_pattern_that_explodes_is_given_up_while_the_loop_runs_on(tmp_path, pattern, zygote):
    worker = Worker()
    registry = Processes(worker, Programs(str(tmp_path), ENV, zygote=zygote), pattern_seconds=0.3)
    mine = registry.of("me")
    started = await mine.start(sh("printf %s " + "a" * 5000 + "; sleep 60"))
    turns = 0

    async def turn():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    try:
        got = await mine.output(started.id, 1, pattern)
        assert got.matched is False
    except ToolError as refused:
        assert refused.code in ("regex_timeout", "bad_pattern")
        assert (await mine.output(started.id)).stdout == "a" * 5000
    finally:
        turning.cancel()
        await registry.aclose()
        await worker.aclose()
    assert turns > 10


async def test_a_character_that_comes_in_pieces_stays_whole(mine):
    text = "import sys,time\nfor b in 'aé€😀\\n'.encode():\n sys.stdout.buffer.write(bytes([b])); sys.stdout.flush(); sys.stdin.readline()"
    started = await mine.start(py(text), stdin=True)
    seen = []
    while "".join(seen)[-1:] != "\n":
        await mine.write(started.id, b"\n")
        seen.append((await mine.output(started.id, 0.02)).stdout)
    assert "".join(seen) == "aé€😀\n"


async def in_two(mine, first, rest_):
    """Start a program that writes first, and the rest when it gets a line."""
    text = f"import os,sys\nos.write(1,{first!r}); sys.stdin.readline(); os.write(1,{rest_!r}); sys.stdin.read()"
    return (await mine.start(py(text), stdin=True)).id


@pytest.mark.parametrize(("first", "rest_", "pattern"), [(b"\xc3", b"\xa9", "^é$"), (b"a\x1b[3", b"1mb", "^b$")])
async def test_what_a_read_holds_back_is_there_for_the_pattern_of_the_next(mine, first, rest_, pattern):
    id_ = await in_two(mine, first, rest_)
    await eventually(lambda: len(mine._all.find("me", id_).process._streams["stdout"]), 10)
    await mine.output(id_)
    await mine.write(id_, b"\n")
    assert (await mine.output(id_, 10, pattern)).matched


async def test_a_read_waits_for_the_rest_of_a_character(mine):
    id_ = await in_two(mine, b"\xc3", b"\xa9")
    await eventually(lambda: len(mine._all.find("me", id_).process._streams["stdout"]), 10)
    assert mine.peek(id_, "stdout") == ""
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(mine.output(id_, 10))
        await asyncio.sleep(0)
        await mine.write(id_, b"\n")
    assert reading.result().stdout == "é"


async def test_a_line_without_end_is_kept_whole(mine):
    started = await mine.start(py("print('x'*100_000, end='')"))
    _, stdout, _ = await rest(mine, started.id)
    assert stdout == "x" * 100_000


async def test_the_end_of_a_line_of_a_megabyte_is_kept(mine):
    started = await mine.start(py("print('é'*500_000 + '!', end='')"))
    await eventually(lambda: mine.list()[0].status != "running", 30)
    got = await mine.output(started.id)
    marker, _, line = got.stdout.partition("\n")
    assert marker == f"... [{got.dropped} bytes dropped] ..."
    assert set(line[:-1]) == {"é"} and line[-1] == "!"
    assert len(line.encode()) + got.dropped == 1_000_001


async def test_a_flood_leaves_the_newest_quarter_mebibyte_and_says_what_is_missing(mine):
    started = await mine.start(py("import sys\nfor i in range(1_000_000): sys.stdout.write(f'{i:06}\\n')\n"))
    await eventually(lambda: mine.list()[0].status != "running", 30)
    got = await mine.output(started.id)
    first, _, text = got.stdout.partition("\n")
    assert first == f"... [{7_000_000 - UNREAD} bytes dropped] ..."
    assert (len(text), text[-7:], got.dropped) == (UNREAD, "999999\n", 7_000_000 - UNREAD)
    assert (await mine.output(started.id)).stdout == ""


async def test_a_flood_stops_neither_the_loop_nor_the_reader(mine):
    started = await mine.start(["yes"])
    got = await mine.output(started.id, 5)
    assert "y\n" in got.stdout
    assert (await mine.kill(started.id))[0] is True


async def test_binary_output_and_escape_sequences_are_cleaned(mine):
    started = await mine.start(py(r"import sys; sys.stdout.buffer.write(b'\x1b[31mred\x1b[0m\x00\x07\xff\r\nend\n')"))
    _, stdout, _ = await rest(mine, started.id)
    assert stdout == "red\ufffd\nend\n"


async def test_a_process_that_closes_its_streams_is_still_running(mine):
    started = await mine.start(sh("exec >&- 2>&-; sleep 60"))
    assert (await mine.output(started.id, 0.05)).status == "running"


async def test_the_last_words_of_a_killed_process_are_returned(mine):
    started = await mine.start(
        py(
            "import signal,sys,time\ndef f(*a): print('bye',flush=True); sys.exit(4)\nsignal.signal(15,f)\nprint('on',flush=True)\ntime.sleep(60)"
        )
    )
    await until(mine, started.id, "on")
    running, got = await mine.kill(started.id)
    assert (running, got.stdout, got.status, got.exit_code) == (True, "bye\n", "killed", 4)
    with pytest.raises(ToolError):
        await mine.output(started.id)


async def test_killing_what_had_exited_says_so(mine):
    started = await mine.start(sh("echo x; exit 2"))
    await eventually(lambda: mine.list()[0].status != "running", 10)
    running, got = await mine.kill(started.id)
    assert (running, got.status, got.exit_code, got.stdout) == (False, "exited", 2, "x\n")
    assert mine.list() == []


SHAPES = {
    "child": "sleep 60 & echo $!; wait",
    "two levels": "sh -c 'sleep 60 & echo $!; wait' & wait",
    "own session": "setsid sh -c 'echo $$; exec sleep 60' & wait",
    "double fork": "sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 60\" & exit 0'; sleep 60",
    "own environment": "sh -c 'setsid env -i sh -c \"echo \\$\\$; exec sleep 60\" & exit 0'; sleep 60",
    "leader gone, own environment": "setsid env -i sh -c 'echo $$; exec sleep 60 >/dev/null 2>&1' & sleep 0.1",
    "ignores TERM": "trap '' TERM; echo $$; while :; do sleep 1; done",
    "stopped": "echo $$; kill -STOP $$",
    "leader gone": "sleep 60 >/dev/null 2>&1 & echo $!",
    "leader gone, pipe held": "sleep 60 & echo $!",
    "leader gone, daemon": "setsid sh -c 'echo $$; exec sleep 60' & sleep 0.1",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", ["kill", "end of owner", "end of server"])
async def test_nothing_of_a_process_survives(registry, mine, shape, way):
    started = await mine.start(sh(SHAPES[shape]))
    pid = int((await until(mine, started.id, r"^\d+\n")).stdout)
    assert alive(pid)
    if way == "kill":
        await mine.kill(started.id)
    elif way == "end of owner":
        await registry.end_owner("me")
    else:
        await registry.aclose()
    await gone([pid, started.pid], 0.5)


async def test_a_program_that_ended_leaves_no_zombie(mine):
    started = await mine.start(["true"])
    await rest(mine, started.id)
    await eventually(lambda: not os.path.exists(f"/proc/{started.pid}"), 5)


async def test_nothing_starts_once_the_registry_is_closed(registry, mine):
    await registry.aclose()
    with pytest.raises(ToolError) as refused:
        await mine.start(["true"])
    assert refused.value.code == "cancelled"


async def test_cancelling_a_kill_does_not_stop_it(mine):
    started = await mine.start(["sleep", "60"])
    killing = asyncio.create_task(mine.kill(started.id))
    await asyncio.sleep(0)
    killing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await killing
    await gone([started.pid])


@pytest.mark.parametrize("options", [{}, {"stdin": False}])
async def test_input_without_stdin_is_refused(mine, options):
    started = await mine.start(["sleep", "60"], **options)
    with pytest.raises(ToolError) as refused:
        await mine.write(started.id, b"x")
    assert refused.value.code == "refused"


async def test_a_process_without_stdin_reads_nothing(mine):
    started = await mine.start(["cat"])
    got, stdout, _ = await rest(mine, started.id)
    assert (got.exit_code, stdout) == (0, "")


async def test_end_closes_stdin(mine):
    started = await mine.start(["cat"], stdin=True)
    assert await mine.write(started.id, "é\n".encode()) == 3
    await mine.write(started.id, b"last", end=True)
    got, stdout, _ = await rest(mine, started.id)
    assert (got.exit_code, stdout) == (0, "é\nlast")


async def test_input_after_the_end_is_refused(mine):
    started = await mine.start(["cat"], stdin=True)
    await mine.write(started.id, b"", end=True)
    with pytest.raises(ToolError) as refused:
        await mine.write(started.id, b"x")
    assert refused.value.code == "refused"
    await rest(mine, started.id)
    with pytest.raises(ToolError) as refused:
        await mine.write(started.id, b"x")
    assert refused.value.code == "refused"


async def test_input_that_is_not_taken_is_given_up(mine, monkeypatch):
    monkeypatch.setattr("toolbox_mcp.sandbox.process.background.INPUT_SECONDS", 0.1)
    started = await mine.start(["sleep", "60"], stdin=True)
    with pytest.raises(ToolError, match=r"^it took 65536 of 200000 bytes within 0.1 s$") as refused:
        await mine.write(started.id, b"x" * 200_000)
    assert refused.value.code == "timeout"


async def test_input_to_a_process_that_closed_its_stdin_is_refused(mine):
    started = await mine.start(sh("exec <&-; echo on; sleep 60"), stdin=True)
    await until(mine, started.id, "on")
    with pytest.raises(ToolError) as refused:
        await mine.write(started.id, b"x")
    assert refused.value.code == "refused"


async def test_a_terminal_is_one(mine):
    started = await mine.start(
        sh("tty; test -t 0 && test -t 1 && test -t 2 && echo yes; cat < /dev/tty; echo end"), pty=True
    )
    got = await until(mine, started.id, "yes")
    assert got.stdout.startswith("/dev/pts/") and got.stderr == ""
    await mine.write(started.id, b"hello\n")
    await until(mine, started.id, "hello\nhello")
    await mine.write(started.id, b"", end=True)
    got, stdout, _ = await rest(mine, started.id)
    assert (got.exit_code, stdout.strip()) == (0, "end")


async def test_a_terminal_has_a_size(mine):
    started = await mine.start(["stty", "size"], pty=True)
    _, stdout, _ = await rest(mine, started.id)
    assert stdout == "24 80\n"


async def test_what_was_written_last_on_a_terminal_is_not_lost(mine):
    for _ in range(10):
        started = await mine.start(sh("echo last words"), pty=True)
        _, stdout, _ = await rest(mine, started.id)
        assert stdout == "last words\n"


async def test_control_c_reaches_the_program_on_a_terminal(mine):
    started = await mine.start(sh("trap 'echo caught; exit 7' INT; echo on; sleep 60"), pty=True)
    await until(mine, started.id, "on")
    await mine.write(started.id, b"\x03")
    got, stdout, _ = await rest(mine, started.id)
    assert got.exit_code == 7 and "caught" in stdout


@pytest.mark.parametrize("pty", [True, False])
async def test_an_interpreter_is_driven_by_its_prompt(mine, pty):
    started = await mine.start([sys.executable, "-i", "-q"], stdin=not pty, pty=pty)
    await until(mine, started.id, ">>> $")
    await mine.write(started.id, b"print(6 * 7)\n")
    got = await until(mine, started.id, ">>> $")
    assert "42" in got.stdout
    await mine.write(started.id, b"import sys; sys.exit(5)\n")
    assert (await rest(mine, started.id))[0].exit_code == 5


@pytest.mark.skipif(sys.platform != "linux", reason="the data limit is Linux's")
async def test_memory_is_limited(tmp_path, zygote):
    worker = Worker()
    registry = Processes(worker, Programs(str(tmp_path), ENV, zygote=zygote), memory=64 * 2**20)
    mine = registry.of("me")
    try:
        for pty in (False, True):
            started = await mine.start(py("x = bytearray(200 * 2**20)"), pty=pty)
            got, stdout, stderr = await rest(mine, started.id)
            assert got.exit_code == 1 and "MemoryError" in stdout + stderr
    finally:
        await registry.aclose()
        await worker.aclose()


async def test_a_process_runs_in_the_base_with_the_environment_it_is_given(mine, tmp_path):
    started = await mine.start(sh("pwd; env | sort"))
    _, stdout, _ = await rest(mine, started.id)
    lines = [
        line
        for line in stdout.splitlines()
        if not line.startswith(("TOOLBOX_CALL=", "PWD=", "_=", "OLDPWD=", "SHLVL=", "PYTHONUNBUFFERED="))
    ]
    assert lines == [str(tmp_path), "LANG=C.UTF-8", f"PATH={ENV['PATH']}"]


async def test_readers_are_told_of_output_and_of_the_end(registry, mine):
    started = await mine.start(sh("echo x >&2"))
    await rest(mine, started.id)
    assert ("me", started.id, "stderr") in registry.events


async def test_peeking_takes_nothing(mine):
    started = await mine.start(sh("echo x; sleep 60"))
    await eventually(lambda: mine.peek(started.id, "stdout"), 10)
    assert (mine.peek(started.id, "stdout"), mine.peek(started.id, "stderr")) == ("x\n", "")
    assert (await mine.output(started.id)).stdout == "x\n"


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
async def test_nothing_is_left_open(mine):
    async def once(**options):
        started = await mine.start(["cat"], **options)
        await mine.kill(started.id)

    await once()
    await once(pty=True)
    before = len(os.listdir("/proc/self/fd"))
    for options in ({}, {"stdin": True}, {"pty": True}) * 5:
        await once(**options)
    assert len(os.listdir("/proc/self/fd")) == before


def test_unread_output_never_begins_inside_a_character():
    for size in range(8, 20):
        unread = OutputBuffer(8)
        for byte in ("é€😀" * 20).encode()[:-size]:
            unread.feed(bytes([byte]))
        text = unread.take(last=True).text
        assert "\ufffd" not in text.partition("\n")[2][:2]


def test_dropped_and_kept_bytes_add_up():
    unread = OutputBuffer(100)
    for _ in range(1000):
        unread.feed(b"0123456789")
    taken = unread.take()
    assert (taken.dropped, taken.text) == (9900, "... [9900 bytes dropped] ...\n" + "0123456789" * 10)
    assert unread.take().text == ""
