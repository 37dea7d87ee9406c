import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.patience import patience

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the guardian is Linux's; others have the marker")

STAND_IN = Path(__file__).with_name("stand_in.py")
SHAPES = ("child", "background grandchild", "setsid grandchild", "double-fork daemon", "SIGTERM ignorer")
PROMISED = 2.0


class Started:
    """A client's view of a guarded server; pidfds stand for its processes, so that no pid is ever mistaken."""

    def __init__(self, process):
        self.process = process
        line = process.stdout.readline().split()
        self.server, *self.programs = (int(pid) for pid in line)
        self.all = [process.pid, self.server, *self.programs]
        self.handles = {}
        for pid in self.all:
            # A server that ends at once may have taken its programs along by the time they are looked up.
            with suppress(ProcessLookupError):
                self.handles[pid] = os.pidfd_open(pid)

    def survivors(self, seconds):
        deadline = time.monotonic() + seconds
        left = dict(self.handles)
        for pid, handle in self.handles.items():
            if select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
                del left[pid]
        return list(left)


@contextmanager
def started(shape, end="wait", how="guarded", *, stdin=subprocess.PIPE, **more):
    process = subprocess.Popen(
        [sys.executable, STAND_IN, shape, end, how], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, **more
    )  # fmt: skip
    found = Started(process)
    try:
        yield found
    finally:
        for handle in found.handles.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


ENDS = {
    "stdin EOF": ("wait", lambda at: at.process.stdin.close(), 0),
    "SIGTERM": ("wait", lambda at: at.process.send_signal(signal.SIGTERM), -signal.SIGTERM),
    "SIGINT": ("wait", lambda at: at.process.send_signal(signal.SIGINT), -signal.SIGINT),
    "SIGHUP": ("wait", lambda at: at.process.send_signal(signal.SIGHUP), -signal.SIGHUP),
    "SIGQUIT": ("wait", lambda at: at.process.send_signal(signal.SIGQUIT), -signal.SIGQUIT),
    "SIGKILL of the guardian": ("wait", lambda at: at.process.kill(), -signal.SIGKILL),
    "SIGKILL of the server": ("wait", lambda at: os.kill(at.server, signal.SIGKILL), -signal.SIGKILL),
    "SIGTERM of the server": ("wait", lambda at: os.kill(at.server, signal.SIGTERM), -signal.SIGTERM),
    "SIGSEGV of the server": ("wait", lambda at: os.kill(at.server, signal.SIGSEGV), -signal.SIGSEGV),
    "SIGKILL of the client's group": ("wait", lambda at: os.killpg(at.process.pid, signal.SIGKILL), -signal.SIGKILL),
    "SIGTERM of the client's group": ("wait", lambda at: os.killpg(at.process.pid, signal.SIGTERM), -signal.SIGTERM),
    "SIGKILL of the server's group": ("wait", lambda at: os.killpg(at.server, signal.SIGKILL), -signal.SIGKILL),
    "SIGTERM of a server that ignores it": ("deaf server", lambda at: at.process.terminate(), -signal.SIGKILL),
    "abort": ("crash", lambda at: None, -signal.SIGABRT),
    "exception": ("exception", lambda at: None, 1),
    "sys.exit": ("exit", lambda at: None, 3),
    "return": ("return", lambda at: None, 5),
}


# What is hardest to find ends with the server whatever ends that; what is hardest to end takes a second and a half.
PLAIN = [("double-fork daemon", end) for end in ENDS]
PLAIN += [("SIGTERM ignorer", end) for end in ("stdin EOF", "SIGTERM", "SIGKILL of the server", "exception")]
ROWS = [
    pytest.param(shape, end, marks=() if (shape, end) in PLAIN else pytest.mark.attack)
    for shape in SHAPES
    for end in ENDS
]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "end"), ROWS)
def test_no_program_survives_the_end_of_the_server(shape, end):
    mode, act, status = ENDS[end]
    with started(shape, mode) as at:
        act(at)
        assert at.survivors(patience(PROMISED)) == []
        assert at.process.wait(patience(1)) == status


@pytest.mark.parametrize("shape", SHAPES)
def test_a_program_of_each_shape_survives_a_server_without_a_guardian(shape):
    with started(shape, how="bare") as at:
        at.process.kill()
        assert set(at.programs) <= set(at.survivors(0.2))


def test_a_second_signal_ends_the_grace():
    with started("SIGTERM ignorer") as at:
        at.process.terminate()
        assert select.select([at.handles[at.server]], [], [], patience(PROMISED))[0]
        at.process.terminate()
        assert at.survivors(patience(PROMISED)) == []


def test_the_client_sees_the_end_of_output_when_the_server_ends():
    with started("SIGTERM ignorer") as at:
        os.kill(at.server, signal.SIGKILL)
        assert at.process.stdout.read() == b""


def test_an_exception_is_shown_on_stderr():
    with started("none", "exception") as at:
        assert b"LookupError: the server's own" in at.process.stderr.read()


def test_a_signal_ignored_at_the_start_stays_ignored():
    with started("child", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as at:
        at.process.send_signal(signal.SIGHUP)
        at.process.stdin.close()
        assert at.process.wait(patience(PROMISED)) == 0


def test_a_client_that_ignores_sigchld_gets_the_exit_status():
    with started("none", "return", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)) as at:
        assert at.process.wait(patience(PROMISED)) == 5


def test_the_server_shares_the_terminals_group_only_on_a_terminal():
    master, slave = os.openpty()
    try:
        with started("none", stdin=slave) as at:
            assert os.getpgid(at.server) == at.process.pid
        with started("none") as at:
            assert os.getpgid(at.server) == at.server
    finally:
        os.close(master)
        os.close(slave)
