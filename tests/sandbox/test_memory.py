"""What a group of processes is said to hold. What one may hide from another user is tried in escapes/."""

import os
import sys

import pytest

from toolbox_mcp.sandbox.process import memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")

SIZE = 24 << 20


class Holder:
    """A forked process that has taken SIZE bytes, or only shares what there is, until it is ended."""

    def __init__(self, held=None):
        ready, told = os.pipe()
        go, self._go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            kept = held or b"x" * SIZE
            os.write(told, b"x")
            os.read(go, 1)
            os._exit(len(kept) == 0)
        os.close(go)
        os.close(told)
        os.read(ready, 1)
        os.close(ready)
        self.living = True

    def end(self):
        if self.living:
            self.living = False
            os.close(self._go)
            os.waitpid(self.pid, 0)


@pytest.fixture
def hold():
    # Each inherits the pipes of those before it, so the last is ended first.
    holders = []
    yield lambda held=None: holders.append(Holder(held)) or holders[-1]
    while holders:
        holders.pop().end()


def test_what_several_share_is_divided_in_the_exact_figure(hold):
    held = bytearray(b"x" * SIZE)
    pids = [os.getpid(), *(hold(held).pid for _ in range(3))]
    assert SIZE <= memory.held(pids, 1) < memory.held(pids) - 2 * SIZE


def test_what_each_took_itself_counts_for_each(hold):
    assert memory.held([hold().pid for _ in range(3)], 1) >= 3 * SIZE


def test_what_has_ended_since_the_first_look_holds_nothing(hold, monkeypatch):
    holder, real = hold(), open

    def later(path, *arguments, **options):
        if str(path).endswith("smaps_rollup"):
            holder.end()
        return real(path, *arguments, **options)

    monkeypatch.setattr("builtins.open", later)
    assert memory.held([holder.pid], 1) < SIZE
