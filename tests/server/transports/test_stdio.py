import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters

EXAMPLE = str(Path(__file__).with_name("example.py"))
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def session(*messages):
    """Return the bytes of a whole session: handshake and messages."""
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    return b"".join(json.dumps(m).encode() + b"\n" for m in (hello, ready, *messages))


def echo(number, text):
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": text}},
    }


def rss(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError


@ERAS
async def test_the_sdks_client_lists_calls_and_survives_a_crash(mode, marks):
    server = StdioServerParameters(command=sys.executable, args=[EXAMPLE, "stdio", str(marks.path)])
    async with Client(server, mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools][:3] == ["bytes", "crash", "echo"]
        with pytest.raises(MCPError):
            await client.call_tool("crash", {})
        assert (await client.call_tool("echo", {"text": "\u65e5\u2028\n"})).content[0].text == "\u65e5\u2028\n"


@pytest.mark.slow
@pytest.mark.parametrize("modern", [False, True])
async def test_500_calls_in_turn_and_200_at_once_are_all_answered(wired, modern):
    async with wired(modern=modern) as wire:
        for number in range(1, 501):
            wire.write(wire.call(number, "echo", text=f"t{number}"))
            assert await wire.text(number) == f"t{number}"
        before = len(os.listdir(f"/proc/{wire.process.pid}/fd"))
        wire.write(*(wire.call(number, "echo", text=f"t{number}") for number in range(1000, 1200)))
        answers = [await wire.read() for _ in range(200)]
        assert {a["id"]: a["result"]["content"][0]["text"] for a in answers} == {n: f"t{n}" for n in range(1000, 1200)}
        assert len(os.listdir(f"/proc/{wire.process.pid}/fd")) == before


async def test_stray_output_and_input_of_handlers_and_children_miss_the_wire(wired, marks, tmp_path):
    async with wired() as wire:
        wire.write(wire.call(1, "print", text="from print"), wire.call(2, "echo", text="still clean"))
        answers = {a["id"]: a["result"]["content"][0]["text"] for a in [await wire.read(), await wire.read()]}
        assert answers == {1: "", 2: "still clean"}
        wire.stdin.close()
        assert await wire.ended() == 0
        assert await wire.stdout.read() == b""
    stray = (tmp_path / "stderr").read_text()
    assert ("from print" in stray, "from fd 1" in stray, "echo from a child"[5:] in stray) == (True, True, True)


MALFORMED = [
    (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{', (5, -32700)),
    (b'{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"a":"\xff\xfe"}}', ("x", -32700)),
    (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"a":"\\udc80"}}', (5, -32700)),
    (b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"a":' + b"[" * 200_000 + b"}}", (5, -32700)),
    (b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]', (5, -32600)),
    (b'{"id":5}', (5, -32600)),
    (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"text":"' + b"x" * 300_000 + b'"}}', (5, -32600)),
    (b"not json at all", None),
    (b"", None),
    (b"\x00" * 1000, None),
    (b'{"jsonrpc":"2.0","method":"notifications/nonsense","params":{}}', None),
    (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":1}}}', None),
    (b'{"jsonrpc":"2.0","id":99,"result":{}}', None),
]


@pytest.mark.parametrize("before_the_handshake", [False, True])
async def test_after_each_malformed_line_the_server_goes_on(wired, before_the_handshake):
    async with wired("max_line=250000", shake=not before_the_handshake) as wire:
        for line, answer in MALFORMED:
            wire.write(line)
            if answer is not None:
                message = await wire.read()
                assert (message["id"], message["error"]["code"]) == answer
        if before_the_handshake:
            await wire.open()
        wire.write(wire.call(6, "echo", text="fine"))
        assert await wire.text(6) == "fine"


async def test_a_line_of_20_mb_is_a_call_like_any_other(wired):
    async with wired() as wire:
        wire.write(wire.call(1, "echo", text="x" * 20_000_000))
        assert len(await wire.text(1)) == 20_000_000


async def test_a_line_above_the_limit_is_refused_without_being_kept(wired):
    async with wired() as wire:
        wire.write(wire.call(1, "echo", text="warm"))
        await wire.answer(1)
        before = rss(wire.process.pid)
        wire.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"text":"')
        for _ in range(100):
            wire.stdin.write(b"x" * 1_000_000)
            await wire.stdin.drain()
        wire.stdin.write(b'"}}\n')
        assert (await wire.answer(2))["error"]["code"] == -32600
        wire.write(wire.call(3, "echo", text="fine"))
        assert await wire.text(3) == "fine"
        assert rss(wire.process.pid) - before < 60_000_000


@pytest.mark.parametrize("modern", [False, True])
async def test_lone_surrogates_in_an_answer_become_replacement_characters(wired, modern):
    async with wired(modern=modern) as wire:
        wire.write(wire.call(1, "surrogate"))
        assert await wire.text(1) == "a\ufffdb"
        wire.write(wire.call(2, "echo", text="fine"))
        assert await wire.text(2) == "fine"


@pytest.mark.slow
async def test_a_client_that_never_reads_stops_being_read_and_takes_little_memory(wired):
    async with wired() as wire:
        wire.write(wire.call(1, "echo", text="warm"))
        await wire.answer(1)
        before = rss(wire.process.pid)
        wire.reading(False)
        line = json.dumps(wire.call(7, "echo", text="x" * 50_000)).encode() + b"\n"
        sent = 0
        with anyio.move_on_after(1.5):
            # 100 MB of calls: without back-pressure all of them are taken in within the time.
            for _ in range(2000):
                wire.stdin.write(line)
                await wire.stdin.drain()
                sent += 1
        assert sent < 1500
        assert rss(wire.process.pid) - before < 64 * 1024 * 1024
        wire.reading(True)
        for _ in range(sent):
            assert (await wire.read())["id"] == 7


async def test_pings_and_lists_are_answered_while_every_place_for_calls_is_taken(wired, marks):
    async with wired("max_in_flight=4") as wire:
        wire.write(*(wire.call(number, "hold", name=f"h{number}") for number in range(1, 201)))
        await marks.wait("h4.started")
        wire.write(wire.request(900, "ping"), wire.request(901, "tools/list"))
        await wire.answer(900)
        await wire.answer(901)


async def test_calls_beyond_the_limit_wait_and_then_run(wired, marks):
    async with wired("max_in_flight=2") as wire:
        wire.write(*(wire.call(number, "hold", name=f"h{number}") for number in (1, 2, 3)))
        await marks.wait("h2.started")
        wire.write(wire.request(9, "ping"))
        await wire.answer(9)
        assert "h3.started" not in marks.seen()
        wire.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await marks.wait("h1.cancelled")
        await marks.wait("h3.started")


@pytest.mark.parametrize("modern", [False, True])
async def test_a_cancelled_call_stops_and_is_not_answered(wired, marks, modern):
    async with wired("max_in_flight=1", modern=modern) as wire:
        wire.write(wire.call(1, "hold", name="runs"), wire.call(2, "hold", name="waits"))
        await marks.wait("runs.started")
        for number in (2, 1):
            wire.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        await marks.wait("runs.cancelled")
        wire.write(wire.call(3, "echo", text="next"))
        assert await wire.text(3) == "next"
        assert "waits.started" not in marks.seen()


@pytest.mark.slow
@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize(
    ("end", "status"),
    [("eof", 0), ("gone", 0), (signal.SIGTERM, 15), (signal.SIGINT, 2), (signal.SIGHUP, 1)],
)
async def test_every_end_cancels_the_calls_in_flight_within_two_seconds(wired, marks, end, status, modern):
    async with wired(modern=modern) as wire:
        wire.write(*(wire.call(number, "hold", name=f"h{number}") for number in range(80)))
        await marks.wait("h63.started")
        if end == "eof":
            wire.stdin.close()
        elif end == "gone":
            wire.stdin.close()
            wire.hang_up()
        else:
            wire.process.send_signal(end)
        assert await wire.ended() == status
        assert marks.seen() >= {"stopping", *(f"h{number}.cancelled" for number in range(64))}


async def test_a_broken_stdout_ends_the_server_though_stdin_stays_open(wired, marks, tmp_path):
    async with wired() as wire:
        wire.write(wire.call(1, "hold", name="h"))
        await marks.wait("h.started")
        wire.hang_up()
        wire.write(wire.request(2, "ping"))
        assert await wire.ended() == 0
        assert "h.cancelled" in marks.seen()
    assert "Traceback" not in (tmp_path / "stderr").read_text()


async def test_a_second_signal_ends_at_once_where_a_clean_up_hangs(wired, marks):
    async with wired() as wire:
        wire.write(wire.call(1, "stubborn", name="s"))
        await marks.wait("s.started")
        wire.process.send_signal(signal.SIGTERM)
        await marks.wait("s.cancelled")
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.ended() == 128 + 15


@pytest.mark.slow
async def test_a_signal_ends_a_server_whose_client_does_not_read(wired, marks):
    async with wired() as wire:
        wire.reading(False)
        # Of what comes in one piece all begins, however little of the answers is read.
        answers = (wire.call(number, "bytes", count=2_000_000) for number in range(20))
        wire.write(*answers, wire.call(99, "hold", name="h"))
        await marks.wait("h.started")
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.ended() == 15


async def test_a_signal_before_the_first_message_ends_the_server(wired, marks):
    async with wired("ready=1", shake=False) as wire:
        await marks.wait("ready", 10)
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.ended() == 15


def run(marks, stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more):
    command = [sys.executable, EXAMPLE, "stdio", str(marks.path)]
    return subprocess.run(command, stdin=stdin, stdout=stdout, stderr=stderr, timeout=20, check=False, **more)


def results(output):
    messages = [json.loads(line) for line in output.splitlines()]
    return {m["id"]: m["result"]["content"][0]["text"] for m in messages if m["id"]}


def test_stdin_and_stdout_may_be_files(marks, tmp_path):
    (tmp_path / "in").write_bytes(session(*(echo(n, f"t{n}") for n in range(1, 101))))
    with open(tmp_path / "in", "rb") as stdin, open(tmp_path / "out", "wb") as stdout:
        assert run(marks, stdin, stdout).returncode == 0
    assert results((tmp_path / "out").read_bytes()) == {n: f"t{n}" for n in range(1, 101)}


def test_a_piped_script_gets_its_answers_before_the_end(marks):
    done = subprocess.run(
        [sys.executable, EXAMPLE, "stdio", str(marks.path)],
        input=session(echo(1, "one"), echo(2, "two")).rstrip(b"\n"),
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, results(done.stdout)) == (0, {1: "one", 2: "two"})


@pytest.mark.slow
def test_devnull_and_closed_descriptors_end_the_server_quietly(marks):
    for close in ((), (0,), (1,), (0, 1), (0, 1, 2)):

        def shut(close=close):
            for fd in close:
                os.close(fd)

        done = run(marks, subprocess.DEVNULL, subprocess.DEVNULL, subprocess.PIPE, preexec_fn=shut)
        assert (done.returncode, done.stderr) == (0, b"")


def test_stdin_and_stdout_may_be_one_socket(marks):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, EXAMPLE, "stdio", str(marks.path)], stdin=theirs, stdout=theirs, stderr=theirs
        )
        theirs.close()
        ours.settimeout(10)
        ours.sendall(
            session(
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {"name": "print", "arguments": {"text": "x"}},
                }
            )
        )
        with ours.makefile("rb") as lines:
            assert results(lines.readline() + lines.readline()) == {1: ""}
            ours.shutdown(socket.SHUT_WR)
            # stderr is the same socket: nothing of what the handler printed may be on it.
            assert lines.read() == b""
        assert process.wait(5) == 0


