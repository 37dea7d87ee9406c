"""What a program left in its scratch folder: images with their bytes, other files by name."""

import os
import stat
from collections.abc import Collection, Iterator

from anyio import to_thread

from ..safety.image_formats import image_format
from .spec import MIB, LeftFile

IMAGE_BYTES = 5 * MIB
"""Bytes of all images together."""
MOST_IMAGES = 8
MOST_FILES = 100
_DEPTH = 4
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


async def collect(folder: int, placed: Collection[str] = ()) -> tuple[LeftFile, ...]:
    """Return the entries below an open folder, hidden names and what the sandbox itself has placed there left out.

    Links are not followed, and of what a program may have made only regular files are opened.
    """
    if not _names(folder):
        return ()
    return await to_thread.run_sync(_collect, folder, placed)


def used_inodes(folder: int) -> int:
    """Return the number of files the file system of an open folder holds."""
    seen = os.fstatvfs(folder)
    return seen.f_files - seen.f_ffree


def _collect(folder: int, placed: Collection[str]) -> tuple[LeftFile, ...]:
    found: list[LeftFile] = []
    images = taken = 0
    for path, fd, size in _files(folder, "", _DEPTH, placed):
        try:
            shown = image_format(os.pread(fd, 16, 0))
            if shown and images < MOST_IMAGES and taken + size <= IMAGE_BYTES:
                images, taken = images + 1, taken + size
                found.append(LeftFile(path, size, os.pread(fd, size, 0), f"image/{shown}"))
            else:
                found.append(LeftFile(path, size))
        finally:
            os.close(fd)
        if len(found) == MOST_FILES:
            break
    return tuple(found)


def _files(folder: int, prefix: str, depth: int, placed: Collection[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (path, descriptor, size) of the regular files; the taker closes the descriptor."""
    for name in _names(folder):
        shown = prefix + os.fsencode(name).decode("utf-8", "replace")
        if shown in placed:
            continue
        try:
            fd = os.open(name, _OPEN, dir_fd=folder)
        except OSError:
            continue
        seen = os.fstat(fd)
        if stat.S_ISREG(seen.st_mode):
            yield shown, fd, seen.st_size
            continue
        try:
            if stat.S_ISDIR(seen.st_mode) and depth > 1:
                yield from _files(fd, f"{shown}/", depth - 1, placed)
        finally:
            os.close(fd)


def _names(folder: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except OSError:
        return []
