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
from .renameat2 import rename_no_replace
from .rollback import name_again, not_back, stays_mixed
from .swap import Swap
from .temp_names import temporary_name
from .tree_ops import copy, remove_tree, signature


class SourceLeft(ToolError):
    """The copy is in its place, and the source, or a part of it, could not be removed."""


def move_far(old: JailedPath, new: JailedPath, old_fd: int, new_fd: int, expect: FileVersion | None) -> None:
    """Move an entry from one open folder to another. expect: the state of the file that it replaces; None for none.

    ToolError file_changed, refused; OSError. Then all is as before, but for what others have written and what is told. Raises
    SourceLeft.
    """
    leaving = _change_places(old, old_fd, new_fd, _copied(old, new, old_fd, new_fd, expect))
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
    """A copy beside its place. signed: its signature; before: the signature of what it is of."""

    swap: Swap
    signed: str
    before: str


def _copied(old: JailedPath, new: JailedPath, old_fd: int, new_fd: int, expect: FileVersion | None) -> _Copied:
    """Copy what does not change meanwhile. A failure leaves nothing. ToolError file_changed, refused; OSError."""
    name = new.roots.staging.name(new_fd)
    try:
        before = signature(old_fd, old.name, _state)
        copy(old_fd, old.name, new_fd, name)
        _check_unchanged(old_fd, old.name, before)
        swap = Swap(new, name, expect, FileVersion.at(new_fd, name))
        return _Copied(swap, signature(new_fd, name, _state), before)
    except BaseException:
        with suppress(OSError):
            remove_tree(new_fd, name)
        raise


def _change_places(old: JailedPath, old_fd: int, new_fd: int, copied: _Copied) -> str:
    """Put a copy in its place and set aside what it is of, whose name then is returned; or leave both and remove the copy.

    The copy comes first, so that one of them always has its name, but where it could not be taken back.
    """
    leaving = None
    try:
        copied.swap.run(new_fd)
        leaving = _set_aside(old, old_fd)
        _check_unchanged(old_fd, leaving, copied.before)
        # What goes away now has to be on the other disk.
        os.fsync(new_fd)
    except BaseException:
        try:
            if leaving:
                _set_back(old, old_fd, leaving)
        finally:
            _take_back(new_fd, copied)
        raise
    copied.swap.finish(new_fd)
    return leaving


def _take_back(new_fd: int, copied: _Copied) -> None:
    """Remove a copy, and give what it took the place of its name again. ToolError refused, file_changed."""
    swap = copied.swap
    if not swap.done:
        with suppress(OSError):
            remove_tree(new_fd, swap.spare)
        return
    try:
        is_folder = stat.S_ISDIR(os.stat(swap.place.name, dir_fd=new_fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        is_folder = False
    if not is_folder or swap.expect:
        swap.cancel(new_fd)
        return
    try:
        rename_no_replace(new_fd, swap.place.name, new_fd, swap.spare)
        if signature(new_fd, swap.spare, _state) == copied.signed:
            remove_tree(new_fd, swap.spare)
            return
        rename_no_replace(new_fd, swap.spare, new_fd, swap.place.name)
    except OSError as e:
        raise not_back(swap.place, new_fd, swap.spare, e) from None
    raise stays_mixed(swap.place)


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


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
