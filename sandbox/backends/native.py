"""The native back end: Landlock, seccomp, namespaces and rlimits by system calls alone, no external program."""

import contextlib
import os
import resource
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from anyio import CancelScope, to_thread

from ...safety.errors import ToolError
from ..linux import landlock, privileges, seccomp
from ..linux.zygote_client import SetupFailed, SupervisedProcess, Zygote, unavailable
from ..process import tree
from ..spec import Job, Probe, Result
from .local import NOBODY, finish, inside, message

SEEN_OUTSIDE = "no namespaces: names and attributes of files outside can be seen"
SIGNALS_OUTSIDE = "Landlock ABI below 6 and no pid namespace: processes of the same user can be signalled"

_SIGNALS_ABI = 6
_TO_COME = 1024
"""Processes that an ordinary user may start while a program waits; the limit is set anew when it stops waiting."""


class Native:
    """Programs in a root of their own (namespaces) or, where the system gives none, beside the others (landlock)."""

    def __init__(self, zygote: Zygote, *, namespaces: bool, folder: Path) -> None:
        """Use a zygote, which the caller closes. folder: where scratch folders are made without namespaces."""
        self._zygote = zygote
        self._namespaces = namespaces
        self._folder = folder

    @property
    def name(self) -> str:
        """native or landlock."""
        return "native" if self._namespaces else "landlock"

    async def probe(self) -> Probe:
        """Return True if the kernel has what it takes, by starting a program."""
        if sys.platform != "linux":
            return Probe(False, ("not Linux",))
        if seccomp.architecture() is None:
            return Probe(False, (f"no system call filter for {os.uname().machine}",))
        if not self._namespaces and landlock.abi() < 1:
            return Probe(False, ("the kernel has no Landlock",))
        job = Job(argv=("/bin/true",))
        try:
            result = await self.finish(await self.start(job), job)
        except (SetupFailed, ToolError) as failure:
            return Probe(False, (str(failure),))
        if result.finished.exit_code:
            return Probe(False, (f"/bin/true exits with {result.finished.exit_code}",))
        return Probe(True, result.reasons)

    async def run(self, job: Job) -> Result:
        """Run a job to its end."""
        try:
            return await self.finish(await self.start(job), job)
        except SetupFailed as failure:
            raise unavailable(self.name, str(failure)) from None

    async def start(self, job: Job, *, ahead: bool = False) -> SupervisedProcess:
        """Start a program. Raises SetupFailed. ahead: it will wait for its stdin, for any time."""
        if self._namespaces:
            return await self._zygote.start(message(job, "namespaces", in_process=job.in_process))
        scratch = tempfile.mkdtemp(prefix="run-", dir=self._folder)
        try:
            if privileges.can_become(NOBODY):
                os.chown(scratch, NOBODY, NOBODY)
            env = inside(job.env, scratch)
            cwd = scratch if job.cwd == "/tmp" else job.cwd  # noqa: S108 - the sandbox's own
            order = message(job, "landlock", scratch=scratch, env=env, cwd=cwd, in_process=job.in_process)
            # Without a user namespace the kernel counts every process of the user, not those of this program.
            order["limits"]["processes"] += _tasks_of_user() + (_TO_COME if ahead and os.geteuid() else 0)
            process = await self._zygote.start(order)
        except BaseException:
            remove(scratch)
            raise
        process.folder = scratch
        return process

    async def finish(self, process: SupervisedProcess, job: Job) -> Result:
        """Bring a program that start() returned to its end."""
        if self._namespaces:
            return await finish(process, job, self.name)
        try:
            if process.program is not None and os.geteuid():
                _lower_processes(process.program, job.limits.processes + _tasks_of_user())
            inspect = _quota(job, process.folder, process.pid) if process.folder else None
            return await finish(process, job, self.name, missing_features(landlock.abi()), inspect=inspect)
        finally:
            await self._clear(process)

    async def discard(self, process: SupervisedProcess) -> None:
        """End a program that start() returned and that nobody needs."""
        try:
            await process.discard()
        finally:
            await self._clear(process)

    async def aclose(self) -> None:
        """Hold nothing: the zygote is the caller's."""

    async def _clear(self, process: SupervisedProcess) -> None:
        if process.folder:
            with CancelScope(shield=True):
                await to_thread.run_sync(remove, process.folder)


def missing_features(abi: int) -> tuple[str, ...]:
    """Return the gaps without namespaces under a Landlock ABI."""
    return (SEEN_OUTSIDE,) if abi >= _SIGNALS_ABI else (SEEN_OUTSIDE, SIGNALS_OUTSIDE)


def remove(folder: str) -> None:
    """Remove a scratch folder, also where the program took permissions away inside it."""

    def permit(action: Callable[..., object], path: str, error: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            if not os.path.islink(path):
                os.chmod(path, stat.S_IRWXU)
            action(path)

    shutil.rmtree(folder, onerror=permit)
    if os.path.isdir(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _quota(job: Job, scratch: str, supervisor: int) -> Callable[[int], str | None]:
    """Judge a folder on the host's own disk, which has no size of its own."""
    device = os.stat(scratch).st_dev

    def inspect(_: int) -> str | None:
        size, count = measure(scratch, job.limits.inodes)
        size += measure_nameless((process.pid for process in tree.descendants(supervisor)), device)
        return "disk" if size > job.limits.disk or count > job.limits.inodes else None

    return inspect


def measure_nameless(pids: Iterable[int], device: int) -> int:
    """Return the bytes on a disk of files that processes have open and that have no name any more."""
    sizes: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    seen = entry.stat()
                    if seen.st_dev == device and seen.st_nlink == 0 and stat.S_ISREG(seen.st_mode):
                        sizes[seen.st_ino] = seen.st_blocks * 512
    return sum(sizes.values())


def measure(folder: str, most: int) -> tuple[int, int]:
    """Return (bytes on disk, files) below a folder, giving up above `most` files."""
    size = count = 0
    waiting = [folder]
    while waiting and count <= most:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    seen = entry.stat(follow_symlinks=False)
                    size += seen.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return size, count


def _lower_processes(pid: int, most: int) -> None:
    """Lower the limit on processes that a program of this user was started with."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NPROC)
        if most < soft:
            resource.prlimit(pid, resource.RLIMIT_NPROC, (most, min(most, hard)))


def _tasks_of_user() -> int:
    """Return the number of threads of the user that programs will run as."""
    user = NOBODY if privileges.can_become(NOBODY) else os.getuid()
    count = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count
