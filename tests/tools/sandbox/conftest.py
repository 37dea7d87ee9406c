import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sandbox.conftest import image  # noqa: F401 - a fixture of the tests here too

INSTALL = Path(__file__).parents[2] / "interop" / "install_clients.py"


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory):
    """Return a state folder that the tests share, so that a back end is attacked once."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def call(call, verdicts):
    """Return a server that finds languages on this machine's PATH."""
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    call.sandbox = replace(call.sandbox, state=verdicts, env=env, home=env["HOME"], timeout=20)
    return call


@pytest.fixture(scope="session")
def newer_node():
    """Return the folder of the Node that the interop tests bring, 24 or later."""
    asked = subprocess.run([sys.executable, INSTALL, "--find"], capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.skip("the real clients are not installed: python tests/interop/install_clients.py")
    return str(Path(json.loads(asked.stdout)["node"]).parent)


@pytest.fixture
def needs():
    """Skip a test where a program is missing."""

    def skip(program):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")

    return skip
