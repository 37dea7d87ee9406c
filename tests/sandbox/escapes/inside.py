"""What runs in the world: looks around, lays scenes out, and lets the attempts loose on each back end in turn.

Prints one JSON object: {"problems", "mounts"}, and where the world is as it should be, for each round
{"attempts": {name: [succeeded, note]}, "degraded": [reason]} or {"refused": reason}. What qualify.py returns is there.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attempts
import bad_input
import bombs
import jailed
import looking
import qualify
import victims

CONTROL = "none"
BAD_INPUT = "bad input: "
JAILS = ("jail", "jail-write")
"""Calls of sandbox.jail without a list, and with a folder to write in."""
LIMITS_OF_A_ROUND = {"wall": 60.0, "cpu": 60.0}
LASTING_SECONDS = 0.6
BEFORE_THE_LOOK = "500"
"""oom_score_adj of a program that is not in a sandbox, as the sandbox sets it."""


def main(arguments: list[str]) -> None:
    """Run one identity's rounds. arguments: the identity, then the rounds, none to only look around."""
    identity, *rounds = arguments
    # Whatever else is printed is noise.
    answer = os.dup(1)
    os.set_inheritable(answer, False)
    os.dup2(2, 1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    report: dict[str, Any] = {"problems": looking.problems(identity), "mounts": looking.mounts(), "rounds": {}}
    if rounds and not report["problems"]:
        victims.own_terminal()
        for name in rounds:
            began = time.monotonic()
            if name.startswith(BAD_INPUT):
                running = _bad_input(name.removeprefix(BAD_INPUT))
            elif name in JAILS:
                running = _jailed(name)
            elif name in qualify.ROUNDS:
                running = qualify.run(name)
            else:
                running = _round(name, identity)
            report["rounds"][name] = asyncio.run(running)
            report["rounds"][name]["seconds"] = round(time.monotonic() - began, 1)
    with open(answer, "w") as file:
        json.dump(report, file)


async def _round(name: str, identity: str) -> dict[str, Any]:
    if name == CONTROL:
        found = await _attempts(name, lambda code: _unconfined(code), own_mounts=identity == "mapped root")
        return {"attempts": found | await _bombs(_greedy_unconfined, _lasting_unconfined)}
    runner = Runner(name)
    try:
        probe = await runner.backend.probe()
        if not probe.ok:
            return {"refused": "; ".join(probe.reasons)}
        await runner.prepare()
        found = await _attempts(name, runner.attempts)
        if "-" not in name:
            found |= await _bombs(runner.greedy, runner.lasting)
        return {"attempts": found, "degraded": list(probe.reasons)}
    finally:
        await runner.aclose()


async def _jailed(name: str) -> dict[str, Any]:
    from toolbox_mcp.sandbox import jail

    place = _scratch(name)
    listed = [place] if name == "jail-write" else None

    async def run(code: bytes) -> bytes:
        return await jail.run_async(jailed.run, code, place, timeout=90, memory_mb=256, fs_allow=listed)

    async def last(name: str, mark: str) -> None:
        # What it returns has no meaning, and most do not return.
        with contextlib.suppress(jail.Error):
            await jail.run_async(jailed.run, bombs.lasting(name, mark), place, timeout=LASTING_SECONDS, fs_allow=listed)

    found = await _attempts(name, run) | await _left_alive(last)
    return {"attempts": found, "degraded": list(jail.supported().reasons)}


async def _attempts(name: str, run: Callable[[bytes], Awaitable[bytes]], **more: Any) -> dict[str, Any]:
    """Let every attempt loose on one scene, and add what of it is seen from outside."""
    with victims.lay_out(name) as scene:
        said = await run(program(scene.targets | more))
        try:
            found = json.loads(said.rsplit(b"\n", 2)[-2])
        except (ValueError, IndexError):
            raise SystemExit(f"{name}: the attempts said {said[-3000:]!r}") from None
        return found | {kind: [bool(seen), ", ".join(seen)] for kind, seen in scene.traces().items()}


def program(targets: dict[str, Any]) -> bytes:
    """Return the attempts as a program, with what they aim at."""
    return f"TARGETS = {targets!r}\n{Path(attempts.__file__).read_text()}".encode()


async def _bombs(
    greedy: Callable[[str], Awaitable[str]], lasting: Callable[[str, str], Awaitable[None]]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in bombs.GREEDY:
        began = time.monotonic()
        said = await greedy(name)
        found[f"takes_{name}"] = ["ESCAPED" in said, said[-200:], round(time.monotonic() - began, 2)]
    return found | await _left_alive(lasting)


async def _left_alive(lasting: Callable[[str, str], Awaitable[None]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    marks = {name: f"{1000 + number}.{time.monotonic_ns()}" for number, name in enumerate(bombs.LASTING)}
    # They mostly wait, and none minds the others.
    await asyncio.gather(*(lasting(name, mark) for name, mark in marks.items()))
    for name, mark in marks.items():
        left = _marked(mark)
        found[f"stays_{name}"] = [bool(left), f"{len(left)} left"]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    return found


async def _bad_input(name: str) -> dict[str, Any]:
    """Run each program of bad_input.py; return how it ended, and what was left of all of them."""
    runner = Runner(name)
    try:
        await runner.prepare()
        ended = {}
        for title, (code, limits) in bad_input.PROGRAMS.items():
            ended[title] = await runner.end_of(code.encode("utf-8", "surrogatepass"), bad_input.LIMITS | limits)
        return {"ended": ended} | _left({runner.zygote.pid, os.getpid(), os.getppid(), 1})
    finally:
        await runner.aclose()


def _left(ours: set[int | None]) -> dict[str, Any]:
    """Return what is there beside our own processes, and the most memory that this one had (bytes)."""
    for _ in range(60):
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) not in ours]
        # A keeper ends after it has told of the end of its program.
        if not pids:
            break
        time.sleep(0.05)
    processes = [Path(f"/proc/{pid}/stat").read_text() for pid in pids]
    scratch = os.listdir("/srv/scratch") if os.path.isdir("/srv/scratch") else []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"left": processes, "scratch": scratch, "peak": peak}


def _marked(mark: str) -> list[int]:
    """Return the processes whose command line holds a mark, of any pid namespace below."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                # Of a process whose first thread has ended, another one shows it.
                threads = Path(f"/proc/{name}/task").iterdir()
                if any(mark.encode() in (thread / "cmdline").read_bytes().split(b"\0") for thread in threads):
                    found.append(int(name))
            except OSError:
                continue
    return found


class Runner:
    """One back end, as the service makes and uses it.

    A name that ends in -exec starts an interpreter of its own, one that ends in -warm uses a program that waits.
    """

    def __init__(self, name: str) -> None:
        from toolbox_mcp.sandbox.backends.bubblewrap import Bubblewrap
        from toolbox_mcp.sandbox.backends.native import Native
        from toolbox_mcp.sandbox.linux.zygote_client import Zygote

        self.zygote = Zygote()
        kind, _, way = name.partition("-")
        self.in_process = way != "exec" and kind != "bubblewrap"
        self.warm = way == "warm"
        # On the disk that the scenes are on, so that links and renames are not stopped by that alone.
        folder = Path("/srv/scratch")
        folder.mkdir(exist_ok=True)
        self.backend: Any = (
            Bubblewrap(self.zygote)
            if kind == "bubblewrap"
            else Native(self.zygote, namespaces=kind == "native", folder=folder)
        )

    async def prepare(self) -> None:
        """Find the language that the attempts are written in."""
        from toolbox_mcp.sandbox.languages import LANGUAGES, find

        path = os.path.dirname(sys.executable)
        self.tools = await find(self.zygote, LANGUAGES["python"], {"PATH": path}, "/home/operator")
        self.argv = self.tools.fill(LANGUAGES["python"].argv)

    async def attempts(self, code: bytes) -> bytes:
        """Run the attempts; return what they print."""
        done = await self._run(code, LIMITS_OF_A_ROUND)
        return done.finished.stdout.text.encode() or f"{done.finished}".encode()

    async def greedy(self, name: str) -> str:
        """Run a greedy program; return the end of what it prints, and how it ended."""
        done = (await self._run(bombs.greedy(name), bombs.LIMITS)).finished
        return f"{done.stdout.text[-20:]} {done.killed_by} {done.exit_code} {done.stderr.text[-150:]}"

    async def lasting(self, name: str, mark: str) -> None:
        """Run a lasting program to its end."""
        await self._run(bombs.lasting(name, mark), bombs.LIMITS | {"wall": LASTING_SECONDS})

    async def end_of(self, code: bytes, limits: dict[str, Any]) -> dict[str, Any]:
        """Run a program; return what a client would learn of its end."""
        done = (await self._run(code, limits)).finished
        return {
            "exit_code": done.exit_code,
            "signal": done.signal,
            "killed_by": done.killed_by,
            "timed_out": done.timed_out,
            "stdout": done.stdout.text[:200],
            "bytes": done.stdout.bytes,
            "stderr": done.stderr.text[-3000:],
            "milliseconds": done.duration_ms,
        }

    async def aclose(self) -> None:
        """End the zygote."""
        await self.backend.aclose()
        await self.zygote.aclose()

    async def _run(self, code: bytes, limits: dict[str, Any]) -> Any:
        from dataclasses import replace

        from toolbox_mcp.sandbox.pool import Pool
        from toolbox_mcp.sandbox.process.capture import Capture
        from toolbox_mcp.sandbox.spec import Job, Limits

        capture = Capture(tail=1 << 20)
        job = Job(argv=self.argv, stdin=code, files=self.tools.files, capture=capture, limits=Limits(**limits))
        job = replace(job, in_process=self.in_process)
        if not self.warm:
            return await self.backend.run(job)
        pool = Pool(self.backend, job, 1)
        try:
            await pool.run(b"")
            await pool.filled()
            assert pool.waiting
            return await pool.run(code)
        finally:
            await pool.aclose()


def _scratch(name: str) -> str:
    place = f"/srv/control-{name}-{time.monotonic_ns()}"
    os.mkdir(place)
    return place


async def _unconfined(code: bytes) -> bytes:
    """Run a program as a server without a sandbox would: with everything it has."""

    def run() -> bytes:
        done = subprocess.run(
            [
                "/bin/sh",
                "-c",
                f'echo {BEFORE_THE_LOOK} > /proc/self/oom_score_adj; exec "$0" "$@"',
                sys.executable,
                "-",
            ],
            input=code,
            stdout=subprocess.PIPE,
            close_fds=False,
            cwd=_scratch("attempts"),
            timeout=120,
            check=False,
        )
        return done.stdout

    return await asyncio.to_thread(run)


async def _greedy_unconfined(name: str) -> str:
    def run() -> str:
        done = subprocess.run(
            [sys.executable, "-"],
            input=bombs.greedy(name),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=_scratch(name),
            timeout=60,
            check=False,
        )
        return done.stdout[-200:].decode("utf-8", "replace")

    return await asyncio.to_thread(run)


async def _lasting_unconfined(name: str, mark: str) -> None:
    """Do what a careless server does: wait for the program, at the deadline kill it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(bombs.lasting(name, mark))
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), LASTING_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
    # What was started last may not have its command line yet.
    for _ in range(20):
        if _marked(mark):
            break
        await asyncio.sleep(0.05)
