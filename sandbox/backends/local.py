"""What the back ends on this host share: a job as the supervisor reads it, and a started program as a result."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...safety.errors import Code, ToolError
from ..linux.confine import SYSTEM
from ..linux.zygote_client import SupervisedProcess
from ..process import runner
from ..process.child import ended_with
from ..process.runner import Finished, attend, cause_of, signal_name
from ..process.spawn import Rlimits
from ..scratch import collect
from ..spec import MIB, Job, Limits, Result

NOBODY = 65534
"""The user that programs run as, inside always and outside where the server is root."""

SHARED = 16 * MIB
"""Bytes of /dev/shm, which counts beside /tmp."""


def message(job: Job, mode: str, *, argv: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """Return a job as the supervisor takes it."""
    limits = job.limits
    return {
        "mode": mode,
        "argv": argv or program(job),
        "env": dict(job.env),
        "cwd": job.cwd,
        "read": [*SYSTEM, *job.files.read],
        "write": list(job.files.write),
        "protected": list(job.files.protected),
        "links": [list(link) for link in job.files.links],
        "limits": {
            "data": limits.data,
            "cpu": max(1, round(limits.cpu)),
            "file_size": limits.file_size,
            "files": limits.files,
            "processes": limits.processes,
        },
        "disk": limits.disk,
        "shared": SHARED,
        "inodes": limits.inodes,
        "cpus": limits.cpus,
        "network": job.network,
        "uid": NOBODY,
        "in_process": False,
    } | more


def program(job: Job) -> list[str]:
    """Return the job's argv with the path of its program, as the environment of the sandbox finds it."""
    name = job.argv[0]
    if "/" in name:
        return list(job.argv)
    for folder in job.env.get("PATH", "").split(":"):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return [path, *job.argv[1:]]
    raise ToolError(
        Code.UNAVAILABLE,
        f"{name} is not installed where a sandboxed program sees it",
        "the sandbox has the system's own folders; outside of it every folder of the server's PATH counts",
    )


async def finish(
    process: SupervisedProcess,
    job: Job,
    runtime: str,
    reasons: tuple[str, ...] = (),
    *,
    inspect: Callable[[int], str | None] | None = None,
    translate: Callable[[Finished], Finished] = lambda done: done,
) -> Result:
    """Feed a started program, bring it to its end, and collect what it left.

    inspect: judges the scratch folder (a descriptor) at each look. translate: reads the status of a wrapper.
    """
    scratch = process.take_scratch()
    try:
        bounds = watched(job.limits)
        look = None if inspect is None or scratch is None else lambda: inspect(scratch)
        done = await attend(
            process, timeout=job.limits.wall, stdin=job.stdin, capture=job.capture, limits=bounds, inspect=look
        )
        if process.trouble is not None:
            raise ToolError(Code.UNAVAILABLE, f"{os.path.basename(job.argv[0])} could not be started in the sandbox")
        files = await collect(scratch, job.files.below("/tmp")) if scratch is not None else ()  # noqa: S108
        return Result(translate(done), runtime, reasons, files)
    finally:
        if scratch is not None:
            os.close(scratch)


def watched(limits: Limits) -> runner.Limits:
    """Return the bounds that the runner watches, with what the kernel enforces for naming a cause."""
    return runner.Limits(
        memory=limits.memory,
        processes=limits.processes,
        output=limits.output,
        rlimits=Rlimits(cpu=max(1, round(limits.cpu))),
    )


def death_by_status(done: Finished, limits: Limits, cause: str | None = None) -> Finished:
    """Read an exit status as a shell gives it: 128 + the signal that ended the program. cause: of that, where it is known."""
    number = done.exit_code - 128
    if not 0 < number < 65:
        return done
    cause = cause or cause_of(ended_with(-number, done.usage), watched(limits), done.usage.peak_memory)
    return replace(done, signal=signal_name(number), killed_by=cause)


def inside(env: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Return an environment in which the scratch folder stands for /tmp."""
    return {name: scratch if value == "/tmp" else value for name, value in env.items()} | {"TMPDIR": scratch}  # noqa: S108