def test_stdin_and_stdout_may_be_a_terminal(marks):
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, EXAMPLE, "stdio", str(marks.path)], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL
        )
        # Reading fails where the server has ended.
        os.close(theirs)
        os.write(ours, session(echo(1, "typed")))
        shown = b""
        while b'"text":"typed"' not in shown:
            shown += os.read(ours, 65536)
        os.write(ours, b"\x04")
        assert process.wait(5) == 0
    finally:
        os.close(ours)
    assert b"initialize" in shown


async def test_a_pipe_that_blocked_before_blocks_again_afterwards(example):
    from toolbox_mcp.server.transports.stdio.serve import serve_on

    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    try:
        os.write(in_write, session())
        os.close(in_write)
        await asyncio.wait_for(serve_on(example.server, in_read, out_write), 5)
        assert os.get_blocking(in_read)
        assert os.get_blocking(out_write)
        assert b'"id":0' in os.read(out_read, 65536)
    finally:
        for fd in (in_read, out_read, out_write):
            os.close(fd)


async def test_a_server_ends_though_what_runs_at_its_end_fails(example):
    from toolbox_mcp.server.transports.stdio.serve import serve_on

    def fail():
        raise RuntimeError("at the end")

    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    try:
        os.write(in_write, session())
        os.close(in_write)
        async with asyncio.timeout(5):
            assert await serve_on(example.server, in_read, out_write, on_stop=fail) == 0
    finally:
        for fd in (in_read, out_read, out_write):
            os.close(fd)


async def test_thousands_of_notifications_ahead_of_the_handshake_do_not_stop_the_server(wired):
    async with wired(shake=False) as wire:
        early = {"jsonrpc": "2.0", "method": "notifications/nothing"}
        async with asyncio.timeout(10):
            for _ in range(20):
                wire.write(*(early for _ in range(1000)))
                await wire.stdin.drain()
            await wire.open()
        wire.write(wire.call(1, "echo", text="fine"))
        assert await wire.text(1) == "fine"
