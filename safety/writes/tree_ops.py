"""Whole trees beneath a descriptor: gone through, copied, removed. No link is followed, any depth is fine."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice

from ..errors import Code, ToolError
from ..path_jail.opening import FOLDER
from .metadata import keep_attributes, keep_owner, keep_owner_of_link, owner_of, permitted

_CHUNK = 1 << 20


class Move(Enum):
    """What a step of a traversal does."""

    ENTER = "about to go into a folder"
    SEE = "at an entry that is no folder"
    LEAVE = "back from a folder"


@dataclass(frozen=True)
class Step:
    """One step of a traversal. The cursor is in the folder that holds the name."""

    move: Move
    name: str
    status: os.stat_result


class Cursor:
    """A folder from which one goes up and down by single names. One descriptor at any depth."""

    def __init__(self, fd: int) -> None:
        self.fd = os.dup(fd)
        self._above: list[tuple[int, int]] = []

    def down(self, name: str) -> None:
        """Go into a folder, never through a link."""
        fd = os.open(name, FOLDER, dir_fd=self.fd)
        self._above.append(_identity(self.fd))
        os.close(self.fd)
        self.fd = fd

    def up(self) -> None:
        """Go back; OSError if the folder has been moved elsewhere meanwhile."""
        fd = os.open("..", FOLDER, dir_fd=self.fd)
        if _identity(fd) != self._above.pop():
            os.close(fd)
            raise OSError(errno.EBUSY, "a folder was moved meanwhile")
        os.close(self.fd)
        self.fd = fd

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)


def traverse(cursor: Cursor) -> Iterator[Step]:
    """Go through all below, moving the cursor along. ToolError refused at another file system."""
    device = os.fstat(cursor.fd).st_dev
    todo = [sorted(os.listdir(cursor.fd), reverse=True)]
    way: list[Step] = []
    while todo:
        if not todo[-1]:
            todo.pop()
            if way:
                cursor.up()
                yield replace(way.pop(), move=Move.LEAVE)
            continue
        name = todo[-1].pop()
        try:
            status = os.stat(name, dir_fd=cursor.fd, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield Step(Move.SEE, name, status)
            continue
        if status.st_dev != device:
            raise ToolError(Code.REFUSED, "another file system is mounted inside the folder")
        step = Step(Move.ENTER, name, status)
        yield step
        cursor.down(name)
        way.append(step)
        todo.append(sorted(os.listdir(cursor.fd), reverse=True))


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def copy(old_fd: int, old_name: str, new_fd: int, new_name: str) -> None:
    """Copy a file, link or folder to a name that is free, with owners, modes and times as far as the system allows.

    OSError, ToolError refused.
    """
    status = os.stat(old_name, dir_fd=old_fd, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        _copy_one(old_fd, old_name, new_fd, new_name, status)
        return
    with closing(Cursor(old_fd)) as here, closing(Cursor(new_fd)) as there:
        os.mkdir(new_name, 0o700, dir_fd=new_fd)
        here.down(old_name)
        there.down(new_name)
        modes: list[os.stat_result] = []
        for step in traverse(here):
            if step.move is Move.ENTER:
                os.mkdir(step.name, 0o700, dir_fd=there.fd)
                there.down(step.name)
                modes.append(step.status)
            elif step.move is Move.LEAVE:
                there.up()
                _set_times(there.fd, step.name, modes.pop())
            else:
                _copy_one(here.fd, step.name, there.fd, step.name, step.status)
    _set_times(new_fd, new_name, status)


def _set_times(dir_fd: int, name: str, status: os.stat_result) -> None:
    fd = os.open(name, FOLDER, dir_fd=dir_fd)
    try:
        mode = stat.S_IMODE(status.st_mode)
        os.fchmod(fd, mode if keep_owner(fd, owner_of(status)) else permitted(mode, group_kept=False))
        os.utime(fd, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(fd)
    finally:
        os.close(fd)


def _copy_one(old_fd: int, old_name: str, new_fd: int, new_name: str, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(old_name, dir_fd=old_fd), new_name, dir_fd=new_fd)
        keep_owner_of_link(new_fd, new_name, owner_of(status))
        return
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(Code.REFUSED, "a special file cannot move to another file system")
    reading = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    writing = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # What has become a folder is refused, and its descriptor closed, by who opens it.
    with (
        open(old_name, "rb", buffering=0, opener=lambda name, _: os.open(name, reading, dir_fd=old_fd)) as old,
        open(new_name, "wb", buffering=0, opener=lambda name, _: os.open(name, writing, 0o600, dir_fd=new_fd)) as new,
    ):
        _copy_content(old.fileno(), new.fileno(), status.st_size)
        group_kept = keep_owner(new.fileno(), owner_of(status))
        keep_attributes(new.fileno(), old.fileno())
        # Set-id bits say as whom a program runs, so they are kept with both owners, as mv(1) does.
        same = owner_of(os.fstat(new.fileno())) == owner_of(status)
        os.fchmod(
            new.fileno(), stat.S_IMODE(status.st_mode) if same else permitted(status.st_mode, group_kept=group_kept)
        )
        os.utime(new.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(new.fileno())


def _copy_content(old: int, new: int, size: int) -> None:
    """Copy so many bytes, holes as holes: a disk need not have room for what was never written."""
    at = 0
    while at < size:
        end = size
        if hasattr(os, "SEEK_DATA"):
            try:
                at = os.lseek(old, at, os.SEEK_DATA)
                end = min(size, os.lseek(old, at, os.SEEK_HOLE))
            except OSError as e:
                if e.errno != errno.ENXIO:  # which says that only a hole is left
                    raise
                break
        while at < end and (data := os.pread(old, min(_CHUNK, end - at), at)):
            at += os.pwrite(new, data, at)
        if at < end:
            break
    os.ftruncate(new, size)


def remove_tree(dir_fd: int, name: str) -> None:
    """Remove an entry and all below it. What is already gone is fine. OSError, ToolError refused at a mount."""
    try:
        os.unlink(name, dir_fd=dir_fd)
        return
    except FileNotFoundError:
        return
    except OSError as e:
        # Linux says EISDIR for a folder, POSIX and macOS EPERM.
        if e.errno not in (errno.EISDIR, errno.EPERM):
            raise
    with closing(Cursor(dir_fd)) as cursor:
        cursor.down(name)
        for step in traverse(cursor):
            if step.move is Move.LEAVE:
                os.rmdir(step.name, dir_fd=cursor.fd)
            elif step.move is Move.SEE:
                with suppress(FileNotFoundError):
                    os.unlink(step.name, dir_fd=cursor.fd)
    os.rmdir(name, dir_fd=dir_fd)


MAX_SIGNED = 200_000
"""Entries that a signature covers, as many as a walk looks at; what lies behind them may change unseen."""


def signature(dir_fd: int, name: str, state: Callable[[os.stat_result], object]) -> str:
    """Return a digest of an entry and all below it: names, kinds, modes, targets of links, and state() of each file.

    Its own name is not part of it. OSError, ToolError refused at a mount.
    """
    digest = hashlib.sha256()

    def add(folder: int, name: str, called: str, status: os.stat_result) -> None:
        parts: list[object] = [called, status.st_mode]
        if stat.S_ISLNK(status.st_mode):
            parts.append(os.readlink(name, dir_fd=folder))
        elif stat.S_ISREG(status.st_mode):
            parts.append(state(status))
        digest.update(repr(parts).encode("utf-8", "surrogateescape"))

    status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    add(dir_fd, name, "", status)
    if stat.S_ISDIR(status.st_mode):
        with closing(Cursor(dir_fd)) as cursor:
            cursor.down(name)
            for step in islice(traverse(cursor), MAX_SIGNED):
                add(cursor.fd, step.name, f"{step.move.name} {step.name}", step.status)
    return digest.hexdigest()
