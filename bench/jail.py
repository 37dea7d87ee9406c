"""Round trips of the worker and the jail beside what a bare interpreter takes: python bench/jail.py."""

import asyncio
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from toolbox_mcp.sandbox import jail
from toolbox_mcp.sandbox.isolate.worker import Worker

ROUNDS = 50


def show(name: str, times: list[float]) -> None:
    """Print the median and the worst of times, given in seconds, in milliseconds."""
    print(f"{name:32} median {statistics.median(times) * 1e3:8.2f} ms   worst {max(times) * 1e3:8.2f} ms")


def measure(name: str, act: Callable[[], object], rounds: int = ROUNDS) -> None:
    """Time act after one round for warmth."""
    act()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    show(name, times)


async def worker() -> None:
    """Time the worker: its start, a small call, five megabytes there."""
    data = bytes(5 << 20)
    async with Worker() as warm:
        for name, fn, argument in (("worker, warm", math.sqrt, 4), ("worker, 5 MB there", len, data)):
            await warm.call(fn, argument, deadline=10)
            times = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                await warm.call(fn, argument, deadline=10)
                times.append(time.perf_counter() - start)
            show(name, times)
    times = []
    for _ in range(10):
        start = time.perf_counter()
        async with Worker() as cold:
            await cold.call(math.sqrt, 4, deadline=10)
            times.append(time.perf_counter() - start)
    show("worker, first call", times)


if __name__ == "__main__":
    measure("python -c pass", lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 10)
    asyncio.run(worker())
    measure("jail, zygote", lambda: jail.run(math.sqrt, 4, mode="zygote"))
    measure("jail, fork", lambda: jail.run(lambda: 2, mode="fork"))
    measure("jail, 20 MB back", lambda: jail.run(bytes, 20 << 20), 10)
