"""What programs that this server starts could read of it in /proc."""

import ctypes
import os
import sys
from collections.abc import Collection, MutableMapping
from pathlib import Path


def hide(names: Collection[str], environment: MutableMapping[str, str]) -> None:
    """Take variables out of this process's environment, and keep its memory from other processes of its user.

    names: of what has been read. Linux shows /proc/PID/environ as it was at the start, so it is overwritten there.
    Root may read a process's memory whatever it says.
    """
    for name in names:
        environment.pop(name, None)
    if sys.platform != "linux":
        return
    from ..sandbox.linux.syscalls import PR_SET_DUMPABLE, prctl

    # The fields of proc_pid_stat(5) behind the name, which may hold blanks and brackets: 50 and 51 of all, from 3 on.
    fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    block = ctypes.string_at(start, end - start) if start else b""
    at = start
    for entry in block.split(b"\0"):
        variable, _, value = entry.partition(b"=")
        if os.fsdecode(variable) in names:
            ctypes.memset(at + len(variable) + 1, 0, len(value))
        at += len(entry) + 1
    prctl(PR_SET_DUMPABLE, 0)
