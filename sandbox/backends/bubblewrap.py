"""The bubblewrap back end: /usr/bin/bwrap with the tightest arguments, and what it cannot do done around it.

bwrap limits neither processes nor memory nor the number of files, keeps every inherited descriptor, shows its own
environment inside, and as root leaves /proc/sys writable. The supervisor starts it as nobody with an empty
environment, limits and nothing open, and fetches the scratch folder while the program waits at a gate.
"""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...safety.errors import ToolError
from ..linux.confine import SYSTEM
from ..linux.namespaces import PROC_HIDDEN, barrier
from ..linux.privileges import can_become
from ..linux.program_supervisor import FILTER_FD, GO_FD, INFO_FD, READY_FD
from ..linux.zygote_client import SetupFailed, SupervisedProcess, Zygote, unavailable
from ..process.runner import Finished
from ..scratch import used_inodes
from ..spec import Job, Probe, Result
from .local import NOBODY, SHARED, death_by_status, finish, message, program

_GATE = (
    '{ ulimit -u "$0" 2>&- || ulimit -p "$0"; } && '
    f'echo >&{READY_FD} && read -r _ <&{GO_FD} && exec "$@" {READY_FD}>&- {GO_FD}<&-'
)
"""Limits the processes, tells the supervisor that the sandbox stands, and waits for its word.

It has no variables: those of the program could have it load other code, before the limits hold and the clock runs.
Set inside, the limit counts the processes of this sandbox's user namespace. -u is bash's name for it, -p dash's;
descriptors below 10 are all that dash can name.
"""


class Bubblewrap:
    """Programs in bubblewrap."""

    name = "bubblewrap"

    def __init__(self, zygote: Zygote, *, extra: Sequence[str] = ()) -> None:
        """Use a zygote, which the caller closes. extra: more arguments for bwrap."""
        self._zygote = zygote
        self._extra = tuple(extra)
        self._path = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")

    async def probe(self) -> Probe:
        """Return True if bwrap is there and may do its work, by starting a program."""
        if sys.platform != "linux":
            return Probe(False, ("not Linux",))
        if self._path is None:
            return Probe(False, ("bwrap is not installed",))
        try:
            result = await self._run(Job(argv=("/bin/true",)))
        except (SetupFailed, ToolError) as failure:
            return Probe(False, (str(failure),))
        code = result.finished.exit_code
        return Probe(code == 0, () if code == 0 else (f"/bin/true exits with {code}",))

    async def start(self, job: Job, *, ahead: bool = False) -> SupervisedProcess:
        """Start a program. Raises SetupFailed. ahead: it will wait for its stdin, for any time."""
        if self._path is None:
            raise SetupFailed("bwrap is not installed")
        if can_become(NOBODY):
            # bwrap is nobody then and cannot name what lies below a closed folder; neither can what runs in it.
            protected = tuple(path for path in job.files.protected if barrier(path, NOBODY) is None)
            job = replace(job, files=replace(job.files, protected=protected))
        argv = arguments(job, bwrap=self._path, extra=self._extra)
        return await self._zygote.start(message(job, "bubblewrap", argv=argv, uncover=list(job.files.read)))

    async def run(self, job: Job) -> Result:
        """Run a job to its end."""
        try:
            return await self._run(job)
        except SetupFailed as failure:
            raise unavailable(self.name, str(failure)) from None

    async def finish(self, process: SupervisedProcess, job: Job) -> Result:
        """Bring a program that start() returned to its end."""
        return await finish(process, job, self.name, inspect=_inodes(job), translate=lambda done: _translate(done, job))

    async def discard(self, process: SupervisedProcess) -> None:
        """End a program that start() returned and that nobody needs."""
        await process.discard()

    async def aclose(self) -> None:
        """Hold nothing: the zygote is the caller's."""

    async def _run(self, job: Job) -> Result:
        return await self.finish(await self.start(job), job)


def arguments(job: Job, *, bwrap: str, extra: Sequence[str] = ()) -> list[str]:
    """Return the command line for a job, with the descriptors that the supervisor provides."""
    argv = [bwrap, "--unshare-all", "--unshare-user", "--disable-userns", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    argv += ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    if job.network:
        argv += ["--share-net"]
    for path in SYSTEM:
        argv += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind-try", path, path]
    argv += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    for path in (f"/proc/{name}" for name in PROC_HIDDEN):
        argv += ["--ro-bind", "/dev/null", path] if os.path.exists(path) else []
    argv += ["--remount-ro", "/proc"]
    argv += ["--dev", "/dev", "--size", str(SHARED), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
    # The number of terminals is the whole machine's, and no program here has one.
    argv += ["--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"]
    argv += ["--size", str(job.limits.disk), "--tmpfs", "/tmp"]  # noqa: S108
    for path in job.files.read:
        argv += ["--ro-bind-try", path, path]
    for path in job.files.write:
        argv += ["--bind", path, path]
    for path in job.files.protected:
        argv += ["--ro-bind", path, path]
    for place, target in job.files.links:
        argv += ["--symlink", target, place]
    argv += ["--remount-ro", "/", "--chdir", job.cwd]
    argv += ["--seccomp", str(FILTER_FD), "--info-fd", str(INFO_FD), *extra]
    return [*argv, "--", "/bin/sh", "-c", _GATE, str(job.limits.processes + 1), *_with_environment(job)]


def _with_environment(job: Job) -> list[str]:
    """Return the command that starts the program with its variables, which the gate before it lacks."""
    env = dict(job.env) | {"TMPDIR": "/tmp"}  # noqa: S108 - the sandbox's own
    argv = program(job)
    if "=" in argv[0]:
        # env would take it for a variable.
        argv = ["/bin/sh", "-c", 'exec "$0" "$@"', *argv]
    return ["/usr/bin/env", "-i", "--", *(f"{name}={value}" for name, value in sorted(env.items())), *argv]


def _inodes(job: Job) -> Callable[[int], str | None]:
    """Judge the number of files, which bwrap's tmpfs does not limit."""
    return lambda scratch: "disk" if used_inodes(scratch) > job.limits.inodes else None


def _translate(done: Finished, job: Job) -> Finished:
    """Read bwrap's exit status: 128 + the signal that ended its program."""
    return done if done.killed_by or done.signal else death_by_status(done, job.limits)
