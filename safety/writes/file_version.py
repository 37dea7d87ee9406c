"""In what state a file is, so that a later one can be told from it."""

import hashlib
import os
from dataclasses import dataclass, field, replace
from mmap import mmap

Data = bytes | mmap
"""The content of a file; a mapped one may be larger than what is held in memory."""

_CHUNK = 1 << 20

TICK_NS = 20_000_000
"""Nanoseconds within which two writes may leave the same time: Linux before 6.13 counts ticks of up to 10 ms."""


@dataclass(frozen=True)
class FileVersion:
    """Which file was read and in what state. Times in nanoseconds.

    changed_ns: when its status changed, also by its owner or mode; None where that says nothing. Renaming changes it too,
    so states that differ in it alone are equal.
    digest: the etag of what was read, where the file had just been written and its time alone would not tell.
    """

    dev: int
    ino: int
    size: int
    mtime_ns: int
    changed_ns: int | None = field(default=None, compare=False)
    digest: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, status: os.stat_result) -> "FileVersion":
        """Take what identifies a state from a status."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @classmethod
    def at(cls, dir_fd: int, name: str) -> "FileVersion":
        """Take it of what has a name in a folder, a link itself. OSError."""
        return cls.of(os.stat(name, dir_fd=dir_fd, follow_symlinks=False))

    def is_fresh(self, now: int) -> bool:
        """Return True if the time of a file says too little of its state at some moment: another write may leave the same."""
        return abs(now - self.mtime_ns) <= TICK_NS

    def read(self, data: bytes, now: int) -> "FileVersion":
        """Return the state, taken at some time, of a file that was then read and held this."""
        return self.holding(data) if self.is_fresh(now) else self

    def holding(self, data: Data) -> "FileVersion":
        """Return the state of a file that holds this, to be told from any later one, however soon it comes."""
        return replace(self, digest=etag(data))

    @property
    def file(self) -> tuple[int, int]:
        """Return the device and the inode."""
        return self.dev, self.ino

    def is_file(self, other: "FileVersion") -> bool:
        """Return True if it is of the same file, in whatever state."""
        return self.file == other.file

    def holds(self, dir_fd: int, name: str) -> bool:
        """Return True if a file, which may have been renamed meanwhile, is still in this state. OSError."""
        if FileVersion.at(dir_fd, name) != self:
            return False
        if self.digest is None:
            return True
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            return self.digest == _digest(fd, self.size)
        finally:
            os.close(fd)


def etag(data: Data) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def _digest(fd: int, size: int) -> str | None:
    """Return the etag of an open file if it has at most so many bytes."""
    digest, at = hashlib.sha256(), 0
    while at <= size and (piece := os.pread(fd, min(_CHUNK, size + 1 - at), at)):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()[:16] if at == size else None
