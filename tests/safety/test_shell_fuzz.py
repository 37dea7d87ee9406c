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


@pytest.mark.skipif(sys.platform == "win32", reason="compares with shells of Unix")
@pytest.mark.parametrize(("checked", "run"), [("bash", "bash"), ("sh", "bash"), ("sh", "dash"), ("dash", "dash")])
def test_a_shell_runs_no_refused_program_in_a_line_that_was_accepted(checked, run, tmp_path):
    if not shutil.which(run):
        pytest.skip(f"{run} is not installed")
    rules = load("test_shell_rules")
    found, passed = load("shell_fuzz").hunt(5, 1000, checked, rules.BYPASSES + rules.EVERYDAY, tmp_path, run)
    assert found == []
    assert passed > 60
