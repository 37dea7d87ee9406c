"""What the entries of a folder are and how large, for a listing."""

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import repeat
from stat import S_IFMT

MOST = 100
"""Entries that are looked up in one go: what is written of them, 25 KB, stays in the processor's first cache."""

_FEW = 50
"""Entries from which on statx saves more than getting ready for it takes, by measurement."""

# statx(2), whose structure is the same on every architecture, as linux/stat.h has it.
_AS_LSTAT = 0x100 | 0x800  # neither follow a link nor mount anything
_TYPE_AND_SIZE = 0x1 | 0x200
_LENGTH = 256
_MODE_AT, _SIZE_AT = 28, 40

Statuses = tuple[Sequence[int], Sequence[int]]
"""Of each entry the mode, of which only the bits of its type count, and the bytes."""


class Lookup:
    """Looks up entries of an open folder. For one thread at a time.

    os.lstat() takes two thirds of its time to make a result of 19 values, of which a listing needs two. statx(2), where
    the system has it, leaves them in memory, from where those of many entries are taken at once.
    """

    def __init__(self, count: int) -> None:
        """Get ready to look up so many entries, or about that."""
        call = _statx() if count >= _FEW else None
        self._statx = _Statx(call) if call else None

    def __call__(self, fd: int, names: Sequence[str]) -> Statuses:
        """Return the status of at most MOST entries; mode 0 for one that is gone, or that cannot be looked at."""
        found = self._statx(fd, names) if self._statx and names else None
        return _one_by_one(fd, names) if found is None else found


class _Statx:
    """The call, and memory for what it says of MOST entries."""

    def __init__(self, call: Callable[..., int]) -> None:
        self._call = call
        self._room = ctypes.create_string_buffer(MOST * _LENGTH)
        start = ctypes.addressof(self._room)
        self._each = [ctypes.c_void_p(at) for at in range(start, start + MOST * _LENGTH, _LENGTH)]
        room = memoryview(self._room).cast("B")
        self._modes = room.cast("H")[_MODE_AT // 2 :: _LENGTH // 2]
        self._sizes = room.cast("Q")[_SIZE_AT // 8 :: _LENGTH // 8]

    def __call__(self, fd: int, names: Sequence[str]) -> Statuses | None:
        """Return the status of entries; None where one of them cannot be looked at.

        A seccomp filter that does not know this call refuses it, and allows the older ones.
        """
        raw = os.fsencode("\0".join(names)).split(b"\0")
        if any(list(map(self._call, repeat(fd), raw, repeat(_AS_LSTAT), repeat(_TYPE_AND_SIZE), self._each))):
            return None
        return self._modes[: len(raw)].tolist(), self._sizes[: len(raw)].tolist()


@cache
def _statx() -> Callable[..., int] | None:
    """Return the call, where the C library has it. Other threads run meanwhile."""
    if sys.platform != "linux":
        return None
    # Without argtypes, whose conversions take as long again as the call: integers go as int, and bytes as their address.
    return getattr(ctypes.CDLL(None), "statx", None)


def _one_by_one(fd: int, names: Sequence[str]) -> Statuses:
    found = [_status(fd, name) for name in names]
    return [mode for mode, _ in found], [size for _, size in found]


def _status(fd: int, name: str) -> tuple[int, int]:
    try:
        status = os.lstat(name, dir_fd=fd)
    except OSError:
        return 0, 0
    return S_IFMT(status.st_mode), status.st_size
