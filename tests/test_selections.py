import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def collected(*options: str) -> Counter[str]:
    """Return how many tests each file has in a selection."""
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-n", "0", "-p", "no:cacheprovider", *options]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=250, check=True)
    lines = (line.rpartition(": ") for line in done.stdout.splitlines())
    return Counter({file: int(count) for file, _, count in lines if file})


@pytest.mark.slow
def test_the_plain_tests_and_the_marked_ones_are_everything():
    plain, rest = collected(), collected("-m", "attack or slow")
    assert plain and rest
    assert plain + rest == collected("-m", "")
