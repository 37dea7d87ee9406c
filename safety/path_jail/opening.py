"""Opening beneath a folder, so that checking a path and using it are one operation.

Two engines do the same: one openat2 call on Linux 5.6 or later, and elsewhere a walk that opens
one component after the other and never lets the system follow a link.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

from .openat2 import NO_LINK, NO_SYMLINKS, NO_XDEV, O_PATH, RETRIES, Openat2

T = TypeVar("T")

MAX_LINKS = 40
"""Links followed in one path; the bound that Linux has (path_resolution(7))."""

MAX_PATH = 4096
"""Bytes in a path, as on Linux (PATH_MAX)."""

MAX_STEPS = 16_384
"""Components taken in one path, those of its links included. Linux counts links only; a path has at most 2,048
components, but 40 links of 1,300 `..` each would keep the walk busy for seconds."""

_ENTER: int = (O_PATH or getattr(os, "O_SEARCH", os.O_RDONLY)) | NO_LINK

FOLDER: int = os.O_RDONLY | NO_LINK
"""Flags that open a folder by one name in another, to read it, and fail at a link."""


class Engine(Enum):
    """How a path is opened beneath a root."""

    OPENAT2 = "openat2"
    WALK = "walk"


class Links(Enum):
    """Which links of a path are followed."""

    FOLLOW = "all"
    ENTRY = "all but the last component"
    NONE = "none"


@dataclass(frozen=True)
class Root:
    """An allowed folder: where it is, by which absolute names it is known, and its descriptor."""

    path: Path
    names: tuple[tuple[str, ...], ...]
    fd: int


@dataclass(frozen=True)
class Spot:
    """Where a path ends once its links are followed.

    parts are names below the root, none of them a link. dir_fd is the folder of the last one, and
    None when that folder is missing, or is something else; then error says which. The descriptor is lent for
    the time of the visit.
    """

    root: Root
    parts: tuple[str, ...]
    dir_fd: int | None
    error: int = errno.ENOENT


Find = Callable[[Sequence[str]], tuple[Root, tuple[str, ...]] | None]


def normal(parts: Sequence[str]) -> tuple[str, ...]:
    """Take `.` and `..` out of the parts of an absolute path, as text."""
    out: list[str] = []
    for part in parts:
        if part == "..":
            del out[-1:]
        elif part not in ("", "."):
            out.append(part)
    return tuple(out)


class Opener:
    """Opens, stats and resolves names beneath roots. Raises OSError; EXDEV means that a path leaves the roots.

    find: the root of the parts of an absolute path and the parts below it, or None.
    """

    def __init__(self, find: Find, *, call: Openat2 | None, block_symlinks: bool, no_xdev: bool) -> None:
        self.find = find
        self.call = call
        self.block_symlinks = block_symlinks
        self.no_xdev = no_xdev
        # Links of /proc that jump instead of naming a path are recognised by their device.
        self._proc: int | None = None
        with suppress(OSError):
            self._proc = Path("/proc").stat().st_dev

    def open(self, root: Root, parts: Sequence[str], flags: int, links: Links) -> int:
        """Return a descriptor, always close-on-exec."""
        if self.call:
            try:
                return self._beneath(root.fd, "/".join(parts) or ".", flags, links)
            except OSError as e:
                if e.errno not in (errno.EXDEV, errno.EAGAIN) or links is Links.NONE:
                    raise
        # A link that is absolute, or that leads to another root, is followed by hand.
        return self._at(root, parts, links, lambda dir_fd, name: self._last(dir_fd, name, flags, links))

    def stat(self, root: Root, parts: Sequence[str], links: Links) -> os.stat_result:
        """Return the status of what is there, without opening it where the system allows that."""
        if O_PATH:
            fd = self.open(root, parts, O_PATH, links)
            try:
                return os.fstat(fd)
            finally:
                os.close(fd)
        return self._at(root, parts, links, lambda dir_fd, name: self._status(dir_fd, name, links))

    def plain_status(self, root: Root, parts: Sequence[str], links: Links) -> os.stat_result | None:
        """Return the status of what is there when no link is followed on the way to it; None also where nothing is, and
        where this cannot be known in one step.
        """
        if not self.call:
            return None
        flags = O_PATH if links is Links.FOLLOW else O_PATH | os.O_NOFOLLOW
        resolve = NO_SYMLINKS | (NO_XDEV if self.no_xdev else 0)
        try:
            fd = self.call(root.fd, "/".join(parts) or ".", flags, resolve)
        except OSError:
            return None
        try:
            return os.fstat(fd)
        except OSError:  # as of a file that has gone from a network file system
            return None
        finally:
            os.close(fd)

    @contextmanager
    def visit(self, root: Root, parts: Sequence[str], links: Links) -> Iterator[Spot]:
        """Follow the links of a path one by one and lend the folder in which it ends."""
        walk = _Walk(self, root, parts, links)
        try:
            yield walk.run()
        finally:
            walk.close()

    def enter(self, dir_fd: int, name: str) -> int:
        """Open a folder by one name, which must not be a link."""
        if self.call:
            return self._beneath(dir_fd, name, _ENTER, Links.NONE)
        return self._same_mount(dir_fd, os.open(name, _ENTER, dir_fd=dir_fd))

    def is_magic(self, target: str, dir_fd: int) -> bool:
        """Tell a link of /proc that jumps; the true links there (self, mounts) are relative."""
        return (target.startswith("/") or ":[" in target) and os.fstat(dir_fd).st_dev == self._proc

    def _beneath(self, dir_fd: int, path: str, flags: int, links: Links) -> int:
        assert self.call
        resolve = NO_XDEV if self.no_xdev else 0
        if self.block_symlinks or links is Links.NONE:
            resolve |= NO_SYMLINKS
        if links is not Links.FOLLOW:
            flags |= os.O_NOFOLLOW
        return self.call(dir_fd, path, flags, resolve)

    def _at(self, root: Root, parts: Sequence[str], links: Links, act: Callable[[int, str], T]) -> T:
        for _ in range(RETRIES):
            with self.visit(root, parts, links) as spot:
                if spot.dir_fd is None:
                    raise OSError(spot.error, os.strerror(spot.error))
                try:
                    return act(spot.dir_fd, spot.parts[-1] if spot.parts else ".")
                except OSError as e:
                    # A link may have come into the place of what was looked at a moment ago.
                    if e.errno != errno.ELOOP or links is not Links.FOLLOW:
                        raise
        raise _loop()

    def _last(self, dir_fd: int, name: str, flags: int, links: Links) -> int:
        if self.call:
            fd = self._beneath(dir_fd, name, flags, Links.NONE)
        else:
            fd = self._same_mount(dir_fd, os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd))
        try:
            # O_PATH opens a link itself.
            if flags & O_PATH and links is Links.FOLLOW and stat.S_ISLNK(os.fstat(fd).st_mode):
                raise _loop()
        except OSError:
            os.close(fd)
            raise
        return fd

    def _status(self, dir_fd: int, name: str, links: Links) -> os.stat_result:
        status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if links is Links.FOLLOW and stat.S_ISLNK(status.st_mode):
            raise _loop()
        if self.no_xdev and status.st_dev != os.fstat(dir_fd).st_dev:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return status

    def _same_mount(self, parent: int, fd: int) -> int:
        try:
            if self.no_xdev and _mount(parent) != _mount(fd):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        except OSError:
            os.close(fd)
            raise
        return fd


class _Walk:
    """One path on its way through its links. Holds the descriptors of the last folders it went through."""

    _HELD = 32  # descriptors; more than trees are deep, and few enough for many walks at a time

    def __init__(self, opener: Opener, root: Root, parts: Sequence[str], links: Links) -> None:
        # The system never sees the whole path here, so its bound is kept by hand.
        if len(os.fsencode("/".join(parts))) >= MAX_PATH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        self.opener = opener
        self.links = links
        self.root = root
        self.folders = [os.dup(root.fd)]
        self.names: list[str] = []
        self.todo = list(reversed(parts))
        self.followed = 0
        self.steps = 0

    def run(self) -> Spot:
        """Take every component and tell where the last one is."""
        while True:
            if not self.todo:
                if not self.names:
                    return Spot(self.root, (), self.folders[-1])
                # The path ends in a folder that is already open, where a link's `..` led. It is its folder's entry.
                self.todo = [self.names[-1], ".."]
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise _loop()
            name = self.todo.pop()
            if name == "..":
                self._up()
                continue
            target = None
            if self.todo:
                try:
                    folder = self.opener.enter(self.folders[-1], name)
                except FileNotFoundError as e:
                    return self._nowhere(name, e)
                except OSError as e:
                    if e.errno not in (errno.ELOOP, errno.ENOTDIR):
                        raise
                    target = _link(name, self.folders[-1])
                    if target is None:
                        if e.errno != errno.ENOTDIR:
                            raise
                        return self._nowhere(name, e)
                else:
                    self.folders.append(folder)
                    self.names.append(name)
                    if len(self.folders) > self._HELD:
                        os.close(self.folders.pop(0))
                    continue
            elif self.links is Links.FOLLOW:
                target = _link(name, self.folders[-1])
            if target is None:
                return Spot(self.root, (*self.names, name), self.folders[-1])
            self._follow(target)

    def _nowhere(self, name: str, error: OSError) -> Spot:
        return Spot(*self._inside([*self.names, name, *reversed(self.todo)]), None, error.errno or errno.ENOENT)

    def close(self) -> None:
        """Give the descriptors back."""
        while self.folders:
            os.close(self.folders.pop())

    def _up(self) -> None:
        if not self.names:
            self._restart(*self._inside(["..", *reversed(self.todo)]))
        elif len(self.folders) > 1:
            os.close(self.folders.pop())
            self.names.pop()
        else:
            self._restart(self.root, [*self.names[:-1], *reversed(self.todo)])

    def _follow(self, target: str) -> None:
        self.followed += 1
        if (
            self.followed > MAX_LINKS
            or self.links is Links.NONE
            or self.opener.block_symlinks
            or self.opener.is_magic(target, self.folders[-1])
        ):
            raise _loop()
        names = [name for name in target.split("/") if name not in ("", ".")]
        if target.startswith("/"):
            self._restart(*self._allowed([*normal(names), *reversed(self.todo)]))
        else:
            self.todo += reversed(names)

    def _restart(self, root: Root, parts: Sequence[str]) -> None:
        self.close()
        self.root = root
        self.folders.append(os.dup(root.fd))
        self.names.clear()
        self.todo = list(reversed(parts))

    def _inside(self, parts: Sequence[str]) -> tuple[Root, tuple[str, ...]]:
        return self._allowed(normal([*self.root.path.parts[1:], *parts]))

    def _allowed(self, parts: Sequence[str]) -> tuple[Root, tuple[str, ...]]:
        found = self.opener.find(parts)
        if found is None:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return found


def _loop() -> OSError:
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _link(name: str, dir_fd: int) -> str | None:
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError as e:
        if e.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _mount(fd: int) -> tuple[int, str]:
    """Identify the mount; bind mounts of one file system differ only in the mount id that /proc tells."""
    number = ""
    with suppress(OSError), open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as info:
        number = next((line for line in info if line.startswith("mnt_id:")), "")
    return os.fstat(fd).st_dev, number
