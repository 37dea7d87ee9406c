"""The world that escape attempts run in: what they reach when they succeed is not this machine.

Layers, each enough by itself to keep the host's files as they are:
- every process is uid 65534 (or the ordinary user who runs the tests), without a capability and with no_new_privs,
  before anything else happens (drop.py);
- bubblewrap, started as that user, makes every namespace anew; its root is an empty file system with read-only
  binds of the system's programs, and nothing else of the host is mounted;
- for the world of a mapped root there is a second bubblewrap inside: root of a user namespace, with every
  capability there. Its mounts came from the namespace above, which is why it cannot make them writable.
The world looks around before it starts (looking.py), and nothing is tried where that finds a way out.

All that is laid out or left lies in file systems of the world's own, which vanish with it. Nothing here is removed,
by anybody.
"""

import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import toolbox_mcp
from toolbox_mcp.sandbox.linux.namespaces import barrier

HERE = Path(__file__).parent
NOBODY = 65534
HOST_NAME = "victim-host"
SECONDS = 240
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc")
EMPTY = ("/tmp", "/run", "/home", "/root", "/srv")
SIZE = 768 << 20  # bytes of a file system of the world; more than an unconfined attempt fills
IDENTITIES = ("user", "mapped root")

BOOT = """
import os, sys, zipfile
with open(0, "rb", closefd=False) as file, zipfile.ZipFile(file) as parts:
    parts.extractall("/run/code")
sys.path.insert(0, "/run/code")
import inside
inside.main(sys.argv[1:])
"""


class NoWorld(Exception):
    """The world cannot be made here; the message says why."""


def run(identity: str, *rounds: str) -> dict:
    """Run inside.py in a world of its own and return its report."""
    bwrap = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")
    if bwrap is None:
        raise NoWorld("bubblewrap is not installed")
    uid = NOBODY if os.geteuid() == 0 else os.getuid()
    python, binds = interpreter(uid)
    argv = [*outer(bwrap, binds), *(inner(bwrap) if identity == "mapped root" else []), "--"]
    argv += [python, "-I", "-S", "-B", "-c", BOOT, identity, *rounds]
    # A regular file, as a pipe cannot be read by a zip reader. It has no name any more when the world starts.
    with open(os.memfd_create("code"), "w+b") as code:
        code.write(archive())
        code.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(HERE / "drop.py"), str(uid), *argv],
            stdin=code,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
            cwd="/",
            start_new_session=True,
        )
        try:
            said, noise = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            # Everything in the world ends with bubblewrap: --die-with-parent, and its process 1.
            process.kill()
            said, noise = process.communicate()
            noise += b"\n(killed at its deadline)"
    try:
        return json.loads(said)
    except ValueError:
        raise NoWorld(f"the world said {said[-2000:]!r} and {noise.decode(errors='replace')[-4000:]}") from None


def outer(bwrap: str, binds: list[str]) -> list[str]:
    """Return the command line of the world: an empty root, the system's programs read-only, its own everything."""
    argv = [bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"]
    argv += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LANG", "C.UTF-8", "--hostname", HOST_NAME]
    for path in SYSTEM:
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            argv += ["--ro-bind", path, path]
    for path in binds:
        argv += ["--ro-bind", path, path]
    for path in EMPTY:
        argv += ["--size", str(SIZE), "--tmpfs", path]
    return [*argv, "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/"]


def inner(bwrap: str) -> list[str]:
    """Return the command line that makes a root with every capability, in namespaces of its own, inside the world."""
    argv = ["--", bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--hostname", HOST_NAME]
    argv += ["--uid", "0", "--gid", "0", "--cap-add", "ALL"]
    return [*argv, "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]


def interpreter(uid: int) -> tuple[str, list[str]]:
    """Return a Python that the world's user can reach, and the folders beyond the system's that it needs."""
    for path, prefix in ((os.path.realpath(sys.executable), sys.base_prefix), ("/usr/bin/python3", "/usr")):
        if not os.path.exists(path) or barrier(path, uid) is not None:
            continue
        asked = subprocess.run(
            [path, "-I", "-S", "-c", "import sys; print(sys.version_info >= (3, 11))"], capture_output=True, check=False
        )
        if asked.stdout.strip() == b"True":
            inside = any(path.startswith(folder + "/") for folder in SYSTEM)
            return path, [] if inside else [prefix]
    raise NoWorld("there is no Python 3.11 that an ordinary user can reach")


def archive() -> bytes:
    """Return the code that the world needs, as a zip file: nothing of the checkout is visible there."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as parts:
        package = Path(toolbox_mcp.__file__).parent
        for part in ("__init__.py", "safety", "sandbox"):
            _add(parts, package / part, f"toolbox_mcp/{part}")
        for name in ("anyio", "typing_extensions", "idna"):
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin is not None:
                folder = spec.submodule_search_locations
                _add(parts, Path(folder[0] if folder else spec.origin), name if folder else f"{name}.py")
        for file in HERE.glob("*.py"):
            parts.write(file, file.name)
    return made.getvalue()


def _add(parts: zipfile.ZipFile, source: Path, place: str) -> None:
    if source.is_file():
        parts.write(source, place)
        return
    for file in sorted(source.rglob("*.py")):
        parts.write(file, f"{place}/{file.relative_to(source)}")
