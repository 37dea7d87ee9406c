"""Names that change in one step: renameat2(2), and what comes nearest to it on other systems."""

import ctypes
import errno
import os
import platform
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

_NO_REPLACE, _EXCHANGE = 1, 2  # RENAME_NOREPLACE, RENAME_EXCHANGE
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
SYSCALL_NUMBERS = {"x86_64": 316, "aarch64": 276, "arm64": 276}


def rename_no_replace(old_fd: int, old: str, new_fd: int, new: str) -> None:
    """Rename a name in one folder to one in another. FileExistsError, in one step, if the latter is taken."""
    if renameat2(old_fd, old, new_fd, new, _NO_REPLACE):
        return
    if give_second_name(old_fd, old, new_fd, new):
        try:
            os.unlink(old, dir_fd=old_fd)
        except OSError:
            with suppress(OSError):
                os.unlink(new, dir_fd=new_fd)
            raise
        return
    # Where there are no hard links, as of folders, only what comes in this instant is replaced.
    with suppress(FileNotFoundError):
        os.stat(new, dir_fd=new_fd, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(old, new, src_dir_fd=old_fd, dst_dir_fd=new_fd)


def give_second_name(old_fd: int, old: str, new_fd: int, new: str) -> bool:
    """Give what is no folder a second name; False where the file system has no hard links."""
    if stat.S_ISDIR(os.stat(old, dir_fd=old_fd, follow_symlinks=False).st_mode):
        return False
    try:
        os.link(old, new, src_dir_fd=old_fd, dst_dir_fd=new_fd, follow_symlinks=False)
    except OSError as e:
        if e.errno in _NO_LINKS:
            return False
        raise
    return True


def exchange(dir_fd: int, one: str, other: str, *, other_fd: int | None = None) -> bool:
    """Let two names change places in one step. False where the system cannot; OSError where it refuses.

    other_fd: the folder of the other name, unless it is that of the first.
    """
    return renameat2(dir_fd, one, dir_fd if other_fd is None else other_fd, other, _EXCHANGE)


@cache
def _syscall() -> tuple[Callable[..., int], int] | None:
    """Return the system's call by number and the number of renameat2, None where there is no such call.

    Making it takes longer than calling it.
    """
    number = SYSCALL_NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    # What keeps the call back as a whole does so here too; later EPERM is about the names.
    call(number, -1, b"old", -1, b"new", _NO_REPLACE)
    return None if ctypes.get_errno() in (errno.ENOSYS, errno.EPERM) else (call, number)


def renameat2(old_fd: int, old: str, new_fd: int, new: str, flags: int) -> bool:
    """Call renameat2(2). False where the system or the file system cannot; OSError where it refuses."""
    found = _syscall()
    if found is None:
        return False
    call, number = found
    if call(number, old_fd, os.fsencode(old), new_fd, os.fsencode(new), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(code, os.strerror(code))
