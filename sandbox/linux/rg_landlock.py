"""A thread that may only read below some folders, and starts programs that inherit it.

Landlock holds for the thread that asks for it and for what that thread starts, so the server itself
stays as it is. The thread lives as long as its programs have to: what asks the kernel to be told of
its parent's death is told of the death of the thread that started it.
"""

import errno
import os
import struct
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

from . import landlock, seccomp
from .bpf import Filter, error
from .landlock import Right

T = TypeVar("T")

LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache", "/nix/store")
"""Where a program that is not static finds its loader and its libraries."""

NULL = "/dev/null"

_INTERPRETER = 3  # PT_INTERP of elf(5)
_TRUNCATE = {seccomp.X86_64: 76, seccomp.AARCH64: 45}


class Reader:
    """Starts programs that can read below some folders, and change, reach and signal nothing.

    folders: descriptors, used while this is made and not after. program: the file that is to run.
    Raises OSError where Landlock is missing.
    """

    def __init__(self, folders: Sequence[int], program: str | os.PathLike[str]) -> None:
        rules: list[tuple[str | os.PathLike[str] | int, Right]] = [
            (folder, Right.READ_FILE | Right.READ_DIR) for folder in folders
        ]
        rules.append((program, Right.READ_FILE | Right.EXECUTE))
        rules.append((NULL, Right.READ_FILE | Right.WRITE_FILE))
        if not is_static(program):
            rules += [(path, landlock.READ) for path in LIBRARIES]
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reader")
        try:
            self._do(partial(_restrict, rules))
        except BaseException:
            self.close()
            raise

    def start(self, argv: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
        """Start a program as subprocess.Popen does, and with its arguments."""
        started = cast("subprocess.Popen[bytes]", self._do(lambda: subprocess.Popen(argv, **options)))
        return started

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def _do(self, act: Callable[[], T]) -> T:
        # The caller waits, as it would if it started the program itself.
        return self._thread.submit(act).result()


def _restrict(rules: Iterable[tuple[str | os.PathLike[str] | int, Right]]) -> None:
    """Confine the calling thread."""
    handled = landlock.EVERYTHING
    if (architecture := seccomp.architecture()) is not None:
        # Opening a file asks Landlock for this right too, and since nothing grants it, every open would be judged
        # up to the root of the file system: a tenth of a search. The call that needs it is taken away instead.
        handled &= ~Right.TRUNCATE
        rules_of_calls = Filter(architecture)
        if architecture == seccomp.X86_64:
            rules_of_calls.answer_from(seccomp.X32, error(errno.EPERM))
        rules_of_calls.answer([_TRUNCATE[architecture]], error(errno.EPERM))
        seccomp.install(rules_of_calls.program())
    landlock.restrict(rules, handled=handled)


def is_static(program: str | os.PathLike[str]) -> bool:
    """Return True if an ELF program needs no loader. False for what is no ELF file, or none that can be read."""
    try:
        with open(program, "rb") as file:
            head = file.read(64)
            wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
            if not head.startswith(b"\x7fELF"):
                return False
            at, size, count = (
                struct.unpack_from(f"{order}Q14xHH", head, 32)
                if wide
                else struct.unpack_from(f"{order}L10xHH", head, 28)
            )
            file.seek(at)
            table = file.read(size * count)
            kinds = [struct.unpack_from(f"{order}L", table, size * index)[0] for index in range(count)]
    except (OSError, struct.error, IndexError):
        return False
    return _INTERPRETER not in kinds
