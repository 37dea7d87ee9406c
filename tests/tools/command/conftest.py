import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def open_project():
    """Return a project that the sandbox's user may enter and write to, whoever runs the tests, beside a canary."""
    top = Path(tempfile.mkdtemp(prefix="sandboxed-")).resolve()
    os.chmod(top, 0o755)
    root = top / "project"
    root.mkdir()
    os.chmod(root, 0o777)
    (top / "canary").write_text("outside")
    os.chmod(top / "canary", 0o666)
    yield root
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """Return a state folder that the tests share, so that a back end is attacked once."""
    return tmp_path_factory.mktemp("state")
