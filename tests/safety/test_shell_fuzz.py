import shutil
import sys

import pytest

from tests.safety import shell_fuzz
from tests.safety import test_shell_bypasses as more
from tests.safety import test_shell_rules as rules


@pytest.mark.attack
@pytest.mark.skipif(sys.platform != "linux", reason="the world is made of Linux namespaces")
@pytest.mark.parametrize(("checked", "run"), [("bash", "bash"), ("sh", "bash"), ("sh", "dash"), ("dash", "dash")])
def test_a_shell_runs_no_refused_program_in_a_line_that_was_accepted(checked, run):
    if not shutil.which(run):
        pytest.skip(f"{run} is not installed")
    if not shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin"):
        pytest.skip("bubblewrap is not installed")
    rows = rules.BYPASSES + more.BYPASSES + rules.EVERYDAY + more.EVERYDAY
    found, passed = shell_fuzz.hunt(5, 1500, checked, rows, run)
    assert found == []
    assert passed > 60


def test_lines_that_nobody_has_read_run_nowhere_else(tmp_path):
    with pytest.raises(RuntimeError, match=r"^lines that nobody has read run in their own world only$"):
        shell_fuzz.Ground(tmp_path)
