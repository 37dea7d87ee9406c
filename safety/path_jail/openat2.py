"""openat2(2), which opens a path beneath a folder in one call."""

import ctypes
import errno
import os
import sys

O_PATH: int = getattr(os, "O_PATH", 0)
NO_LINK: int = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags with which only a folder is opened, and fails at a link."""

NO_XDEV, NO_SYMLINKS = 0x01, 0x04
"""What a call may be asked to refuse: other file systems, links."""

RETRIES = 16
"""Tries when something is renamed underneath; openat2(2) asks for a loop and leaves the bound open."""

_OPENAT2 = 437  # the same number on every Linux architecture that has it
_NO_MAGICLINKS, _BENEATH = 0x02, 0x08  # which every call refuses: the jumps of /proc, and what leads out of the folder


class Openat2:
    """The system call, which the standard library does not offer."""

    class _How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    def __init__(self) -> None:
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
        self._hows: dict[tuple[int, int], Openat2._How] = {}

    def __call__(self, dir_fd: int, path: str, flags: int, resolve: int) -> int:
        """Return a descriptor. OSError as the system gives it."""
        raw = os.fsencode(path)
        if O_PATH and flags & O_PATH:
            # openat2 refuses what open ignores beside O_PATH.
            flags &= O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
        how = self._hows.get((flags, resolve))
        if how is None:
            # The system only reads it, so all calls share one.
            how = self._How(flags | os.O_CLOEXEC, 0, resolve | _BENEATH | _NO_MAGICLINKS)
            self._hows[flags, resolve] = how
        code = errno.EAGAIN
        for _ in range(RETRIES):
            fd: int = self._call(_OPENAT2, dir_fd, raw, ctypes.addressof(how), _HOW_SIZE)
            if fd >= 0:
                return fd
            code = ctypes.get_errno()
            if code not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(code, os.strerror(code))


_HOW_SIZE = ctypes.sizeof(Openat2._How)


def openat2() -> Openat2 | None:
    """Return the call if this system has it. A seccomp filter may answer ENOSYS or EPERM."""
    if sys.platform != "linux":
        return None
    call = Openat2()
    fd = os.open("/", O_PATH | NO_LINK)
    try:
        os.close(call(fd, ".", O_PATH | NO_LINK, 0))
    except OSError:
        return None
    finally:
        os.close(fd)
    return call
