"""How a file takes the name of another: what all writers build on.

It is staged beside its place under a spare name, and on the disk before names change. Then the two files exchange their
names in one step, and the one that left is looked at: somebody may have written to it in the instant before.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from ..errors import Code, ToolError
from ..os_errors import refusal
from ..path_jail.roots import JailedPath
from .file_version import Data, FileVersion
from .metadata import (
    Attributes,
    Owner,
    give_attributes,
    keep_attributes,
    keep_owner,
    keep_owner_of_link,
    owner_of,
    permitted,
)
from .renameat2 import exchange, rename_no_replace
from .rollback import Outcome, not_back, put_back, remove_again, stays_mixed
from .tree_ops import copy, remove_tree

_CHUNK = 1 << 20


@dataclass
class Swap:
    """A file or link with a spare name beside its place, which is to get the name of the place.

    expect: the state of what has that name; None where it is free. put: the state of what is staged; None where nothing
    comes and the name is to become free. mode: the permission bits of a staged file, data: its content where it is
    known. done: whether the names have changed: then the spare name is that of what left.
    """

    place: JailedPath
    spare: str
    expect: FileVersion | None
    put: FileVersion | None = None
    mode: int | None = None
    data: Data | None = None
    done: bool = False

    def run(self, dir_fd: int) -> None:
        """Change the names, if what has the name is what is expected. After any failure take_back() or cancel() is due.

        ToolError as from look(); FileExistsError, OSError.
        """
        name, copied = self.place.name, False
        try:
            look(self.place, dir_fd, self.expect)
            if self.expect is None:
                if self.put is not None:
                    rename_no_replace(dir_fd, self.spare, dir_fd, name)
                    self.done = True
                return
            if self.put is None:
                rename_no_replace(dir_fd, name, dir_fd, self.spare)
            elif not exchange(dir_fd, self.spare, name):
                copied = self._rename_over(dir_fd, self.expect)
            self.done = True
            # What was written into the old file in the instant before it left its place would be lost.
            expect = self.expect
            if copied:
                kept = os.stat(self.spare, dir_fd=dir_fd, follow_symlinks=False)
                expect = replace(expect, dev=kept.st_dev, ino=kept.st_ino)
        except FileNotFoundError:
            raise _gone(self.place) from None
        if not expect.holds(dir_fd, self.spare):
            raise changed(self.place)

    def take_back(self, dir_fd: int) -> Outcome:
        """Undo run(), but for what others have written since. OSError."""
        name = self.place.name
        if self.put is None:
            rename_no_replace(dir_fd, self.spare, dir_fd, name)
            return Outcome.BACK
        put = self.put if self.data is None else self.put.holding(self.data)
        if self.expect is None:
            return remove_again(dir_fd, self.spare, name, put)
        return put_back(dir_fd, self.spare, name, put)

    def cancel(self, dir_fd: int) -> None:
        """Undo what was done, and remove what is staged. ToolError refused, file_changed where not all is as before."""
        if not self.done:
            self.finish(dir_fd)
            return
        try:
            outcome = self.take_back(dir_fd)
        except OSError as e:
            raise not_back(self.place, dir_fd, self.spare, e) from None
        if outcome is Outcome.MIXED:
            raise stays_mixed(self.place)

    def finish(self, dir_fd: int) -> None:
        """Remove what has the spare name. What fails here changes nothing any more."""
        with suppress(OSError):
            os.unlink(self.spare, dir_fd=dir_fd)

    def _rename_over(self, dir_fd: int, expect: FileVersion) -> bool:
        """Do in steps what exchange() does, for systems without it, and return True if what has left is kept as a copy."""
        name, kept = self.place.name, self.place.roots.staging.name(dir_fd)
        # In a shared folder, where each removes only what is theirs, a second name of another's file would stay.
        copied = os.geteuid() not in (0, os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_uid)
        if not copied:
            try:
                os.link(name, kept, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
            except OSError:
                copied = True
        try:
            if copied:
                copy(dir_fd, name, dir_fd, kept)
                # What is saved while it is copied would be lost, and a part of it taken for what was there.
                if not expect.holds(dir_fd, name):
                    raise changed(self.place)
            os.rename(self.spare, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        except BaseException:
            with suppress(OSError):
                remove_tree(dir_fd, kept)
            raise
        self.spare = kept
        return copied


def stage(
    place: JailedPath,
    dir_fd: int,
    data: Data,
    expect: FileVersion | None,
    *,
    mode: int | None = None,
    owner: Owner | None = None,
    attributes: Attributes | None = None,
) -> Swap:
    """Write a file beside its place and see it on the disk. A failure leaves nothing. ToolError as from look(); OSError.

    mode: permission bits; None keeps those that are there. owner, attributes: of a file that is created.
    """
    status = look(place, dir_fd, expect)
    spare = place.roots.staging.name(dir_fd)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(spare, flags, 0o600 if status else 0o666, dir_fd=dir_fd)
    try:
        if status is None:
            if owner and not keep_owner(fd, owner) and mode is not None:
                mode = permitted(mode, group_kept=False)
            if attributes:
                give_attributes(fd, attributes)
        with _opened(dir_fd, place.name if status else None) as former:
            fill(fd, data, status, mode, former)
        os.fsync(fd)
        filled = os.fstat(fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(spare, dir_fd=dir_fd)
        raise
    finally:
        os.close(fd)
    # The rename changes the time of its status.
    put = replace(FileVersion.of(filled), changed_ns=None)
    return Swap(place, spare, expect, put, stat.S_IMODE(filled.st_mode), data)


def stage_link(
    place: JailedPath, dir_fd: int, target: bytes, expect: FileVersion | None, owner: Owner | None = None
) -> Swap:
    """Make a symbolic link beside its place. ToolError as from look(); OSError."""
    look(place, dir_fd, expect)
    spare = place.roots.staging.name(dir_fd)
    os.symlink(target, os.fsencode(spare), dir_fd=dir_fd)
    if owner:
        keep_owner_of_link(dir_fd, spare, owner)
    return Swap(place, spare, expect, replace(FileVersion.at(dir_fd, spare), changed_ns=None))


def look(place: JailedPath, dir_fd: int, expect: FileVersion | None) -> os.stat_result | None:
    """Return the status of what has the name of a place at this moment, None where it is free as expected.

    FileExistsError where it is not free. ToolError is_a_directory, not_a_file, file_changed where it has another state.
    """
    try:
        status = os.stat(place.name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        if expect:
            raise _gone(place) from None
        return None
    if expect is None:
        raise FileExistsError
    is_expected = FileVersion.of(status) == expect
    if is_expected and not stat.S_ISREG(status.st_mode):
        return status
    check_kind(place, status)
    # A mode or an owner that somebody has just set would be lost, and a time that was set back hides a write.
    if not is_expected or expect.changed_ns not in (None, status.st_ctime_ns):
        raise changed(place)
    return status


def check_kind(place: JailedPath, status: os.stat_result) -> None:
    """ToolError is_a_directory, file_changed, not_a_file where a status is not that of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(Code.IS_A_DIRECTORY, f"{place.shown} is a folder")
    if stat.S_ISLNK(status.st_mode):
        # Links were followed a moment ago, so somebody has just put it there.
        raise ToolError(Code.FILE_CHANGED, f"{place.shown} has become a link", "read it again")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(Code.NOT_A_FILE, f"{place.shown} is not a regular file")


def changed(place: JailedPath) -> ToolError:
    """Return the refusal of a place at which somebody has written meanwhile."""
    return ToolError(Code.FILE_CHANGED, f"{place.shown} has changed since it was read", "read it again")


def _gone(place: JailedPath) -> ToolError:
    return ToolError(Code.FILE_CHANGED, f"{place.shown} is gone since it was read", "read it again")


@contextmanager
def refusing(place: JailedPath) -> Iterator[None]:
    """Turn what the system refuses about a place into a ToolError."""
    try:
        yield
    except FileExistsError:
        raise ToolError(
            Code.FILE_CHANGED, f"something else has taken the name {place.shown}", "read it again"
        ) from None
    except IsADirectoryError:
        raise ToolError(Code.IS_A_DIRECTORY, f"{place.shown} is a folder") from None
    except FileNotFoundError:
        raise ToolError(Code.FILE_CHANGED, f"{place.shown}, or its folder, has just gone", "try again") from None
    except OSError as e:
        raise refusal(e, place.shown) from None


@contextmanager
def _opened(dir_fd: int, name: str | None) -> Iterator[int | None]:
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
