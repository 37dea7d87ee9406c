"""Whole files: read with a bound, replaced in one step."""

import dataclasses
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ..errors import Code, ToolError
from ..os_errors import refusal
from ..path_jail.roots import JailedPath
from .file_version import Data, FileVersion, etag
from .fs_ops import make_parents, remove_folders
from .metadata import keep_attributes, keep_owner, owner_of, permitted
from .renameat2 import exchange, rename_no_replace
from .rollback import Outcome, not_back, put_back, stays_mixed

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
    with at.parent() as (dir_fd, name):
        try:
            status = check(at, dir_fd, name, expect, overwrite)
            now = time.time_ns()
            old = _content(dir_fd, name, status, keep)
            if status and old is not None and expect is None:
                # What undo brings back has to be what goes away.
                expect = FileVersion.of(status).read(old, now)
            with opened(dir_fd, name if status else None) as former:
                filled = _put(at, dir_fd, name, data, status, expect, mode, overwrite, former)
        except FileExistsError:
            if overwrite:
                raise ToolError(
                    Code.FILE_CHANGED, f"{at.shown} has just been made by somebody else", "read it"
                ) from None
            raise ToolError(Code.EXISTS, f"{at.shown} exists") from None
        except IsADirectoryError:
            raise ToolError(Code.IS_A_DIRECTORY, f"{at.shown} is a folder") from None
        except FileNotFoundError:
            raise ToolError(Code.FILE_CHANGED, f"{at.shown}, or its folder, has just gone", "try again") from None
        except OSError as e:
            raise refusal(e, at.shown) from None
    return Written(
        place=at,
        etag=etag(data),
        created=status is None,
        old=old,
        old_mode=stat.S_IMODE(status.st_mode) if status else None,
        mode=stat.S_IMODE(filled.st_mode),
        before=FileVersion.of(status) if status else None,
        after=FileVersion.of(filled),
        folders=folders,
    )


def _put(
    at: JailedPath,
    dir_fd: int,
    name: str,
    data: Data,
    status: os.stat_result | None,
    expect: FileVersion | None,
    mode: int | None,
    overwrite: bool,
    former: int | None,
) -> os.stat_result:
    """Write the file beside its place, sync it and put it in, and return its status. former: the open file there."""
    temporary = at.roots.staging.name(dir_fd)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o600 if status else 0o666, dir_fd=dir_fd)
    swapped = False
    try:
        fill(fd, data, status, mode, former)
        os.fsync(fd)
        filled = os.fstat(fd)
        check(at, dir_fd, name, expect, overwrite)
        if not overwrite or status is None:
            rename_no_replace(dir_fd, temporary, dir_fd, name)
        elif not (expect and (swapped := exchange(dir_fd, temporary, name))):
            os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException as e:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
        if isinstance(e, FileNotFoundError) and expect:
            raise ToolError(Code.FILE_CHANGED, f"{at.shown} is gone since it was read", "read it again") from None
        raise
    finally:
        os.close(fd)
    # A look before the exchange would miss what another program writes in the instant between.
    if swapped and expect and not _is_still(expect, dir_fd, temporary, former):
        raise _taken_back(at, dir_fd, temporary, FileVersion.of(filled).holding(data))
    if swapped:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
    return filled


def _is_still(expect: FileVersion, dir_fd: int, name: str, former: int | None) -> bool:
    with suppress(OSError):
        return expect.holds(dir_fd, name, former)
    return False


def _taken_back(at: JailedPath, dir_fd: int, temporary: str, put: FileVersion) -> ToolError:
    """Give the former file, which has the temporary name, its place back, and return what is to be told. put: what has it now."""
    try:
        outcome = put_back(dir_fd, temporary, at.name, put)
    except OSError as e:
        return not_back(at, dir_fd, temporary, e)
    if outcome is Outcome.MIXED:
        return stays_mixed(at)
    return ToolError(Code.FILE_CHANGED, f"{at.shown} has changed since it was read", "read it again")


def check(at: JailedPath, dir_fd: int, name: str, expect: FileVersion | None, overwrite: bool) -> os.stat_result | None:
    """Judge what the name stands for at this moment; None where it is free.

    ToolError is_a_directory, not_a_file, exists, file_changed where it must not be replaced.
    """
    try:
        status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        if expect:
            raise ToolError(Code.FILE_CHANGED, f"{at.shown} is gone since it was read", "read it again") from None
        return None
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(Code.IS_A_DIRECTORY, f"{at.shown} is a folder")
    if stat.S_ISLNK(status.st_mode):
        # Links were followed a moment ago, so somebody has just put it there.
        raise ToolError(Code.FILE_CHANGED, f"{at.shown} has become a link", "read it again")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(Code.NOT_A_FILE, f"{at.shown} is not a regular file")
    if not overwrite:
        raise ToolError(Code.EXISTS, f"{at.shown} exists", "overwrite=true replaces it")
    # A mode or an owner that somebody has just set would be lost, and a time that was set back hides a write.
    if expect and (FileVersion.of(status) != expect or expect.changed_ns not in (None, status.st_ctime_ns)):
        raise ToolError(Code.FILE_CHANGED, f"{at.shown} has changed since it was read", "read it again")
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


@contextmanager
def opened(dir_fd: int, name: str | None) -> Iterator[int | None]:
    """Lend a read descriptor of a file; None for no name, and where the system gives none."""
    fd = None
    if name is not None:
        with suppress(OSError):
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def fill(fd: int, data: Data, status: os.stat_result | None, mode: int | None, former: int | None) -> None:
    """Write a file that takes the place of another: its content, owner, attributes and mode. Syncs nothing.

    status: of the file that is there, or None. mode: permission bits; None keeps those that are there. former: a
    descriptor of the file that is there, whose attributes are kept.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest[:_CHUNK]) :]
    if status:
        group_kept = keep_owner(fd, owner_of(status))
        if former is not None:
            keep_attributes(fd, former)
        if mode is None:
            mode = permitted(status.st_mode, group_kept=group_kept)
    if mode is not None:
        os.fchmod(fd, mode)
