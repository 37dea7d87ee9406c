"""Whole files: read with a bound, replaced in one step."""

import dataclasses
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import Code, ToolError
from ..os_errors import refusal
from ..path_jail.roots import JailedPath
from .file_version import Data, FileVersion, etag
from .fs_ops import make_parents, remove_folders
from .swap import check_kind, refusing, stage

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Written:
    """What replace() did. place: the file itself, links followed.

    old: the former content where it was asked for and fits; old_mode: the former permission bits; before: the former
    state. All None for a created file. mode, after: the permission bits and the state of what was written. folders:
    parent folders that were made, outermost first.
    """

    place: JailedPath
    etag: str
    created: bool
    old: bytes | None
    old_mode: int | None
    mode: int
    before: FileVersion | None
    after: FileVersion
    folders: tuple[JailedPath, ...]


def read_whole(place: JailedPath, limit: int) -> tuple[bytes, FileVersion]:
    """Read a regular file of at most limit bytes, and tell what was seen before the first byte.

    What the status says of the size is not trusted. ToolError not_a_file, too_large, path_denied.
    """
    fd = place.open_file()
    try:
        now = time.time_ns()
        seen = FileVersion.of(os.fstat(fd))
        data = bytearray()
        while chunk := os.read(fd, min(_CHUNK, limit + 1 - len(data))):
            data += chunk
            if len(data) > limit:
                raise ToolError(Code.TOO_LARGE, f"{place.shown} is larger than {limit} bytes")
    except OSError as e:
        raise refusal(e, place.shown) from None
    finally:
        os.close(fd)
    whole = bytes(data)
    return whole, seen.read(whole, now)


def digested(place: JailedPath) -> tuple[str, FileVersion]:
    """Return the etag of a regular file of any size, in constant memory, and what was seen before the first byte.

    ToolError not_a_file, path_denied.
    """
    fd = place.open_file()
    try:
        now = time.time_ns()
        seen = FileVersion.of(os.fstat(fd))
        digest = hashlib.sha256()
        left = seen.size
        # No further than it was: else one that grows all the time would be read for ever.
        while left > 0 and (chunk := os.read(fd, min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
    except OSError as e:
        raise refusal(e, place.shown) from None
    finally:
        os.close(fd)
    tag = digest.hexdigest()[:16]
    return tag, dataclasses.replace(seen, digest=tag) if seen.is_fresh(now) else seen


@contextmanager
def locked(place: JailedPath) -> Iterator[JailedPath]:
    """Hold the file against other writers of this server, and lend the place with its links followed.

    For reading, changing and replacing as one step. The same thread may take it again.
    """
    at = place.target()
    with at.roots.locks.hold(at.absolute):
        yield at


def replace(
    place: JailedPath,
    data: Data,
    *,
    expect: FileVersion | None = None,
    mode: int | None = None,
    create_parents: bool = False,
    overwrite: bool = True,
    keep: int = 0,
) -> Written:
    """Give a file its content in one step: it is the old file or the new one, never a part.

    A link is followed and its target replaced. expect: the state that the content was made from. mode:
    permission bits; None keeps those of the file, and leaves those of a created one to the umask. keep: largest former
    content in bytes to return. ToolError protected_path, is_a_directory, not_a_file (special file), exists, not_found
    (no parent), refused (too many new parents, disk full), file_changed, path_denied. On every failure the file is as
    it was and nothing is left beside it.
    """
    with locked(place) as at:
        place.check_names()
        at.check_writable(expect)
        folders: tuple[JailedPath, ...] = ()
        if create_parents and at.parts:
            folders = make_parents(at)
        try:
            return _replace(at, data, expect, mode, overwrite, keep, folders)
        except ToolError:
            remove_folders(folders)
            raise


def _replace(
    at: JailedPath,
    data: Data,
    expect: FileVersion | None,
    mode: int | None,
    overwrite: bool,
    keep: int,
    folders: tuple[JailedPath, ...],
) -> Written:
    if not at.parts:
        raise ToolError(Code.IS_A_DIRECTORY, f"{at.shown} is a folder")
    with at.parent() as (dir_fd, name), refusing(at):
        status = _former(at, dir_fd, overwrite)
        now = time.time_ns()
        old = _content(dir_fd, name, status, keep)
        if status and expect is None:
            # What undo brings back has to be what goes away.
            expect = FileVersion.of(status)
            expect = expect if old is None else expect.read(old, now)
        try:
            swap = stage(at, dir_fd, data, expect, mode=mode)
            try:
                swap.run(dir_fd)
            except BaseException:
                swap.cancel(dir_fd)
                raise
        except FileExistsError:
            if overwrite:
                raise
            raise ToolError(Code.EXISTS, f"{at.shown} exists") from None
        if status:
            swap.finish(dir_fd)
    assert swap.mode is not None
    assert swap.put is not None
    return Written(
        place=at,
        etag=etag(data),
        created=status is None,
        old=old,
        old_mode=stat.S_IMODE(status.st_mode) if status else None,
        mode=swap.mode,
        before=FileVersion.of(status) if status else None,
        after=swap.put,
        folders=folders,
    )


def _former(at: JailedPath, dir_fd: int, overwrite: bool) -> os.stat_result | None:
    """Return the status of the file that is there. ToolError is_a_directory, not_a_file, file_changed, exists."""
    try:
        status = os.stat(at.name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    check_kind(at, status)
    if not overwrite:
        raise ToolError(Code.EXISTS, f"{at.shown} exists", "overwrite=true replaces it")
    return status


def _content(dir_fd: int, name: str, status: os.stat_result | None, keep: int) -> bytes | None:
    """Return the former content if it has at most keep bytes."""
    if status is None or keep <= 0 or status.st_size > keep:
        return None
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(name, "rb", opener=lambda name, _: os.open(name, flags, dir_fd=dir_fd)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        data = file.read(keep + 1)
    return data if len(data) <= keep else None
