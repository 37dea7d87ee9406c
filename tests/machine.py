"""What this machine cannot do, as the reason to skip a test; None where it can."""

import functools
import shutil
import subprocess
import sys

import pytest

SYSTEM_PATH = "/usr/bin:/usr/local/bin:/bin"


@functools.cache
def no_user_namespace() -> str | None:
    command = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    if sys.platform != "linux" or shutil.which(command[0]) is None:
        return "there are no user namespaces"
    done = subprocess.run(command, capture_output=True, check=False)
    return "user namespaces are not allowed" if done.returncode else None


def no_bubblewrap() -> str | None:
    return no_user_namespace() if shutil.which("bwrap", path=SYSTEM_PATH) else "bubblewrap is not installed"


def no_podman() -> str | None:
    return None if shutil.which("podman") else "podman is not installed"


@functools.cache
def no_landlock() -> str | None:
    if sys.platform != "linux":
        return "Landlock is Linux"
    from toolbox_mcp.sandbox.linux import landlock

    return None if landlock.abi() else "this kernel has no Landlock"


def no_back_end(name: str) -> str | None:
    """Say why a sandbox back end cannot work; one that is not of this table always can."""
    missing = {"native": no_user_namespace, "bubblewrap": no_bubblewrap, "landlock": no_landlock, "podman": no_podman}
    return missing[name]() if name in missing else None


def skip_for(reason: str | None) -> None:
    """Skip the test that runs where there is a reason."""
    if reason:
        pytest.skip(reason)


def needs(reason: str | None) -> pytest.MarkDecorator:
    """Return the mark of a test that is skipped where there is a reason."""
    return pytest.mark.skipif(reason is not None, reason=reason or "")
