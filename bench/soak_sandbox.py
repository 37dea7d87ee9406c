"""Runs many sandboxed programs, good and bad, and tells what they left behind; exits with 1 if anything.

python bench/soak_sandbox.py [--runs 2000] [--runtime native ...] [--image NAME --engine-option ... --run-option ...]
"""

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.sandbox.process import tree
from toolbox_mcp.sandbox.service import Sandbox, SandboxSettings

RUNTIMES = ("bubblewrap", "native", "landlock")

PROGRAMS = (
    ("print('hi')", 0),
    ("import sys; sys.exit(3)", 3),
    ("import os; os.kill(os.getpid(), 9)", 137),
    ("open('left', 'w').write('x'); import os; os.makedirs('a/b'); os.chmod('a', 0)", 0),
    ("import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(600)", 0),
    ("print('x' * 500000)", 0),
    ("import os; os.close(0); os.close(1)", 0),
    ("1 / 0", 1),
)
"""Programs and their exit codes: ordinary ones, a daemon that outlives its parent, files that resist, much output."""

ENDLESS = "import signal; signal.signal(15, signal.SIG_IGN)\nwhile True: pass"
CANCELLED_EVERY = 25
SETTLING_LOOKS = 60


@dataclass(frozen=True)
class Holdings:
    """What a process and its machine hold at a moment."""

    processes: int
    descriptors: int
    temporary: int
    mounts: int
    cgroups: int
    containers: int

    @staticmethod
    def of(scratch: Path, *, engine: str | None) -> "Holdings":
        """Count: descendants, open files, entries of the scratch folder, mounts, control groups, containers."""
        running = tree.descendants(os.getpid())
        groups = sum(1 for _ in Path("/sys/fs/cgroup").glob("**/libpod-*")) if engine else 0
        return Holdings(
            len(running), len(os.listdir("/proc/self/fd")), len(os.listdir(scratch)), len(mounts()), groups,
            containers(engine) if engine else 0,
        )  # fmt: skip


def mounts() -> list[str]:
    """Return where something is mounted, but for what container engines of anybody mount."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [place for place in places if not place.startswith(("/var/lib/containers/", "/run/"))]


def containers(engine: str) -> int:
    listed = subprocess.run(
        [engine, "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True, check=True
    )
    return sum(name.startswith("toolbox-") for name in listed.stdout.split())


def resident() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


async def cancelled(sandbox: Sandbox) -> None:
    running = asyncio.create_task(sandbox.run_code("python", ENDLESS))
    await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])


async def soak(settings: SandboxSettings, runs: int) -> tuple[Holdings, Holdings]:
    """Return what was held after the first run, when all helpers are up, and after the last."""
    engine = settings.runtime if settings.runtime in ("podman", "docker") else None
    outset = Holdings.of(settings.temp, engine=engine)
    sandbox = Sandbox(settings)
    began = time.monotonic()
    first = 0
    try:
        for number, (code, expected) in zip(range(runs), itertools.cycle(PROGRAMS), strict=False):
            if number % CANCELLED_EVERY == CANCELLED_EVERY - 1:
                await cancelled(sandbox)
                continue
            done = (await sandbox.run_code("python", code)).finished
            assert done.exit_code == expected, (code, done)
            if number == min(100, runs // 2):
                first = resident()
        await sandbox.warmed()
        grown = resident() - first
    finally:
        await sandbox.aclose()
    held = Holdings.of(settings.temp, engine=engine)
    for _ in range(SETTLING_LOOKS):
        if held == outset:
            break
        # What an engine clears away after its client has ended takes a moment.
        await asyncio.sleep(0.05)
        held = Holdings.of(settings.temp, engine=engine)
    print(f"{settings.runtime}: {runs} runs in {time.monotonic() - began:.0f} s, grown by {grown} KiB", flush=True)
    return outset, held


async def main(given: argparse.Namespace) -> int:
    leaks = 0
    state = tempfile.mkdtemp(prefix="soak-state-")
    env = {"PATH": given.path, "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/nonexistent")}
    for runtime in given.runtime or RUNTIMES:
        scratch = tempfile.mkdtemp(prefix="soak-")
        os.chmod(scratch, 0o711)
        settings = SandboxSettings(
            Path(state), Path(scratch), "/nonexistent", env, runtime, timeout=20, images={"python": given.image},
            engine_options=tuple(given.engine_option), run_options=tuple(given.run_option),
        )  # fmt: skip
        try:
            before, after = await soak(settings, given.runs)
        except ToolError as failure:
            print(f"{runtime}: {failure.error}")
            leaks += given.runtime is not None
            continue
        left = {name: getattr(after, name) - value for name, value in vars(before).items()}
        print(f"{runtime}: left {left}", flush=True)
        if left["processes"]:
            print(*(Path(f"/proc/{process.pid}/stat").read_text() for process in tree.descendants(os.getpid())))
        leaks += any(left.values())
        if not left["temporary"]:
            os.rmdir(scratch)
    for name in os.listdir(state):
        os.remove(os.path.join(state, name))
    os.rmdir(state)
    return 1 if leaks else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--runtime", action="append", help="only these; without it, those of the host that work")
    parser.add_argument("--path", default=os.environ.get("PATH", os.defpath), help="where python3 is looked up")
    parser.add_argument("--image", default="python:3.12-slim")
    parser.add_argument("--engine-option", action="append", default=[])
    parser.add_argument("--run-option", action="append", default=[])
    sys.exit(asyncio.run(main(parser.parse_args())))
