"""A back end qualifies by being attacked: whatever it does not contain disqualifies it."""

import contextlib
import json
import os
import secrets
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyio import to_thread

from ...safety.errors import ToolError
from ..linux.privileges import can_become
from ..spec import MIB, Job, Limits, Probe
from . import self_test as attack
from .base import Backend
from .local import NOBODY

# Above the limit by more than other programs of the same user may end meanwhile.
_FORKS = 256
_END_SECONDS = 2.0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_LIMITS = Limits(wall=20, cpu=20, processes=64)


@dataclass
class Bait:
    """What the attack aims at, and what it did to it as seen from outside."""

    targets: dict[str, Any]
    _looks: list[tuple[str, Callable[[], bool]]] = field(default_factory=list)

    def watch(self, name: str, look: Callable[[], bool]) -> None:
        """Add a way to see a success of the attack."""
        self._looks.append((name, look))

    def successes(self) -> list[str]:
        """Return the results of the attack."""
        return [name for name, look in self._looks if look()]


@contextmanager
def bait(home: str) -> Iterator[Bait]:
    """Lay out targets on this host: a file, sockets, a process, an open pipe."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bait-"))
        # Anybody may enter: what keeps the attack out has to be the sandbox, not the permissions.
        os.chmod(folder, 0o777)  # noqa: S103
        secret = secrets.token_hex(16)
        canary, outside, datagram = (os.path.join(folder, name) for name in ("canary", "outside", "datagram"))
        Path(canary).write_text(secret)
        laid = Bait({"canary": canary, "outside": outside, "secret": secret, "home": home, "datagram": datagram})
        laid.targets |= {"forks": _FORKS, "memfd": True, "abstract": f"toolbox-{secrets.token_hex(8)}"}
        _sockets(laid, stack)
        helper = stack.enter_context(_sleeper(secret))
        laid.targets["pid"] = helper.pid
        laid.watch("signal_sent", lambda: _dismiss(helper) != 0)
        laid.watch("file_written", lambda: os.path.exists(outside))
        r, w = os.pipe()
        stack.callback(os.close, r)
        stack.callback(os.close, w)
        os.set_blocking(r, False)
        os.set_inheritable(w, True)
        laid.watch("inherited_descriptor", lambda: _arrived(r))
        yield laid


async def qualify(backend: Backend, python: Job, home: str, *, shell: Job | None = None) -> Probe:
    """Attack a back end and tell whether everything was contained, and why not.

    python: a job that runs Python from stdin, without its code; shell: one that runs a shell from stdin, for a
    back end whose image has no Python. home: the operator's home folder.
    """
    works = await backend.probe()
    if not works.ok:
        return works
    with bait(home) as laid:
        laid.targets["home_names"] = _private(home, python.files.read)
        if shell is not None:
            # Memory of a memfd counts in the memory of a container.
            laid.targets["memfd"] = False
            job, code = shell, attack.shell(laid.targets)
        else:
            job, code = python, attack.python(laid.targets)
        floor = max(job.limits.memory, 64 * MIB)
        attacked = Job(
            argv=job.argv,
            stdin=code,
            files=job.files,
            image=job.image,
            limits=Limits(wall=_LIMITS.wall, cpu=_LIMITS.cpu, processes=_LIMITS.processes, memory=floor),
        )
        try:
            result = await backend.run(attacked)
        except ToolError as failure:
            return Probe(False, (failure.error,))
        said = result.finished.stdout.text.split()
        # Where the kernel counts all processes of a user, others that end leave room for more than the job may have:
        # then the server counts and ends it.
        last = "forking" if result.finished.killed_by == "pids" else "done"
        if not said or said[-1] != last:
            words = result.finished.stderr.text.strip()[-300:] or result.finished.killed_by or "no answer"
            return Probe(False, (f"the self-attack did not finish: {words}",))
        escaped = sorted({*said, *await to_thread.run_sync(laid.successes)} - {"forking", "done"})
    if escaped:
        return Probe(False, (f"does not contain: {', '.join(escaped)}",))
    return Probe(True, works.reasons)


def _private(home: str, shown: Sequence[str]) -> list[str]:
    """Return names in the home that no shown folder needs."""
    try:
        names = os.listdir(home)
    except OSError:
        return []
    return [name for name in names if not any(f"{place}/".startswith(f"{home}/{name}/") for place in shown)][:100]


class Verdicts:
    """Remembers what qualified, for this boot of this kernel, in a file of the state folder."""

    def __init__(self, file: Path, version: str) -> None:
        """version: of this package; another one attacks again."""
        self._file = file
        self._version = version

    async def of(self, key: str, attack_it: Callable[[], Any]) -> Probe:
        """Return the verdict under a key, attacking if there is none. Only successes are remembered."""
        known = await to_thread.run_sync(self._read)
        stamp = f"{self._version}|{_boot()}|{_user()}|{key}"
        if stamp in known:
            return Probe(True, tuple(known[stamp]))
        probe: Probe = await attack_it()
        if probe.ok:
            await to_thread.run_sync(self._write, stamp, probe.reasons)
        return probe

    def _read(self) -> dict[str, list[str]]:
        try:
            with self._file.open() as file:
                seen = os.fstat(file.fileno())
                if hasattr(os, "geteuid") and (seen.st_uid != os.geteuid() or seen.st_mode & _OTHERS_WRITE):
                    return {}
                known = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(known, dict):
            return {}
        return {
            str(key): [str(reason) for reason in reasons] for key, reasons in known.items() if isinstance(reasons, list)
        }

    def _write(self, stamp: str, reasons: tuple[str, ...]) -> None:
        boot = f"|{_boot()}|"
        kept = {key: value for key, value in self._read().items() if boot in key} | {stamp: list(reasons)}
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._file.with_name(f"{self._file.name}.{secrets.token_hex(4)}")
            temporary.touch(0o600)
            temporary.write_text(json.dumps(kept))
            temporary.replace(self._file)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _boot() -> str:
    release = os.uname().release if hasattr(os, "uname") else sys.platform
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + release
    except OSError:
        return release


def _sockets(laid: Bait, stack: ExitStack) -> None:
    tcp = stack.enter_context(socket.socket())
    tcp.bind(("127.0.0.1", 0))
    laid.targets["port"] = tcp.getsockname()[1]
    listening = [("loopback", tcp)]
    if sys.platform == "linux":
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind("\0" + laid.targets["abstract"])
        listening.append(("abstract_socket", abstract))
    for name, listener in listening:
        listener.listen()
        listener.setblocking(False)
        laid.watch(name, lambda listener=listener: _connected(listener))  # type: ignore[misc]
    datagram = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    datagram.bind(laid.targets["datagram"])
    os.chmod(laid.targets["datagram"], 0o777)  # noqa: S103
    laid.watch("datagram_socket", lambda: _arrived(datagram.fileno()))
    datagram.setblocking(False)


@contextmanager
def _sleeper(secret: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that waits for us, as the user that an escaped program would be, with a secret environment."""
    nobody = NOBODY if hasattr(os, "geteuid") and can_become(NOBODY) else None
    process = subprocess.Popen(
        ["/bin/sh", "-c", "read -r _; exit 0"],
        stdin=subprocess.PIPE,
        env={"SECRET": secret},
        cwd="/",
        user=nobody,
        group=nobody,
        extra_groups=None if nobody is None else [],
    )
    try:
        yield process
    finally:
        _dismiss(process)


def _dismiss(process: subprocess.Popen[bytes]) -> int:
    """Let the process end by itself and return its status: one that a signal has ended, if only just, did not."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        return process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        # It may have been stopped.
        process.kill()
        return process.wait()


def _connected(listener: socket.socket) -> bool:
    try:
        connection, _ = listener.accept()
    except OSError:
        return False
    connection.close()
    return True


def _arrived(fd: int) -> bool:
    try:
        return bool(os.read(fd, 1))
    except OSError:
        return False
