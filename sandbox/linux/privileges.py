"""Giving up root: its capabilities, and being another user instead."""

import contextlib
import errno
import os
import struct

from .syscalls import PR_CAP_AMBIENT, PR_CAPBSET_DROP, PR_SET_DUMPABLE, prctl, syscall

_CAPSET = {"x86_64": 126, "aarch64": 91}
_VERSION_3 = 0x20080522
_CLEAR_ALL = 4
_LAST = 63  # the most that the kernel's two words can hold; it refuses numbers that it does not know

_WHOLE = [(0, 0, 0xFFFFFFFF)]
"""The map of a kernel without user namespaces."""

CAP_DAC_OVERRIDE = 1


def drop_capabilities(keep: tuple[int, ...] = ()) -> None:
    """Give up every capability but keep, for good; those in keep stay if the process has them.

    Also for an ordinary user, who has them all in a fresh user namespace. Raises OSError where the system refuses.
    """
    machine = os.uname().machine
    if machine not in _CAPSET:
        raise OSError(f"no capset number for {machine}")
    for capability in range(_LAST + 1):
        if capability not in keep:
            with contextlib.suppress(OSError):
                prctl(PR_CAPBSET_DROP, capability)
    with contextlib.suppress(OSError):
        prctl(PR_CAP_AMBIENT, _CLEAR_ALL)
    try:
        _hold(machine, keep)
    except PermissionError:
        _hold(machine, ())


def become(uid: int) -> None:
    """Be another user and its group, for good. Raises OSError, ValueError."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # Else /proc/self belongs to root, and the maps of a user namespace cannot be written.
    prctl(PR_SET_DUMPABLE, 1)


def can_become(uid: int) -> bool:
    """Return True if this process is a root who can be that user: not so where a container maps no other user."""
    return os.geteuid() == 0 and _setgroups() and all(_maps(kind, uid) for kind in ("uid_map", "gid_map"))


def refuse_real_root() -> None:
    """Raise PermissionError where this process is the system's root and cannot be anybody else.

    Without capabilities it still owns what root owns: half of /proc/sys.
    """
    # In a user namespace that does not hold the system's root, /proc/sys is seen to be nobody's.
    if os.geteuid() == 0 and os.stat("/proc/sys/kernel").st_uid == 0:
        raise PermissionError(errno.EPERM, "root cannot become another user here")


def _hold(machine: str, capabilities: tuple[int, ...]) -> None:
    mask = sum(1 << capability for capability in capabilities)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    words = struct.pack("=6I", low, low, 0, high, high, 0)
    syscall(_CAPSET[machine], struct.pack("=Ii", _VERSION_3, 0), words)


def _setgroups() -> bool:
    try:
        with open("/proc/self/setgroups") as file:
            return file.read().strip() == "allow"
    except OSError:
        return True


def _maps(kind: str, number: int) -> bool:
    return any(first <= number < first + count for first, _, count in _map(kind))


def _map(kind: str) -> list[tuple[int, int, int]]:
    """Return the rows of a map of the user namespace: (first id inside, its id outside, how many)."""
    try:
        with open(f"/proc/self/{kind}") as file:
            rows = [tuple(map(int, line.split())) for line in file]
    except OSError:
        return _WHOLE
    return [(first, outer, count) for first, outer, count in rows]
