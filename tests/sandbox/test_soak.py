"""The short form of bench/soak_sandbox.py."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts what Linux shows in /proc")

SOAK = Path(__file__).parents[2] / "bench" / "soak_sandbox.py"


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["bubblewrap", "native", "landlock"])
def test_fifty_programs_leave_nothing_behind(runtime):
    argv = [sys.executable, "-W", "error", SOAK, "--runs", "50", "--runtime", runtime, "--path", "/usr/bin:/bin"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert f"{runtime}: 50 runs" in done.stdout
