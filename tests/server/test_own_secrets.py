"""What a program that the server starts can read of it."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc of Linux")

CODE = """
import ctypes, os, subprocess, sys
from toolbox_mcp.server.own_secrets import hide

def seen():
    # As a child sees it, which cat and every other allowed program is.
    done = subprocess.run(["cat", f"/proc/{os.getpid()}/environ"], capture_output=True)
    return "denied" if done.returncode else done.stdout.decode().replace("\\0", "\\n")

prctl = ctypes.CDLL(None).prctl
if user := int(sys.argv[1]):
    os.setgid(user)
    os.setuid(user)
    prctl(4, 1, 0, 0, 0)  # which a change of user takes away

print("secret-value" in seen(), "plain-value" in seen())
hide({"TOOLBOX_TOKEN", "SEARCH_KEY"}, os.environ)
after = seen()
print("secret-value" in after, "other-secret" in after, after == "denied" or "plain-value" in after)
print(os.environ.get("TOOLBOX_TOKEN"), os.environ["PLAIN"], os.listdir("/proc/self/fd") != [])
sys.stdout.flush()
print(prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.parametrize("user", [0, 65534])
def test_a_program_finds_no_secret_in_the_environment_of_the_server(user):
    if user and os.geteuid():
        pytest.skip("only root starts programs of another user")
    env = {**os.environ, "TOOLBOX_TOKEN": "secret-value", "SEARCH_KEY": "other-secret", "PLAIN": "plain-value"}
    command = [sys.executable, "-c", CODE, str(user)]
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["True True", "False False True", "None plain-value True", "0"], done.stderr
