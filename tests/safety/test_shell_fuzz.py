import importlib.util
import shutil
import sys
from pathlib import Path

import pytest


def load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(sys.platform != "linux", reason="the world is made of Linux namespaces")
@pytest.mark.parametrize(("checked", "run"), [("bash", "bash"), ("sh", "bash"), ("sh", "dash"), ("dash", "dash")])
def test_a_shell_runs_no_refused_program_in_a_line_that_was_accepted(checked, run):
    if not shutil.which(run):
        pytest.skip(f"{run} is not installed")
    if not shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin"):
        pytest.skip("bubblewrap is not installed")
    rules, more = load("test_shell_rules"), load("test_shell_bypasses")
    rows = rules.BYPASSES + more.BYPASSES + rules.EVERYDAY + more.EVERYDAY
    found, passed = load("shell_fuzz").hunt(5, 1500, checked, rows, run)
    assert found == []
    assert passed > 60


def test_lines_that_nobody_has_read_run_nowhere_else(tmp_path):
    with pytest.raises(RuntimeError, match=r"^lines that nobody has read run in their own world only$"):
        load("shell_fuzz").Ground(tmp_path)
