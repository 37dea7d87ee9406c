"""Moves to another file system: copied beside the new place, put in, and only then removed from the old one."""

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass

from ..errors import Code, ToolError
from ..os_errors import refusal
from ..path_jail.roots import JailedPath
from .file_version import FileVersion
from .renameat2 import exchange, rename_no_replace
from .rollback import Outcome, name_again, not_back, put_back, remove_again, stays_mixed
from .temp_names import temporary_name
from .tree_ops import copy, remove_tree, signature


class SourceLeft(ToolError):
    """The copy is in its place, and the source, or a part of it, could not be removed."""


def move_far(
    old: JailedPath, new: JailedPath, old_fd: int, new_fd: int, expect: FileVersion | None, replacing: bool
) -> None:
    """Move an entry from one open folder to another. replacing: a file is there; it goes only in the state that is expected.

    ToolError file_changed, refused; OSError. Then all is as before, but for what others have written and what is told. Raises
    SourceLeft.
    """
    copied = _copied(old, new, old_fd, new_fd)
    leaving = _change_places(old, new, old_fd, new_fd, copied, expect, replacing)
    try:
        remove_tree(old_fd, leaving)
    except OSError as e:
        left = old
        try:
            _set_back(old, old_fd, leaving)
        except ToolError:
            left = old.folder().child(leaving)
        why = refusal(e, old.shown)
        raise SourceLeft(
            why.code,
            f"{why.error}: all of it is copied to {new.shown}, and not all of it could be removed",
            f"delete what is left of {left.shown}",
        ) from None


@dataclass(frozen=True)
class _Copied:
    """A copy beside its place. state, signed: its own state and signature; before: the signature of what it is of."""

    name: str
    state: FileVersion
    signed: str
    before: str


def _copied(old: JailedPath, new: JailedPath, old_fd: int, new_fd: int) -> _Copied:
    """Copy what does not change meanwhile. A failure leaves nothing. ToolError file_changed, refused; OSError."""
    name = new.roots.staging.name(new_fd)
    try:
        before = signature(old_fd, old.name, _state)
        copy(old_fd, old.name, new_fd, name)
        _check_unchanged(old_fd, old.name, before)
        return _Copied(name, FileVersion.at(new_fd, name), signature(new_fd, name, _state), before)
    except BaseException:
        with suppress(OSError):
            remove_tree(new_fd, name)
        raise


def _change_places(
    old: JailedPath,
    new: JailedPath,
    old_fd: int,
    new_fd: int,
    copied: _Copied,
    expect: FileVersion | None,
    replacing: bool,
) -> str:
    """Put a copy in its place and set aside what it is of, whose name then is returned; or leave both and remove the copy.

    The copy comes first, so that one of them always has its name, but where it could not be taken back.
    """
    swapped = placed = False
    leaving = None
    try:
        swapped = replacing and exchange(new_fd, copied.name, new.name)
        if replacing and not swapped:
            leaving = _set_aside_unchanged(old, old_fd, copied.before)
            if expect:
                check_expected(new_fd, new, expect)
        if swapped:
            if expect and not expect.holds(new_fd, copied.name):
                raise just_changed(new)
        elif replacing:
            os.rename(copied.name, new.name, src_dir_fd=new_fd, dst_dir_fd=new_fd)
        else:
            rename_no_replace(new_fd, copied.name, new_fd, new.name)
            placed = True
        leaving = leaving or _set_aside_unchanged(old, old_fd, copied.before)
        # What goes away now has to be on the other disk.
        os.fsync(new_fd)
    except BaseException:
        try:
            if leaving:
                _set_back(old, old_fd, leaving)
        finally:
            _take_back(new, new_fd, copied, swapped=swapped, placed=placed)
        raise
    if swapped:
        with suppress(OSError):
            os.unlink(copied.name, dir_fd=new_fd)
    return leaving


def _take_back(new: JailedPath, new_fd: int, copied: _Copied, *, swapped: bool, placed: bool) -> None:
    """Remove a copy, and give what it took the place of its name again. ToolError refused, file_changed."""
    outcome = None
    try:
        if swapped:
            outcome = put_back(new_fd, copied.name, new.name, copied.state)
        elif placed:
            outcome = _remove_copy(new, new_fd, copied)
        else:
            with suppress(OSError):
                remove_tree(new_fd, copied.name)
    except OSError as e:
        raise not_back(new, new_fd, copied.name, e) from None
    if outcome is Outcome.MIXED:
        raise stays_mixed(new)


def _remove_copy(new: JailedPath, new_fd: int, copied: _Copied) -> Outcome:
    """Take a copy out of its place, but not what somebody has written there since. OSError."""
    try:
        status = os.stat(new.name, dir_fd=new_fd, follow_symlinks=False)
    except FileNotFoundError:
        return Outcome.THEIRS
    if not stat.S_ISDIR(status.st_mode):
        return remove_again(new_fd, copied.name, new.name, copied.state)
    rename_no_replace(new_fd, new.name, new_fd, copied.name)
    if signature(new_fd, copied.name, _state) == copied.signed:
        remove_tree(new_fd, copied.name)
        return Outcome.BACK
    rename_no_replace(new_fd, copied.name, new_fd, new.name)
    return Outcome.MIXED


def _set_aside_unchanged(old: JailedPath, dir_fd: int, before: str) -> str:
    """Do as _set_aside() does, and set back what is not as it was copied. ToolError file_changed, refused."""
    leaving = _set_aside(old, dir_fd)
    try:
        _check_unchanged(dir_fd, leaving, before)
    except BaseException:
        _set_back(old, dir_fd, leaving)
        raise
    return leaving


def _check_unchanged(dir_fd: int, name: str, before: str) -> None:
    # What somebody wrote behind the copy's back would go away with the old files.
    if signature(dir_fd, name, _state) != before:
        raise ToolError(Code.FILE_CHANGED, "what was to move changed while it was copied", "try again")


def _set_aside(old: JailedPath, dir_fd: int) -> str:
    """Give what is copied another name and return it: what may not go away must not take a place elsewhere.

    It keeps its name where the system renames no such folder at all, as overlayfs those of a lower layer.
    """
    leaving = temporary_name()
    try:
        os.rename(old.name, leaving, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError as e:
        if e.errno == errno.EXDEV:
            return old.name
        raise refusal(e, old.shown) from None
    return leaving


def _set_back(old: JailedPath, dir_fd: int, leaving: str) -> None:
    if leaving != old.name:
        name_again(old, dir_fd, leaving)


def check_expected(new_fd: int, new: JailedPath, expect: FileVersion) -> None:
    """ToolError file_changed where what has the name is not in the state expected."""
    if not expect.holds(new_fd, new.name):
        raise just_changed(new)


def just_changed(place: JailedPath) -> ToolError:
    """Return the refusal of a place at which somebody has written meanwhile."""
    return ToolError(Code.FILE_CHANGED, f"{place.shown} has just changed", "try again")


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
