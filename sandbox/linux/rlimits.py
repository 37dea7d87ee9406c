"""Resource limits of a sandboxed program."""

import resource
from collections.abc import Mapping

_NAMES = ("data", "cpu", "file_size", "files", "processes")
_LOCKED = 64 * 1024  # bytes of locked memory: nothing a snippet needs
_SIGNALS = 256  # queued signals; they are kernel memory


def apply(limits: Mapping[str, int | None]) -> None:
    """Limit this process and what it starts. Keys: data, file_size in bytes, cpu seconds, files, processes.

    A hard limit that is lower already stays. At its CPU limit a program gets SIGXCPU, a second later SIGKILL.
    """
    unknown = set(limits) - set(_NAMES)
    if unknown:
        raise ValueError(f"no such limits: {sorted(unknown)}")
    kinds = {
        "data": resource.RLIMIT_DATA,
        "file_size": resource.RLIMIT_FSIZE,
        "files": resource.RLIMIT_NOFILE,
        "processes": resource.RLIMIT_NPROC,
    }
    for name, kind in kinds.items():
        value = limits.get(name)
        if value is not None:
            _limit(kind, value)
    cpu = limits.get("cpu")
    if cpu is not None:
        _limit(resource.RLIMIT_CPU, cpu, cpu + 1)


def apply_fixed() -> None:
    """Set the limits that are the same for every program: no core dumps, no real-time priority, little locked."""
    # core(5): 0 keeps files away, but a core_pattern that is a pipe is still served; 1 stops both.
    _limit(resource.RLIMIT_CORE, 1)
    for kind in (resource.RLIMIT_MSGQUEUE, resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
        _limit(kind, 0)
    _limit(resource.RLIMIT_MEMLOCK, _LOCKED)
    _limit(resource.RLIMIT_SIGPENDING, _SIGNALS)


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    hard = soft if hard is None else hard
    ceiling = resource.getrlimit(kind)[1]
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))
