import asyncio
import os
import subprocess
import sys

import pytest

from toolbox_mcp.sandbox.process import reaper as orphans
from toolbox_mcp.sandbox.process.reaper import PATIENCE, Orphans

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def dead_child():
    """Return a child that has died and that nobody waits for."""
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return process


def exists(pid):
    return os.path.exists(f"/proc/{pid}")


def test_a_dead_child_is_left_to_its_owner_for_a_while():
    clock = Clock()
    found = Orphans(clock=clock)
    child = dead_child()
    assert found.collect()
    clock.now = PATIENCE - 0.1
    assert found.collect()
    assert child.wait() == 0


def test_then_it_is_reaped():
    clock = Clock()
    found = Orphans(clock=clock)
    child = dead_child()
    found.collect()
    clock.now = PATIENCE
    found.collect()
    assert not exists(child.pid)
    child.wait()


def test_one_that_is_kept_is_not():
    clock = Clock()
    child = dead_child()
    found = Orphans(lambda: {child.pid}, clock)
    found.collect()
    clock.now = 2 * PATIENCE
    found.collect()
    assert exists(child.pid)
    child.wait()


def test_a_living_child_is_left_alone():
    clock = Clock()
    found = Orphans(clock=clock)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        found.collect()
        clock.now = 2 * PATIENCE
        found.collect()
        assert child.poll() is None


async def test_the_death_of_a_child_sets_off_a_look(monkeypatch):
    monkeypatch.setattr(orphans, "PATIENCE", 0.05)
    async with orphans.reaping():
        child = dead_child()
        async with asyncio.timeout(10):
            while exists(child.pid):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    child.wait()
