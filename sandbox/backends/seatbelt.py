"""The seatbelt back end of macOS: sandbox-exec with a profile that denies by default."""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anyio import to_thread

from ...safety.errors import ToolError
from ..linux.zygote_client import Zygote
from ..process.runner import run
from ..process.spawn import Rlimits
from ..scratch import collect
from ..spec import Job, Probe, Result
from .local import inside, watched
from .macos import quoted
from .native import remove

SANDBOX_EXEC = "/usr/bin/sandbox-exec"

_SYSTEM = (
    "/usr/lib",
    "/usr/bin",
    "/usr/share",
    "/bin",
    "/sbin",
    "/System/Library",
    "/Library/Apple/System/Library",
    "/Library/Developer/CommandLineTools",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/etc/ssl/openssl.cnf",
    "/private/etc/localtime",
)
"""What programs and the dynamic linker read; after the profiles that Apple ships in /System/Library/Sandbox/Profiles."""

_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper")
_SYSCTLS = ("hw.", "kern.osrelease", "kern.ostype", "kern.osversion", "kern.osproductversion", "kern.argmax", "vm.")


class Seatbelt:
    """Programs under a seatbelt profile, in a folder made for each."""

    name = "seatbelt"

    def __init__(self, zygote: Zygote, folder: Path, *, profile: str | None = None) -> None:
        """folder: where scratch folders are made. profile: replaces the generated one."""
        self._zygote = zygote
        self._folder = folder.resolve()  # seatbelt judges real paths, and /tmp is a link
        self._profile = profile

    async def probe(self) -> Probe:
        """Return True if sandbox-exec is there and runs a program."""
        if sys.platform != "darwin":
            return Probe(False, ("not macOS",))
        try:
            result = await self.run(Job(argv=("/usr/bin/true",)))
        except ToolError as failure:
            return Probe(False, (failure.error,))
        code = result.finished.exit_code
        return Probe(code == 0, () if code == 0 else (f"/usr/bin/true exits with {code}",))

    async def run(self, job: Job) -> Result:
        """Run a job to its end."""
        scratch = tempfile.mkdtemp(prefix="run-", dir=self._folder)
        try:
            limits = job.limits
            rlimits = Rlimits(data=limits.data, cpu=max(1, round(limits.cpu)), file_size=limits.file_size)
            done = await run(
                self._zygote,
                arguments(job, scratch, profile=self._profile),
                cwd=scratch,
                env=inside(job.env, scratch),
                timeout=limits.wall,
                stdin=job.stdin,
                capture=job.capture,
                limits=replace(watched(limits), rlimits=rlimits),
            )
            folder = os.open(scratch, os.O_RDONLY)
            try:
                return Result(done, self.name, (), await collect(folder))
            finally:
                os.close(folder)
        finally:
            await to_thread.run_sync(remove, scratch)

    async def aclose(self) -> None:
        """Hold nothing."""


def arguments(job: Job, scratch: str, *, profile: str | None = None) -> list[str]:
    """Return the command line for a job."""
    return [SANDBOX_EXEC, "-p", profile or profile_for(job, scratch), *job.argv]


def profile_for(job: Job, scratch: str) -> str:
    """Return the profile of a job: what is not named here is denied."""
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork)",
        "(allow process-exec (require-any",
        *_subpaths([*_SYSTEM, *job.files.read, *job.files.write, scratch]),
        "))",
        "(allow signal (target same-sandbox))",
        "(allow sysctl-read (require-any",
        *[f"  (sysctl-name-prefix {quoted(name)})" for name in _SYSCTLS],
        "))",
        '(allow file-read-metadata (literal "/") (literal "/private") (literal "/private/tmp") (literal "/tmp"))',
        "(allow file-read* (require-any",
        *_subpaths([*_SYSTEM, *job.files.read, *job.files.write, scratch]),
        *[f"  (literal {quoted(path)})" for path in _DEVICES],
        "))",
        "(allow file-write* (require-any",
        *_subpaths([*job.files.write, scratch]),
        '  (literal "/dev/null")',
        "))",
        *(["(deny file-write* (require-any", *_subpaths(job.files.protected), "))"] if job.files.protected else []),
        # A link to what may not be read is no way round: seatbelt judges the path that a link leads to.
        "(deny file-write-setugid)",
    ]
    if job.network:
        lines += ["(allow network*)", "(allow system-socket)"]
    return "\n".join(lines) + "\n"


def _subpaths(paths: Sequence[str]) -> list[str]:
    return [f"  (subpath {quoted(path)})" for path in dict.fromkeys(paths)]
