"""Finding and ending process trees."""

import os
import signal
import subprocess

import pytest

from toolbox_mcp.sandbox.process import tree
from toolbox_mcp.sandbox.process.ps_sweep import parse_ps
from toolbox_mcp.sandbox.process.tree import Process


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as popen:
        yield popen
        popen.kill()


def test_a_process_is_described_by_what_the_system_says(sleeper):
    seen = tree.look(sleeper.pid)
    assert seen
    assert (seen.pid, seen.parent, seen.group, seen.session, seen.dead) == (
        sleeper.pid,
        os.getpid(),
        sleeper.pid,
        sleeper.pid,
        False,
    )


def test_a_name_full_of_parentheses_is_read_right(tmp_path):
    odd = tmp_path / ") R 1 (("
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "300"]) as popen:
        seen = tree.look(popen.pid)
        popen.kill()
    assert seen
    assert seen.parent == os.getpid()


def test_there_is_nothing_to_say_about_a_process_that_is_gone(sleeper):
    sleeper.kill()
    sleeper.wait()
    assert tree.look(sleeper.pid) is None
    assert tree.children(sleeper.pid) == []


def test_a_later_process_with_the_same_pid_is_not_killed(sleeper):
    seen = tree.look(sleeper.pid)
    assert seen
    tree.kill(Process(seen.pid, seen.parent, seen.group, seen.session, seen.start - 1))
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.05)
    tree.kill(seen)
    assert sleeper.wait(5) == -signal.SIGKILL


PS = """\
  1     0     1 Ss   /sbin/launchd
 10     1    10 S    server
 20    10    20 S    sh -c x TOOLBOX_CALL=abc
 21    20    20 S    sleep 1
 22     1    22 S    daemon TOOLBOX_CALL=abc HOME=/
 23    22    22 Z    (child)
 30    10    30 S    other TOOLBOX_CALL=abd
garbage
"""


def test_descendants_are_picked_from_a_ps_listing():
    assert sorted(parse_ps(PS, 20, "abc")) == [21, 22]
