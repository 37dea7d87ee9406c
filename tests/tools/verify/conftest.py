import os
import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture
def call(call, tmp_path):
    """Return a server whose toolchains are this machine's, with a folder for stand-ins before them."""
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    path = f"{fakes}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    call.toolchain_env = {"PATH": path, "HOME": os.environ.get("HOME", "/"), "CARGO_NET_OFFLINE": "true"}
    call.fakes = fakes
    return call


@pytest.fixture
def files(project):
    def files(**contents):
        """Write files; `__` in a name is a slash, a trailing `_` falls away, `_dot_` is a dot."""
        for name, text in contents.items():
            file = project / name.replace("__", "/").replace("_dot_", ".")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    return files


@pytest.fixture
def fake(call):
    def fake(name, text):
        """Put a shell script before the program of that name."""
        file = call.fakes / name
        file.write_text("#!/bin/sh\n" + text)
        file.chmod(0o755)

    return fake


def need(*programs):
    missing = [
        program
        for program in programs
        if not shutil.which(program, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    ]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")
