import os
import signal
import subprocess
import sys

import pytest

from toolbox_mcp.sandbox.process import ps_sweep as marker
from toolbox_mcp.sandbox.process.ps_sweep import alive, marks, sweep, swept

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lists processes by /proc in the place of ps -E")

MARK = "0" * 32


@pytest.fixture
def start():
    started = []

    def start(server, *, deaf=False):
        """Start a program that carries the mark of a server."""
        text = (
            "import signal,sys,time\n"
            + ("signal.signal(15, signal.SIG_IGN)\n" if deaf else "")
            + "print(flush=True)\ntime.sleep(60)"
        )
        env = {**os.environ, "TOOLBOX_CALL": f"{server}-{MARK}"} if server else None
        process = subprocess.Popen([sys.executable, "-c", text], env=env, stdout=subprocess.PIPE)
        process.stdout.readline()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def listing_of(*processes):
    """Return a listing, as ps -E gives it, of those of the processes that live."""

    def listing():
        lines = []
        for process in processes:
            if process.poll() is None:
                with open(f"/proc/{process.pid}/environ") as file:
                    lines.append(f"  {process.pid} python3 -c x {file.read().replace(chr(0), ' ')}")
        return "\n".join(lines)

    return listing


def test_only_whole_marks_count():
    lines = [
        f"  12 sleep 60 PATH=/bin TOOLBOX_CALL=34-{MARK}",
        f"13 sleep TOOLBOX_CALL=34-{MARK} A=1",
        f"14 sleep XTOOLBOX_CALL=34-{MARK}",
        f"15 sleep TOOLBOX_CALL=34-{MARK}0",
        "16 sleep TOOLBOX_CALL=34",
        f"17 sleep TOOLBOX_CALL={MARK}",
        "",
        "x y",
        f"{os.getpid()} python TOOLBOX_CALL=34-{MARK}",
    ]
    assert marks(lines) == [(12, 34), (13, 34)]


def test_a_sweep_ends_what_is_picked_and_nothing_else(start):
    mine, deaf, other, unmarked = start(77), start(77, deaf=True), start(78), start(None)
    assert sweep(listing_of(mine, deaf, other, unmarked), lambda server: server == 77, grace=0.2)
    assert (mine.wait(), deaf.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
    assert other.poll() is None and unmarked.poll() is None


def test_a_server_ends_the_programs_of_servers_that_are_gone_and_its_own(start):
    gone = subprocess.Popen(["true"])
    gone.wait()
    stale, mine, living = start(gone.pid), start(os.getpid()), start(1)
    seen = []

    def main():
        seen.append((stale.wait(5), mine.poll(), living.poll()))
        return 7

    assert swept(main, listing_of(stale, mine, living)) == 7
    assert seen == [(-signal.SIGTERM, None, None)]
    assert mine.wait(5) == -signal.SIGTERM
    assert living.poll() is None


def test_its_own_are_ended_when_main_raises(start):
    mine = start(os.getpid())
    with pytest.raises(LookupError):
        swept(lambda: {}["x"], listing_of(mine))
    assert mine.wait(5) == -signal.SIGTERM


def test_a_process_of_another_user_is_alive():
    assert alive(1) and alive(os.getpid())


def test_a_ps_that_does_not_answer_ends_nothing(monkeypatch):
    def fails(*args, **options):
        raise FileNotFoundError

    monkeypatch.setattr(marker.subprocess, "run", fails)
    assert swept(lambda: 3) == 3
