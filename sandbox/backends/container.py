"""The container back end: one throw-away container a program, by docker or podman."""

import asyncio
import contextlib
import math
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from anyio import CancelScope, to_thread

from ...safety.errors import Code, ToolError
from ..linux import profile
from ..linux.zygote_client import Zygote, unavailable
from ..process.runner import Finished, run
from ..spec import MIB, Job, Limits, Probe, Result
from .local import NOBODY, SHARED, death_by_status, watched

_PROBE_SECONDS = 20.0
_KILL_SECONDS = 10.0
_PULL_SECONDS = 600.0
START_SECONDS = 5.0
"""What a container takes to start and to be removed, beside the program's own time; a guess."""

_ENGINE_FAILED, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127

ENGINE_VARIABLES = (
    "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_API_VERSION",
    "CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY", "CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE",
    "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip
"""Variables by which an operator tells docker and podman where and how they work.

No proxies: podman would hand them on to the container, with the passwords in them.
"""

_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
_LOCKED, _SIGNALS = 64 * 1024, 256  # as in linux/rlimits.py

ENGINE_FILTERS = "system calls are filtered by the engine alone: more of the kernel can be reached"
"""What is said of a podman whose service is elsewhere: it looks for the filter there."""

_SUPERVISOR = """exec 3>&2 2>/dev/null
command -v "$1" >&2 || { echo "$0 missing" >&3; cat >&2; exit 127; }
(exec "$@" 2>&3 3>&-)
status=$?
trap 'exit $status' EXIT
[ $status = 137 ] && for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  while read -r name count; do [ "$name" = oom_kill ] && [ "$count" != 0 ] && echo "$0 memory" >&3; done <"$file"
done
cat >&2"""
"""Pid 1 of a container, which adds a last line to stderr: NAME missing, or NAME memory.

A container that --rm has removed cannot be asked any more what killed its program (OOMKilled), and podman with
runc on cgroup v1 does not know it; the kernel counts it where the container sees it. A program that
forges the line only misnames its own death. The parentheses keep dash from saying "Killed" there.
What the program left unread of its stdin is read at the end: podman loses all output of one container in a hundred
that ends with some in its socket. A shell that has no process left for that ends with the program's status too.
"""


class Container:
    """Programs in containers. Nothing of the host is mounted but what a job names."""

    def __init__(
        self,
        engine: str,
        zygote: Zygote,
        *,
        env: Mapping[str, str],
        state: Path,
        options: Sequence[str] = (),
        run_options: Sequence[str] = (),
    ) -> None:
        """Use an engine, which the zygote starts: docker or podman, found on the PATH of env, which also carries ENGINE_VARIABLES.

        state: a folder of the server's own, where the engine finds the filter of system calls. options: arguments
        before `run` (podman: `--runtime runc`). run_options: more arguments of run (docker: `--runtime=runsc`).
        """
        self._engine = engine
        self._zygote = zygote
        self._env = dict(env)
        self._state = state
        self._options = tuple(options)
        self._run_options = tuple(run_options)
        self._remote: bool | None = None
        self._filters: dict[bool, str] = {}

    @property
    def name(self) -> str:
        """docker or podman."""
        return self._engine

    async def probe(self) -> Probe:
        """Return True if the engine is installed and answers."""
        try:
            answer = await self._command(["info"], _PROBE_SECONDS)
            lacking = _lacking(await self._filter(network=False))
        except ToolError as failure:
            return Probe(False, (failure.error,))
        if answer.exit_code:
            said = (answer.stderr.text or answer.stdout.text).strip().splitlines()
            return Probe(False, (said[-1][:300] if said else f"{self._engine} info failed",))
        return Probe(True, lacking)

    async def has(self, image: str) -> bool:
        """Return True if an image is on this machine."""
        return (await self._command(["image", "inspect", image], _PROBE_SECONDS)).exit_code == 0

    async def fetch(self, image: str) -> None:
        """Get an image from its registry. Raises ToolError(sandbox_unavailable)."""
        done = await self._command(["pull", image], _PULL_SECONDS)
        if done.exit_code:
            said = done.stderr.text.strip().splitlines()
            raise unavailable(self._engine, f"{image} cannot be fetched: {said[-1] if said else 'no reason given'}")

    async def run(self, job: Job) -> Result:
        """Run a job to its end. Its container is gone afterwards, however it ends."""
        name = f"toolbox-{secrets.token_hex(8)}"
        seccomp = await self._filter(network=job.network)
        most = None if self._engine != "podman" or self._remote else _most_processes()
        more = arguments(job, name, seccomp=seccomp, most_processes=most, extra=self._run_options)
        argv = [*self._base(), *more]
        finished = False
        try:
            done = await run(
                self._zygote,
                argv,
                cwd="/",
                # An image is fetched through a proxy, but what runs in it would learn its password.
                env={name: value for name, value in self._env.items() if name.lower() not in _PROXIES},
                timeout=job.limits.wall + START_SECONDS,
                stdin=job.stdin,
                capture=job.capture,
                limits=replace(watched(job.limits), memory=None, processes=None, rlimits=None),
            )
            finished = not done.timed_out and done.killed_by is None
        finally:
            with CancelScope(shield=True):
                await self._remove(name, running=not finished)
        return Result(self._judge(done, job, name), self._engine, _lacking(seccomp))

    async def aclose(self) -> None:
        """Hold nothing."""

    def _judge(self, done: Finished, job: Job, name: str) -> Finished:
        if done.killed_by:
            return done
        told, done = _last_words(done, name)
        if told == "missing":
            raise ToolError(Code.UNAVAILABLE, f"{job.argv[0]} is not in the image {job.image}")
        if done.exit_code in (_ENGINE_FAILED, _NOT_EXECUTABLE, _NOT_FOUND) and (said := self._complaint(done)):
            raise unavailable(self._engine, said)
        return death_by_status(done, job.limits, told)

    def _complaint(self, done: Finished) -> str | None:
        """Return the message of the engine itself, which starts as programs hardly do: `Error: ` or `docker: `."""
        lines = done.stderr.text.strip().splitlines()
        return next((line for line in lines if line.startswith(("Error: ", f"{self._engine}: "))), None)

    async def _filter(self, *, network: bool) -> str | None:
        """Return the file with the filter of system calls, None where the engine would not find it."""
        if self._remote is None:
            # docker reads the file itself and hands over what stands in it.
            asked = ["info", "--format", "{{.Host.ServiceIsRemote}}"]
            self._remote = (
                self._engine == "podman" and "true" in (await self._command(asked, _PROBE_SECONDS)).stdout.text
            )
        if self._remote:
            return None
        if network not in self._filters:
            file = self._state / f"container-filter{'-network' if network else ''}.json"
            try:
                await to_thread.run_sync(_write, file, profile.build(network=network))
            except OSError as failure:
                raise unavailable(
                    self._engine, f"the filter of system calls cannot be written: {failure.strerror}"
                ) from None
            self._filters[network] = str(file)
        return self._filters[network]

    async def _remove(self, name: str, *, running: bool) -> None:
        """Remove by name: the client's end does not end the container, which may still be about to start.

        Also one whose program has ended: the engine's own --rm can be interrupted.
        """
        for _ in range(3 if running else 1):
            with contextlib.suppress(ToolError):
                if running:  # rm alone waits for the program to obey SIGTERM
                    await self._command(["kill", name], _KILL_SECONDS)
                if (await self._command(["rm", "--force", name], _KILL_SECONDS)).exit_code == 0 or not running:
                    return
            await asyncio.sleep(0.2)

    async def _command(self, words: Sequence[str], timeout: float) -> Finished:
        return await run(self._zygote, [*self._base(), *words], cwd="/", env=self._env, timeout=timeout)

    def _base(self) -> list[str]:
        return [self._engine, *self._options]


def arguments(
    job: Job,
    name: str,
    *,
    seccomp: str | None = None,
    most_processes: int | None = None,
    extra: Sequence[str] = (),
) -> list[str]:
    """Return the arguments of docker or podman that run a job in a container of that name.

    seccomp: the file with the filter of system calls. most_processes: of the program's user, in and outside of the
    container; None leaves it to the engine. extra: what an operator adds.
    """
    limits = job.limits
    memory = f"{math.ceil(limits.memory / MIB)}m"
    argv = ["run", "--rm", "-i", "--pull=never", "--name", name, "--network", "host" if job.network else "none"]
    # Else all that the program writes would be kept on the host's disk, or in its journal.
    argv += ["--log-driver", "none"]
    argv += ["--memory", memory, "--memory-swap", memory, "--cpus", f"{limits.cpus:g}"]
    argv += ["--pids-limit", str(limits.processes + 1)]
    for kind, soft, hard in _ulimits(limits):
        argv += ["--ulimit", f"{kind}={soft}:{hard}"]
    if most_processes is not None:
        argv += ["--ulimit", f"nproc={most_processes}:{most_processes}"]
    argv += ["--read-only", "--shm-size", f"{SHARED // MIB}m"]
    argv += ["--tmpfs", f"/tmp:rw,exec,nosuid,nodev,size={math.ceil(limits.disk / MIB)}m"]  # noqa: S108 - the container's own
    # podman makes it writable in a read-only container, and of any size.
    argv += ["--tmpfs", "/var/tmp:ro,size=4k"]  # noqa: S108
    argv += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    if seccomp is not None:
        argv += ["--security-opt", f"seccomp={seccomp}"]
    argv += ["--user", f"{NOBODY}:{NOBODY}", "-w", job.cwd]
    for variable, value in sorted(job.env.items()):
        if variable != "PATH":
            argv += ["-e", f"{variable}={value}"]
    for path in job.files.read:
        argv += ["--mount", f"{_bind(path)},readonly"]
    for path in job.files.write:
        argv += ["--mount", _bind(path)]
    for path in job.files.protected:
        argv += ["--mount", f"{_bind(path)},readonly"]
    # Not what the image would start, which may be anything.
    argv += ["--entrypoint", "/bin/sh"]
    return [*argv, *extra, "--", job.image, "-c", _SUPERVISOR, name, *job.argv]


def _lacking(seccomp: str | None) -> tuple[str, ...]:
    return (ENGINE_FILTERS,) if seccomp is None else ()


def _write(file: Path, text: str) -> None:
    """Put a file in its place as a whole: another server may be starting a container with it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    temporary.write_text(text)
    temporary.replace(file)


def _ulimits(limits: Limits) -> list[tuple[str, int, int]]:
    """Return (name, soft, hard) of what the kernel limits for each process. At 1 a core goes to no handler either."""
    cpu = max(1, round(limits.cpu))
    fixed = [("memlock", _LOCKED), ("sigpending", _SIGNALS), ("msgqueue", 0), ("core", 1)]
    alike = [("nofile", limits.files), ("fsize", limits.file_size), *fixed]
    return [("cpu", cpu, cpu + 1), *((kind, value, value) for kind, value in alike)]


def _most_processes() -> int | None:
    """Return the number of processes podman may let a user have; None off Linux.

    podman sets a million where it is told nothing, also where a root may not raise its own limit, and keeps to the
    number of process ids itself.
    """
    if sys.platform != "linux":
        return None
    import resource

    ids = int(Path("/proc/sys/kernel/pid_max").read_text())
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    return ids if hard == resource.RLIM_INFINITY else min(ids, hard)


def _bind(path: str) -> str:
    """Return the mount of a folder of the host at its own place; any name will do, as the engines read it as CSV."""
    quoted = path.replace('"', '""')
    return f'type=bind,"source={quoted}","target={quoted}"'


def _last_words(done: Finished, name: str) -> tuple[str | None, Finished]:
    """Take the supervisor's line off stderr: return missing, memory or None, and the rest."""
    stream = done.stderr
    for word in ("missing", "memory"):
        line = f"{name} {word}\n"
        if stream.raw.endswith(line.encode()):
            size = len(line)
            text = stream.text.removesuffix(line)
            own = replace(stream, text=text, bytes=stream.bytes - size, raw=stream.raw[:-size])
            return word, replace(done, stderr=own)
    return None, done
