"""What a process does to itself before it becomes a sandboxed program.

Everything is imported beforehand: in its own root, a process does not find this package any more.
"""

import fcntl
import math
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from . import landlock, privileges, rlimits, seccomp
from .syscalls import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl, syscall

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
)
"""What of the system every program may read: programs, libraries and what finds them. No accounts, no keys."""

_ALL_WITHOUT_PROC = ("/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/sys/vm/overcommit_memory")
_CLOSE_RANGE = 436
_LAST = 0x7FFFFFFF
_SOURCES = ("/dev/zero", "/dev/random", "/dev/urandom")
_SINKS = ("/dev/null", "/dev/full")


def become(uid: int) -> None:
    """Be another user for good, and keep dying with the parent."""
    parent = os.getppid()
    privileges.become(uid)
    # A change of user clears it, and a parent that has died meanwhile sends nothing any more.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def arrange(places: Mapping[int, int]) -> None:
    """Put descriptors at their numbers, inheritable, and close every other one."""
    above = max(places) + 1
    moved = {}
    for place, fd in places.items():
        moved[place] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)
    for place, fd in moved.items():
        os.dup2(fd, place, inheritable=True)
    syscall(_CLOSE_RANGE, above, _LAST, 0)
    for fd in range(3, above):
        if fd not in places:
            try:
                os.close(fd)
            except OSError:
                continue


def processors(count: float) -> None:
    """Keep this process and its children on so many processors, rounded up, picked at random."""
    allowed = list(os.sched_getaffinity(0))
    # Not by the random module: with it, each fork below the zygote takes a quarter of a millisecond longer.
    while len(allowed) > max(1, math.ceil(count)):
        del allowed[int.from_bytes(os.urandom(4), "little") % len(allowed)]
    os.sched_setaffinity(0, allowed)


def restore_signals() -> None:
    """Undo what Python ignores and an exec would pass on; SIGXFSZ tells that a program filled its disk."""
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def confine(job: Mapping[str, Any]) -> None:
    """Limit and confine this process as the job says; only a program's own acts come after it."""
    alone = job["mode"] == "namespaces"
    scratch = "/tmp" if alone else job["scratch"]  # noqa: S108 - the sandbox's own
    if not alone and privileges.can_become(job["uid"]):
        become(job["uid"])
    os.umask(0o022)
    os.chdir(job["cwd"])
    processors(job["cpus"])
    limits = dict(job["limits"])
    if job["in_process"] and limits.get("data") is not None:
        limits["data"] += _data_segment()
    rlimits.apply_fixed()
    rlimits.apply(limits)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    privileges.drop_capabilities()
    if landlock.abi():
        landlock.restrict(_rules(job, scratch, alone), tcp=not job["network"])
    elif not alone:
        raise OSError("this kernel has no Landlock")
    seccomp.install(filter_for(metadata=alone, network=job["network"]))


@lru_cache(maxsize=4)
def filter_for(*, metadata: bool, network: bool) -> bytes:
    """Return the seccomp filter of this machine. Raises OSError where there is none for it."""
    arch = seccomp.architecture()
    if arch is None:
        raise OSError("no system call filter for this architecture")
    return seccomp.build(arch, metadata=metadata, network=network)


def _rules(job: Mapping[str, Any], scratch: str, alone: bool) -> list[tuple[str, landlock.Right]]:
    write = landlock.Right.WRITE_FILE
    rules = [(path, landlock.Right.READ_FILE) for path in _SOURCES]
    rules += [(path, landlock.Right.READ_FILE | write) for path in _SINKS]
    rules.append((scratch, landlock.READ_WRITE))
    if alone:
        rules += [(path, landlock.READ_WRITE) for path in job["write"]]
        return [*rules, ("/", landlock.READ), ("/dev/shm", landlock.READ_WRITE)]  # noqa: S108
    for path in job["write"]:
        rules += _around(os.path.realpath(path), job["protected"])
    return rules + [(path, landlock.READ) for path in (*job["read"], *_ALL_WITHOUT_PROC)]


def _around(folder: str, protected: Iterable[str]) -> Iterator[tuple[str, landlock.Right]]:
    """Yield the rules that let all in a folder be written but what is protected.

    What holds for a folder holds for all below it, so none that holds a protected place takes entries.
    """
    below = [path for path in protected if path == folder or path.startswith(folder + "/")]
    if not below:
        yield folder, landlock.READ_WRITE
        return
    yield folder, landlock.READ
    if folder in below:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_symlink():
                yield from _around(entry.path, below)


def _data_segment() -> int:
    """Return the bytes that the limit on data counts already: what was mapped before a fork is counted again."""
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmData:"):
                return int(line.split()[1]) * 1024
    return 0
