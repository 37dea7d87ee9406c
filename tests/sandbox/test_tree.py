"""Finding and ending process trees."""

import os
import resource
import signal
import subprocess
import sys

import pytest

from toolbox_mcp.sandbox.process import tree
from toolbox_mcp.sandbox.process.tree import Origin, Process, parse_ps


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "300"], env={tree.MARKER: "m1"}, start_new_session=True) as popen:
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
    assert not tree.marked(sleeper.pid, "m1")


def test_a_later_process_with_the_same_pid_is_not_killed(sleeper):
    seen = tree.look(sleeper.pid)
    assert seen
    tree.kill(Process(seen.pid, seen.parent, seen.group, seen.session, seen.start - 1))
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.05)
    tree.kill(seen)
    assert sleeper.wait(5) == -signal.SIGKILL


def test_a_leader_that_is_another_process_by_then_is_not_killed(sleeper):
    seen = tree.look(sleeper.pid)
    assert seen
    assert tree.end(Origin(sleeper.pid, seen.start + 10**9, "other"), leader=True) == []
    assert sleeper.poll() is None


def test_the_marker_must_match_whole(sleeper):
    assert tree.marked(sleeper.pid, "m1")
    assert not tree.marked(sleeper.pid, "m")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems show no limits")
def test_a_limit_is_inherited_by_what_clears_its_environment():
    soft, hard = resource.getrlimit(tree.FILE_LOCKS)
    resource.setrlimit(tree.FILE_LOCKS, (1 << 60 | 5, hard))
    try:
        popen = subprocess.Popen(["env", "-i", "/bin/sleep", "300"], start_new_session=True)
    finally:
        resource.setrlimit(tree.FILE_LOCKS, (soft, hard))
    with popen:
        assert tree.limited(popen.pid, 1 << 60 | 5)
        assert not tree.limited(popen.pid, 1 << 60)
        assert not tree.limited(os.getpid(), 1 << 60 | 5)
        popen.kill()
    assert not tree.limited(popen.pid, 1 << 60 | 5)


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
    found = parse_ps(PS, Origin(20, 0, "abc"))
    assert sorted((process.pid, process.dead) for process in found) == [
        (20, False),
        (21, False),
        (22, False),
        (23, True),
    ]
