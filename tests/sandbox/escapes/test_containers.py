"""Every attempt in containers of the container back end, which podman really runs.

A container is confined by the engine, so podman may be started here as root; whoever is in it is nobody, as the
scene is that it aims at: files, sockets, processes and keys of a process of this test, with nothing real in them.
Each attempt has its control in the worlds of test_escapes.py.
"""

import asyncio
import contextlib
import copy
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sandbox.conftest import ENV, OPTIONS, containers
from tests.sandbox.escapes import bombs, cell, residue, world
from toolbox_mcp.sandbox.backends.container import Container
from toolbox_mcp.sandbox.backends.local import NOBODY
from toolbox_mcp.sandbox.linux.zygote_client import Zygote
from toolbox_mcp.sandbox.process.capture import Capture
from toolbox_mcp.sandbox.spec import Job, Limits

HERE = Path(__file__).parent


SECONDS_OF_ATTEMPTS = 90
LASTING_SECONDS = 0.6
LEFT_OUT = {
    "read_accounts": "an image has accounts of its own, which are no secret of the host's",
    "watch_the_programs_of_others": "the programs in /usr/bin are the image's, which nobody else runs",
}
"""What is not tried. Nothing has to be left out for the machine's sake: what asks the kernel for its worst (kexec, swap,
modules, the clock, reboot) does so with arguments that it refuses, what opens sysrq or a disk closes it again, what
mounts or names the host does so in namespaces of the container's own, and where a container is not as cell.py wants
it, nothing is tried at all.
"""

ONCE = re.findall(r"^@attempt\ndef (\w+)", (HERE / "attempts.py").read_text(), re.MULTILINE)
TRIED = [name for name in ONCE if name not in LEFT_OUT]
OUTSIDE = ["outside_files", "outside_processes", "outside_sockets"]
BOMBS = [*(f"takes_{name}" for name in bombs.GREEDY), *(f"stays_{name}" for name in bombs.LASTING)]


class Attack:
    """Runs the attempts in containers, aimed at a scene on this host."""

    def __init__(self, image, secret, state):
        # The engine is to keep what it finds in its environment to itself.
        env = {**ENV, "SECRET": secret}
        self.zygote = Zygote()
        self.podman = Container("podman", self.zygote, env=env, state=state, options=OPTIONS)
        self.job = Job(("python3", "-u", "-"), image=image, capture=Capture(tail=1 << 20))

    async def run(self, code, **limits):
        return await self.podman.run(replace(self.job, stdin=code, limits=Limits(**limits)))

    async def look(self):
        """Return what is wrong with a container."""
        seen = json.loads((await self.run((HERE / "cell.py").read_bytes())).finished.stdout.text)
        return cell.problems(
            seen, {name: os.readlink(f"/proc/self/ns/{name}") for name in cell.NAMESPACES}, str(NOBODY)
        )

    async def attempts(self, targets):
        code = f"TARGETS = {targets!r}\n{(HERE / 'attempts.py').read_text()}".encode()
        done = await self.run(code, wall=SECONDS_OF_ATTEMPTS, cpu=SECONDS_OF_ATTEMPTS)
        said = done.finished.stdout.text
        assert "\n{" in said, done
        return json.loads(said.rsplit("\n", 2)[-2]), done.reasons

    async def greedy(self):
        found = {}
        for name in bombs.GREEDY:
            done = (await self.run(bombs.greedy(name), **bombs.LIMITS)).finished
            note = f"{done.killed_by} {done.exit_code} {done.stdout.text[-50:]} {done.stderr.text[-150:]}"
            found[f"takes_{name}"] = ["ESCAPED" in done.stdout.text, note]
        return found

    async def lasting(self):
        marks = {name: f"{1000 + number}.{time.monotonic_ns()}" for number, name in enumerate(bombs.LASTING)}
        limits = bombs.LIMITS | {"wall": LASTING_SECONDS}
        seen = set()

        async def watch():
            while True:
                # Once through all processes for every mark: some of them live for 2 ms.
                shown = {text for _, texts in await asyncio.to_thread(list, command_lines()) for text in texts}
                seen.update(name for name, mark in marks.items() if mark.encode() in shown)
                await asyncio.sleep(0.02)

        watching = asyncio.create_task(watch())
        # They mostly wait, and none minds the others.
        await asyncio.gather(*(self.run(bombs.lasting(name, mark), **limits) for name, mark in marks.items()))
        watching.cancel()
        left = {name: marked(mark) for name, mark in marks.items()}
        return {f"stays_{name}": [bool(pids), f"{pids} left"] for name, pids in left.items()}, seen


def marked(mark):
    """Return the processes whose command line holds a mark; from here, those of every container are seen."""
    return [pid for pid, texts in command_lines() if mark.encode() in texts]


def command_lines():
    """Yield each process with what its command line holds."""
    # The latest first, as it may be gone soonest.
    for pid in sorted(map(int, filter(str.isdecimal, os.listdir("/proc"))), reverse=True):
        with contextlib.suppress(OSError):
            # Of a process whose first thread has ended, another one shows it.
            threads = Path(f"/proc/{pid}/task").iterdir()
            yield pid, {text for thread in threads for text in (thread / "cmdline").read_bytes().split(b"\0")}


