"""Landlock: what the calling thread and its children may do with files, TCP and signals.

The three system calls have the same numbers on every architecture (444 to 446). Rights
by ABI: 1 = the first 13, 2 adds REFER, 3 TRUNCATE, 4 TCP, 5 IOCTL_DEV, 6 scopes.
Not covered, at any ABI: stat, readlink, chmod, chown, utime, extended attributes, UDP.
"""

import os
import stat
import struct
from collections.abc import Iterable
from enum import IntFlag

from .syscalls import PR_SET_NO_NEW_PRIVS, prctl, syscall

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_BENEATH = 1
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}


class Right(IntFlag):
    """Access rights of a path, numbered as the kernel numbers them."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ = Right.READ_FILE | Right.READ_DIR | Right.EXECUTE
"""Look into a folder, read and execute files."""

CHANGE = (
    Right.WRITE_FILE
    | Right.REMOVE_DIR
    | Right.REMOVE_FILE
    | Right.MAKE_DIR
    | Right.MAKE_REG
    | Right.MAKE_FIFO
    | Right.MAKE_SYM
    | Right.REFER
    | Right.TRUNCATE
)
"""Change what is in a folder. Without devices and sockets, which no tool needs to make."""

READ_WRITE = READ | CHANGE
EVERYTHING = Right((1 << 16) - 1)
_OF_A_FILE = Right.EXECUTE | Right.WRITE_FILE | Right.READ_FILE | Right.TRUNCATE | Right.IOCTL_DEV


def abi() -> int:
    """Return the Landlock ABI of the kernel, 0 when there is none or it is switched off."""
    try:
        return syscall(_CREATE, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(
    rules: Iterable[tuple[str | os.PathLike[str] | int, Right]],
    *,
    handled: Right = EVERYTHING,
    tcp: bool = True,
    scopes: bool = True,
) -> int:
    """Confine the calling thread for good, and return the ABI in force.

    rules: what is allowed below a path or a descriptor; a path that does not exist is left out. handled:
    rights that are denied where no rule allows them. tcp: deny bind and connect (ABI 4).
    scopes: deny signals and abstract unix sockets to processes outside (ABI 6).
    Raises OSError where Landlock is missing.
    """
    level = abi()
    if level < 1:
        raise OSError("this kernel has no Landlock")
    known = Right((1 << _RIGHTS_BY_ABI.get(level, 16)) - 1)
    handled &= known
    fields = [int(handled)]
    if level >= 4:
        fields.append(3 if tcp else 0)
    if level >= 6:
        fields.append(3 if scopes else 0)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = syscall(_CREATE, attributes, len(attributes), 0)
    try:
        for path, rights in rules:
            _allow(ruleset, path, rights & handled)
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        syscall(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
    return level


def _allow(ruleset: int, path: str | os.PathLike[str] | int, rights: Right) -> None:
    try:
        place = os.dup(path) if isinstance(path, int) else os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_A_FILE
        if rights:
            syscall(_ADD, ruleset, _BENEATH, struct.pack("=Qi", int(rights), place), 0)
    finally:
        os.close(place)
