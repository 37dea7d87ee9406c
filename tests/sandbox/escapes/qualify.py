"""What the service makes of the back ends in a world, as it is and with parts of the kernel taken away.

A round returns {"doctor": {back end: [qualifies, reasons]}, "auto": answer, "named": {back end: answer}}, where an
answer is [runtime, reasons, output] or [error code, message].
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

CODE = "print(6 * 7)"
NAMED = ("bubblewrap", "native", "landlock", "none", "docker", "seatbelt")
CLONE, UNSHARE = (56, 220), (272, 97)
NEW_NAMESPACES = 0x7E020000
LANDLOCK = (444, 445, 446)


async def run(name: str) -> dict[str, Any]:
    """Run a round."""
    ROUNDS[name]()
    if name == "leaky":
        return {"doctor": await _leaky()}
    found: dict[str, Any] = {"named": {}}
    async with _sandbox("auto") as sandbox:
        found["doctor"] = {name: [probe.ok, probe.reasons] for name, probe in (await sandbox.doctor()).items()}
        found["auto"] = await _answer(sandbox)
    for runtime in NAMED:
        async with _sandbox(runtime) as sandbox:
            found["named"][runtime] = await _answer(sandbox)
    return found


def _sandbox(runtime: str) -> Any:
    from toolbox_mcp.sandbox.service import Sandbox, SandboxSettings

    for folder in ("/srv/state", "/srv/temp", "/home/operator"):
        os.makedirs(folder, exist_ok=True)
    Path("/home/operator/.private").touch()
    # Only Python: what else this machine has is no part of it.
    os.makedirs("/srv/bin", exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(sys.executable, "/srv/bin/python3")
    settings = SandboxSettings(
        state=Path("/srv/state"),
        temp=Path("/srv/temp"),
        home="/home/operator",
        env={"PATH": "/srv/bin"},
        runtime=runtime,
    )
    return contextlib.aclosing(Sandbox(settings))


async def _answer(sandbox: Any) -> list[Any]:
    from toolbox_mcp.safety.errors import ToolError

    try:
        done = await sandbox.run_code("python", CODE)
    except ToolError as failure:
        return [failure.code.value, failure.error]
    return [done.runtime, done.reasons, done.finished.stdout.text + done.finished.stderr.text]


def _nothing() -> None:
    """Leave the world as it is."""


def _filter(*, namespaces: bool, landlock: bool) -> None:
    """Take calls away from this process and all it starts, as the default filter of docker does."""
    from toolbox_mcp.sandbox.linux import seccomp
    from toolbox_mcp.sandbox.linux.bpf import Filter, error

    arch = seccomp.architecture()
    assert arch is not None
    column = 0 if arch == seccomp.X86_64 else 1
    rules = Filter(arch)
    if not landlock:
        rules.answer(LANDLOCK, error(38))
    if not namespaces:
        rules.answer([UNSHARE[column]], error(1))
        rules.answer([435], error(38))
        rules.never_with_bits(CLONE[column], 0, NEW_NAMESPACES, error(1))
    seccomp.install(rules.program())


def _no_landlock() -> None:
    _filter(namespaces=True, landlock=False)


def _no_namespaces() -> None:
    _filter(namespaces=False, landlock=True)


def _neither() -> None:
    _filter(namespaces=False, landlock=False)


class Leaky:
    """Runs a job without a sandbox, as a back end would that does not work and does not know."""

    name = "leaky"

    def __init__(self, *wrapper: str) -> None:
        """wrapper: a program, with its arguments, that confines a little."""
        self.wrapper = wrapper

    async def probe(self) -> Any:
        """Claim to work."""
        from toolbox_mcp.sandbox.spec import Probe

        return Probe(True)

    async def run(self, job: Any) -> Any:
        """Run it, with every descriptor and the whole environment."""
        from toolbox_mcp.sandbox.process.capture import Stream
        from toolbox_mcp.sandbox.process.child import Usage
        from toolbox_mcp.sandbox.process.runner import Finished
        from toolbox_mcp.sandbox.spec import Result

        done = await asyncio.to_thread(
            subprocess.run, [*self.wrapper, *job.argv], input=job.stdin, capture_output=True, close_fds=False
        )
        out, err = (Stream(text.decode(), len(text), False, text) for text in (done.stdout, done.stderr))
        return Result(Finished(done.returncode, None, False, None, 0, out, err, Usage()), self.name)


async def _leaky() -> dict[str, Any]:
    """Qualify what confines nothing, and what leaves one thing open."""
    from toolbox_mcp.sandbox.backends.probes import qualify
    from toolbox_mcp.sandbox.spec import Job

    async with _sandbox("auto"):
        pass
    bwrap = [shutil.which("bwrap") or "", "--die-with-parent", "--unshare-user"]
    whole = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    closed = ["--tmpfs", "/tmp", "--tmpfs", "/home", "--unshare-pid", "--unshare-net", "--new-session"]
    kinds = {
        "nothing": (),
        "read-only": (*bwrap, *whole),
        "all but memory, descriptors and numbers": (*bwrap, *whole, *closed),
        "all but the network": (*bwrap, *whole, *[part for part in closed if part != "--unshare-net"]),
        "all but processes": (*bwrap, *whole, *[part for part in closed if part != "--unshare-pid"]),
    }
    found = {}
    for name, wrapper in kinds.items():
        probe = await qualify(Leaky(*wrapper), Job(argv=(sys.executable, "-")), "/home/operator")
        found[name] = [probe.ok, probe.reasons]
    return found


ROUNDS = {
    "as it is": _nothing,
    "no Landlock": _no_landlock,
    "no namespaces": _no_namespaces,
    "neither": _neither,
    "leaky": _nothing,
}
