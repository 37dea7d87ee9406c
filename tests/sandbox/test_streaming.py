"""Streams: a program that is read while it runs, and nothing of it left behind."""

import asyncio
import os
import select
import signal

import anyio
import pytest

from toolbox_mcp.sandbox.process import streaming, tree
from toolbox_mcp.sandbox.process.streaming import stream

ENV = {"PATH": os.environ["PATH"]}


async def test_a_stream_is_read_line_by_line():
    async with stream(["printf", r"a\nbb\nccc"], cwd="/", env=ENV, timeout=60) as reading:
        assert [line async for line in reading.lines()] == [b"a", b"bb", b"ccc"]
        assert (await reading.wait()).status == 0


async def test_a_stream_is_split_at_any_separator_and_a_long_piece_is_cut():
    async with stream(["printf", r"a\0bbbbbb\0c"], cwd="/", env=ENV, timeout=60) as reading:
        assert [line async for line in reading.lines(b"\0", longest=3)] == [b"a", b"bbb", b"c"]


async def test_an_endless_line_does_not_grow():
    async with stream(["head", "-c", "67108864", "/dev/zero"], cwd="/", env=ENV, timeout=60) as reading:
        assert [len(line) async for line in reading.lines(longest=1000)] == [1000]


async def test_leaving_a_stream_kills_its_tree():
    r, w = os.pipe()
    async with stream(["sh", "-c", "setsid yes & yes"], cwd="/", env=ENV, timeout=60, pass_fds=(w,)) as reading:
        async for line in reading.lines():
            assert line == b"y"
            break
    os.close(w)
    with anyio.fail_after(1):
        # The end of the pipe comes when no process holds it any more.
        await anyio.wait_readable(r)
    assert os.read(r, 1) == b""
    os.close(r)


async def test_a_stream_ends_at_its_deadline():
    async with stream(["sh", "-c", "echo a; sleep 300"], cwd="/", env=ENV, timeout=0.3) as reading:
        assert [line async for line in reading.lines()] == [b"a"]
        assert reading.timed_out
        assert (await reading.wait()).signal == signal.SIGKILL


@pytest.fixture
def long_pause(monkeypatch):
    """Have a stream leave its program alone for longer than any test takes."""
    monkeypatch.setattr(streaming, "MIN_INTERVAL", 60.0)
    monkeypatch.setattr(streaming, "MAX_INTERVAL", 60.0)


async def test_lines_that_a_program_writes_one_by_one_are_read_together_at_its_end(long_pause):
    script = "i=0; while [ $i -lt 500 ]; do echo $i; i=$((i + 1)); done"
    with anyio.fail_after(20):
        async with stream(["sh", "-c", script], cwd="/", env=ENV, timeout=60) as reading:
            pieces = [piece async for piece in reading.chunks()]
    assert b"".join(pieces).split() == [str(i).encode() for i in range(500)]
    assert len(pieces) <= 2


async def test_what_writes_much_is_not_left_alone(long_pause):
    with anyio.fail_after(20):
        async with stream(["head", "-c", "67108864", "/dev/zero"], cwd="/", env=ENV, timeout=60) as reading:
            assert sum([len(piece) async for piece in reading.chunks()]) == 67108864


async def test_what_writes_little_is_not_left_alone_beyond_the_deadline(long_pause):
    with anyio.fail_after(20):
        async with stream(["sh", "-c", "echo a; sleep 300"], cwd="/", env=ENV, timeout=0.3) as reading:
            assert [line async for line in reading.lines()] == [b"a"]
            assert reading.timed_out


async def test_a_stream_that_leaves_its_program_alone_can_be_killed(long_pause):
    with anyio.fail_after(20):
        async with stream(["sh", "-c", "echo a; sleep 300"], cwd="/", env=ENV, timeout=60) as reading:
            asyncio.get_running_loop().call_later(0.05, reading.kill)
            assert [line async for line in reading.lines()] == [b"a"]


async def test_a_stream_keeps_what_went_to_stderr():
    async with stream(["sh", "-c", "echo bad >&2; echo a; exit 2"], cwd="/", env=ENV, timeout=60) as reading:
        assert [line async for line in reading.lines()] == [b"a"]
        assert (await reading.wait()).status == 2
        assert reading.stderr.text == "bad\n"


async def test_a_stream_whose_orphan_holds_the_pipe_ends():
    with anyio.fail_after(5):
        async with stream(["sh", "-c", "sleep 300 & echo a"], cwd="/", env=ENV, timeout=60) as reading:
            assert [line async for line in reading.lines()] == [b"a"]


async def test_a_stream_waits_for_its_reader():
    async with stream(["yes"], cwd="/", env=ENV, timeout=60) as reading:
        async for _ in reading.chunks():
            break
        poll = select.poll()
        poll.register(reading._program.stdout, select.POLLIN)
        assert poll.poll(1000)
        before = tree.look(reading._program.pid)
        assert before
        assert not before.dead
