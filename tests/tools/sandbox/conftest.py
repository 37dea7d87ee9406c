import os
import shutil
from dataclasses import replace

import pytest


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


@pytest.fixture
def needs():
    """Skip a test where a program is missing."""

    def skip(program):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")

    return skip
