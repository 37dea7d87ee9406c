"""What forks and ends all the time: nothing of it outlives its call, its process or its server."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from toolbox_mcp.sandbox.process import tree
from toolbox_mcp.sandbox.process.background import start_background
from toolbox_mcp.sandbox.process.runner import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")

START = {"cwd": "/", "memory": None, "pty": False, "on_output": lambda stream: None}
ENV = {"PATH": os.environ["PATH"]}
TRIES = pytest.mark.parametrize("tries", [3, pytest.param(50, marks=[pytest.mark.attack, pytest.mark.slow])])

# Each is another pid a millisecond later, in a session or group of its own; all hold the pipe open.
HOPPER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
leave = os.setsid if sys.argv[2] == "setsid" else os.setpgrp
pipe, until = os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK), time.monotonic() + float(sys.argv[4])
for _ in range(2):
    if os.fork() == 0:
        break
else:
    time.sleep(float(sys.argv[3]))
    os._exit(0)
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    leave()
    try:
        os.write(pipe, b".")
    except BlockingIOError:
        pass
"""
KINDS = ("setsid", "setpgrp")


class Hopper:
    """A program that leaves two hoppers, and a pipe that they hold; it lives for `leader` seconds itself."""

    def __init__(self, folder, number, life=20.0):
        self.kind, self.leader = KINDS[number % 2], (0, 20)[number // 2 % 2]
        pipe = folder / str(number)
        os.mkfifo(pipe)
        self.fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        words = (str(pipe), self.kind, str(self.leader), str(life))
        self.argv = [sys.executable, "-I", "-S", "-c", HOPPER, *words]
        self.hops = 0

    def __str__(self):
        return f"{self.kind}, leader {'lives' if self.leader else 'ended'}"

    async def hopping(self):
        """Wait until both hop."""
        with anyio.fail_after(20):
            while self.hops < 20:
                await anyio.wait_readable(self.fd)
                self.hops += len(os.read(self.fd, 4096))

    def is_alive(self):
        """Return True if anybody holds the pipe."""
        try:
            while os.read(self.fd, 4096):
                self.hops += 1
        except BlockingIOError:
            return True
        return False

    async def dead(self, seconds):
        """Return True when nobody holds the pipe, within so many seconds."""
        with anyio.move_on_after(seconds):
            while self.is_alive():
                await anyio.wait_readable(self.fd)
            return True
        return False


@pytest.fixture
def hopper(tmp_path):
    made = []
    yield lambda number, **options: made.append(Hopper(tmp_path, number, **options)) or made[-1]
    for each in made:
        os.close(each.fd)


async def background(zygote, argv, stdin=False):
    return await start_background(zygote, argv, env=ENV, stdin=stdin, **START)


@TRIES
async def test_what_forks_all_the_time_is_dead_when_its_call_has_ended(hopper, zygote, tries):
    survived = []
    for number in range(tries):
        one = hopper(number)
        calling = asyncio.create_task(run(zygote, one.argv, cwd="/", env=ENV, timeout=0.5))
        if one.leader:
            await one.hopping()
        await calling
        if one.is_alive():
            survived.append(str(one))
    assert survived == []


@TRIES
async def test_what_forks_all_the_time_is_dead_when_process_kill_has_answered(hopper, zygote, tries):
    survived = []
    for number in range(tries):
        one = hopper(number)
        process = await background(zygote, one.argv)
        await one.hopping()
        lived = process.is_alive
        await process.kill(0.05)
        if not lived or one.is_alive():
            survived.append(str(one))
    assert survived == []


SERVER = """
import asyncio, signal, sys
from toolbox_mcp.sandbox.process.supervisor import guarded

def main():
    from toolbox_mcp.sandbox.linux.zygote_client import Zygote
    from toolbox_mcp.sandbox.process.background import start_background

    async def serve():
        zygote = Zygote()
        process = await start_background(
            zygote, sys.argv[1:], cwd="/", env={}, memory=None, stdin=False, pty=False, on_output=lambda stream: None
        )
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_reader(0, stop.set)
        await stop.wait()
        await process.kill(0.2)
        await zygote.aclose()
    asyncio.run(serve())
    return 0
guarded(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["end of stdin", "SIGTERM", "SIGKILL", "SIGKILL of both"])
@TRIES
async def test_what_forks_all_the_time_is_dead_soon_after_its_server(hopper, how, tries):
    survived = []
    for number in range(tries):
        one = hopper(number)
        guardian = await anyio.open_process([sys.executable, "-c", SERVER, *one.argv], env=ENV, stderr=None)
        async with guardian:
            await one.hopping()
            (server,) = tree.children(guardian.pid)
            if how == "end of stdin":
                await guardian.stdin.aclose()
            elif how == "SIGTERM":
                guardian.terminate()
            else:
                for pid in [guardian.pid, server] if how == "SIGKILL of both" else [server]:
                    os.kill(pid, signal.SIGKILL)
            if not await one.dead(2):
                survived.append(str(one))
    assert survived == []


@pytest.mark.slow
async def test_the_hopper_outlives_its_leader_and_what_kills_its_group(hopper):
    one = hopper(0, life=3.0)
    async with await anyio.open_process(one.argv, start_new_session=True) as leader:
        await leader.wait()
        # Before its first hop it is still in the group.
        await one.hopping()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)
        one.hops = 0
        await one.hopping()
    assert await one.dead(20)


async def test_dead_orphans_of_a_program_that_runs_are_reaped_at_once(tmp_path, zygote):
    line = "i=0; while [ $i -lt 300 ]; do (true &); i=$((i+1)); done; echo done; exec sleep 20"
    seen = asyncio.Event()
    running = asyncio.create_task(
        run(zygote, ["sh", "-c", line], cwd="/", env=ENV, timeout=20, seen=lambda *_: seen.set())
    )
    with anyio.fail_after(15):
        await seen.wait()
        zygote_pid = zygote.pid
        assert zygote_pid
        while len(tree.descendants(zygote_pid)) > 2:  # noqa: ASYNC110 - the kernel tells nobody else
            await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_a_program_runs_on_when_the_zygote_was_killed_and_is_ended_by_its_supervisor(zygote):
    process = await background(zygote, ["cat"], stdin=True)
    os.kill(zygote.pid, signal.SIGKILL)
    await process.write(b"still here\n", end=False)
    assert (await process.output(10, None)).stdout == "still here\n"
    await process.kill()
    assert tree.look(process.pid) is None


async def test_helpers_have_names_that_say_what_they_are(zygote):
    process = await background(zygote, ["cat"], stdin=True)
    (supervisor,) = tree.children(zygote.pid)
    names = [Path(f"/proc/{pid}/comm").read_text().strip() for pid in (zygote.pid, supervisor, process.pid)]
    await process.kill()
    assert names == ["tbx-zygote", "tbx-supervisor", "cat"]
