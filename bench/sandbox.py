"""What a sandboxed Python program costs, beside the same program without a sandbox and beside a plain bwrap.

    python bench/sandbox.py [--rounds 20] [--runtime bubblewrap --runtime native ...] [--path PATH]

Milliseconds, medians. The rounds are interleaved, and nothing is measured while the pool refills. Cold: nothing is
waiting. Warm: a program waits. Overhead: cold less `python3 -c pass`. Ratio: warm by `python3 -c pass`.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.sandbox.languages import LANGUAGES, find
from toolbox_mcp.sandbox.linux.zygote_client import Zygote
from toolbox_mcp.sandbox.service import Sandbox, SandboxSettings

RUNTIMES = ("bubblewrap", "native", "landlock", "podman", "docker")
BWRAP = ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent")

Measure = Callable[[], Awaitable[None]]


def plain(*argv: str) -> Measure:
    async def run() -> None:
        # The bench has nothing else to do meanwhile, and this is what costs least.
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)  # noqa: ASYNC221

    return run


async def measures(stack: AsyncExitStack, given: argparse.Namespace) -> dict[str, tuple[Sandbox | None, Measure]]:
    env = {"PATH": given.path, "LANG": "C.UTF-8", "HOME": "/nonexistent"}
    python = (await find(Zygote(), LANGUAGES["python"], env, "/nonexistent")).executable
    print(f"Python: {python}; this one: {sys.executable}")
    found: dict[str, tuple[Sandbox | None, Measure]] = {"python3 -c pass": (None, plain(python, "-c", "pass"))}
    if shutil.which("bwrap", path=given.path):
        found["plain bwrap, python3 -c pass"] = (None, plain(*BWRAP, python, "-c", "pass"))
    state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
    os.chmod(state, 0o755)
    for runtime in given.runtime or RUNTIMES:
        settings = SandboxSettings(
            state=state, temp=state, home="/nonexistent", env=env, runtime=runtime, images={"python": given.image},
            engine_options=tuple(given.engine_option), run_options=tuple(given.run_option),
        )  # fmt: skip
        for name, waiting in (("cold", 0), ("warm", LANGUAGES["python"].waiting)):
            sandbox = Sandbox(settings, {"python": replace(LANGUAGES["python"], waiting=waiting)})
            stack.push_async_callback(sandbox.aclose)

            async def run(sandbox: Sandbox = sandbox) -> None:
                done = await sandbox.run_code("python", "pass")
                assert done.finished.exit_code == 0, done

            try:
                await run()
            except ToolError as failure:
                print(f"{runtime}: {failure.error}"[:150])
                break
            await sandbox.warmed()
            if name == "warm" and not sandbox.waiting:
                continue
            found[f"{runtime} {name}"] = (sandbox, run)
    return found


async def main(given: argparse.Namespace) -> None:
    async with AsyncExitStack() as stack:
        each = await measures(stack, given)
        times: dict[str, list[float]] = {name: [] for name in each}
        for _ in range(given.rounds):
            for name, (sandbox, run) in each.items():
                began = time.perf_counter()
                await run()
                times[name].append((time.perf_counter() - began) * 1000)
                if sandbox is not None:
                    await sandbox.warmed()
                # Interpreters that have been started come up, and ended ones are cleared away.
                await asyncio.sleep(0.06)
        base = median(times["python3 -c pass"])
        for name, taken in times.items():
            middle = median(taken)
            ratio = f"{middle / base:5.2f}x" if name.endswith("warm") else f"{middle - base:+6.1f}"
            print(f"{name:30} {middle:8.2f} ms   best {min(taken):8.2f}   {ratio}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--runtime", action="append", help="only these")
    parser.add_argument("--path", default=os.environ.get("PATH", os.defpath), help="where python3 is looked up")
    parser.add_argument("--image", default="python:3.12-slim", help="of the container back ends")
    parser.add_argument("--engine-option", action="append", default=[])
    parser.add_argument("--run-option", action="append", default=[])
    asyncio.run(main(parser.parse_args()))
