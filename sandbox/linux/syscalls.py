"""Raw system calls and prctl by ctypes. Importing this loads libc, nothing else."""

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """Do a system call; integers go as long, bytes as a pointer. Raises OSError."""
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *plain))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"system call {number}")
    return result


def prctl(option: int, *arguments: int) -> None:
    """Call prctl with up to four arguments. Raises OSError."""
    padded = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc.prctl(option, *padded) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"prctl {option}")


def set_name(name: str) -> None:
    """Give this process the name that ps shows; the kernel keeps 15 bytes of it."""
    text = ctypes.create_string_buffer(name.encode())
    _libc.prctl(PR_SET_NAME, text, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
