import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from toolbox_mcp.sandbox.backends.container import Container
from toolbox_mcp.sandbox.linux.zygote_client import Zygote

MAKE_IMAGE = Path(__file__).with_name("make_image.sh")
PATH = os.environ.get("PATH", os.defpath)
ENV = {"PATH": PATH, "HOME": os.environ.get("HOME", "/nonexistent")}
# crun does not work in a virtual machine of this kind.
OPTIONS = ("--runtime", "runc")


@pytest.fixture(scope="session")
def image():
    """Return the name of an image with Python, made from Debian's packages if it is not there."""
    missing = [
        name for name in ("podman", "runc", "debootstrap") if shutil.which(name, path=f"{PATH}:/usr/sbin") is None
    ]
    if missing or os.geteuid():
        pytest.skip(f"the container image needs root and {missing}")
    made = subprocess.run([MAKE_IMAGE], capture_output=True, text=True, timeout=300, check=False)
    assert made.returncode == 0, made.stderr[-2000:]
    return made.stdout.strip()


@pytest.fixture
async def zygote():
    async with contextlib.aclosing(Zygote()) as made:
        yield made


@pytest.fixture
def podman(tmp_path, zygote):
    return Container("podman", zygote, env=ENV, state=tmp_path, options=OPTIONS)


def containers():
    """Return the names of this server's containers, also of those that have ended."""
    listed = subprocess.run(
        ["podman", "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split() if name.startswith("toolbox-")]