def mounted():
    """Return where something of this host's own is mounted; podman's store is where nothing else is."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    of_containers = ("/proc", "/sys", "/dev", "/run", "/tmp", "/etc")
    own = (place for place in places if place != "/" and not place.startswith(of_containers))
    return next(own, "/var/lib/containers/storage/overlay")


@pytest.fixture(scope="module")
def report(image, tmp_path_factory):
    """Return {"problems", "attempts": {name: [succeeded, note]}, "degraded", "seen"}; no attempts where are problems.

    seen: what lasts and was seen to run while its container did.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="scene-"))
        # Anybody may enter: what keeps the attempts out has to be the container, not the permissions.
        os.chmod(folder, 0o777)
        python, _ = world.interpreter(NOBODY)
        code = f"{(HERE / 'victims.py').read_text()}\nstay(*sys.argv[1:])"
        argv = [sys.executable, "-I", "-S", str(HERE / "drop.py"), str(NOBODY)]
        argv += [python, "-I", "-S", "-B", "-c", code, folder, mounted()]
        pipe = subprocess.PIPE
        scene = stack.enter_context(subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env={}))
        targets = json.loads(scene.stdout.readline())
        descriptors = [os.open(targets["file"], os.O_RDONLY), *os.pipe()]
        descriptors += [end.detach() for end in socket.socketpair()]
        for fd in descriptors:
            os.set_inheritable(fd, True)
            stack.callback(os.close, fd)
        state = tmp_path_factory.mktemp("state")
        made = asyncio.run(attacked(Attack(image, targets["secret"], state), targets | {"only": TRIED}))
        scene.stdin.write("\n")
        scene.stdin.flush()
        seen = json.loads(scene.stdout.readline())
        made["attempts"] |= {kind: [bool(traces), ", ".join(traces)] for kind, traces in seen.items()}
        scene.stdin.close()
        assert scene.wait(20) == 0
    return made


async def attacked(attack, targets):
    async with contextlib.aclosing(attack.zygote):
        problems = await attack.look()
        if problems:
            return {"problems": problems, "attempts": {}}
        found, degraded = await attack.attempts(targets)
        found |= await attack.greedy()
        stayed, seen = await attack.lasting()
        return {"problems": [], "attempts": found | stayed, "degraded": degraded, "seen": seen}


def test_nothing_is_tried_in_a_container_with_a_way_out(report):
    assert report["problems"] == []


def test_every_attempt_is_made(report):
    assert set(report["attempts"]) == {*TRIED, *OUTSIDE, *BOMBS}
    assert set(LEFT_OUT) < set(ONCE)


def test_each_attempt_is_contained(report):
    attempts, left = report["attempts"], residue.RESIDUE["podman"]
    assert {name: found for name, found in attempts.items() if found[0] != (name in left)} == {}


def test_what_would_last_did_run(report):
    assert {name for name, code in bombs.LASTING.items() if "time.sleep(20)" in code} <= report["seen"]


def test_a_back_end_that_contains_less_says_so(report):
    assert bool(report["degraded"]) == bool(residue.RESIDUE["podman"] - residue.UNFLAGGED)


def test_no_container_is_left(report):
    assert containers() == []


SOUND = {
    "status": {
        **{name: ["65534"] * 4 for name in ("Uid", "Gid")},
        **{f"Cap{name}": ["0000000000000000"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")},
        "Groups": ["65534"],
        "NoNewPrivs": ["1"],
        "Seccomp": ["2"],
    },
    "namespaces": dict.fromkeys(cell.NAMESPACES, "own"),
    "mounts": [
        {"root": "/", "place": "/", "flags": ["ro"], "more": [], "kind": "overlay"},
        {"root": "/", "place": "/tmp", "flags": ["rw"], "more": [], "kind": "tmpfs"},
    ],
    "kernel": [],
    "disks": [],
}


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (["status", "Uid"], ["65534", "0", "0", "0"], "it is user"),
        (["status", "Gid"], ["0"] * 4, "it is user"),
        (["status", "Groups"], ["65534", "0"], "of the groups"),
        (["status", "CapEff"], ["0000000000200000"], "it has CapEff"),
        (["status", "CapBnd"], ["0000000000200000"], "it has CapBnd"),
        (["status", "NoNewPrivs"], ["0"], "new privileges are possible"),
        (["status", "Seccomp"], ["0"], "no system call is filtered"),
        *[(["namespaces", name], "host", f"shares the host's {name} namespace") for name in cell.NAMESPACES],
        (["mounts", 0, "flags"], ["rw"], "/ shows / of a overlay, writable"),
        (["mounts", 1, "kind"], "ext4", "/tmp shows / of a ext4, writable"),
        (
            ["mounts", 1],
            {"root": "/", "place": "/mnt", "flags": ["ro"], "more": [], "kind": "ext4"},
            "/mnt is the root",
        ),
        (["mounts", 1, "more"], ["shared:5"], "mounted elsewhere too"),
        (["kernel"], ["/proc/sysrq-trigger"], "/proc/sysrq-trigger can be written"),
        (["disks"], ["sda"], "/dev/sda is a disk"),
    ],
)
def test_a_way_out_is_seen(place, value, problem):
    host = dict.fromkeys(cell.NAMESPACES, "host")
    assert cell.problems(SOUND, host, "65534") == []
    spoiled = copy.deepcopy(SOUND)
    part = spoiled
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    assert problem in " ".join(cell.problems(spoiled, host, "65534"))
