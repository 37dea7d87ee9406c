"""Folders and entries: making, moving and removing them beneath descriptors, never through a link."""

import errno
import os
import stat
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from ..errors import Code, ToolError
from ..os_errors import refusal
from ..path_jail.opening import Links
from ..path_jail.protected import fold
from ..path_jail.roots import FIND, JailedPath
from .cross_device_move import move_far
from .file_version import FileVersion
from .renameat2 import give_second_name, rename_no_replace
from .rollback import name_again
from .swap import Swap, look
from .temp_names import temporary_name
from .tree_ops import Cursor, Move, remove_tree, traverse

MAX_NEW_FOLDERS = 8
"""Parent folders that one call may make (TOOLS.md); more is a mistake in the path."""

_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)  # the same, POSIX leaves it to the system


@dataclass(frozen=True)
class Moved:
    """What move() did. place: where the entry is. replaced: a file was there before. folders: made, outermost first."""

    place: JailedPath
    replaced: bool
    folders: tuple[JailedPath, ...]


def make_folders(place: JailedPath) -> tuple[JailedPath, ...]:
    """Make a folder and those above it, and return what was made, outermost first; nothing if it is there.

    ToolError protected_path, exists (something else has the name), not_a_directory (on the way), refused (more
    than MAX_NEW_FOLDERS, disk full), path_denied. A failure leaves nothing behind.
    """
    at = place.target()
    missing: list[JailedPath] = []
    step = at
    while (status := step.stat()) is None:
        missing.insert(0, step)
        step = step.folder()
    if not stat.S_ISDIR(status.st_mode):
        if missing:
            raise ToolError(Code.NOT_A_DIRECTORY, f"{step.shown} is not a folder")
        raise ToolError(Code.EXISTS, f"{step.shown} is there and is not a folder")
    if not missing:
        return ()
    at.check_writable()
    if len(missing) > MAX_NEW_FOLDERS:
        raise ToolError(
            Code.REFUSED, f"{at.shown} needs {len(missing)} new folders, at most {MAX_NEW_FOLDERS} are made"
        )
    made: list[JailedPath] = []
    try:
        for folder in missing:
            with folder.parent() as (dir_fd, name):
                try:
                    os.mkdir(name, dir_fd=dir_fd)
                    made.append(folder)
                except FileExistsError:
                    if not stat.S_ISDIR(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode):
                        raise ToolError(Code.EXISTS, f"{folder.shown} is there and is not a folder") from None
    except (OSError, ToolError) as e:
        remove_folders(made)
        raise (refusal(e, at.shown) if isinstance(e, OSError) else e) from None
    return tuple(made)


def make_parents(place: JailedPath) -> tuple[JailedPath, ...]:
    """Make the folders above a place as make_folders() does; not_a_directory also where the next one is none."""
    try:
        return make_folders(place.folder())
    except ToolError as e:
        if e.code is Code.EXISTS:
            raise ToolError(Code.NOT_A_DIRECTORY, f"{place.folder().shown} is not a folder") from None
        raise


def remove_folders(made: list[JailedPath] | tuple[JailedPath, ...]) -> None:
    """Take back what make_folders() made, as far as it is still empty."""
    for folder in reversed(made):
        with suppress(ToolError, OSError), folder.parent() as (dir_fd, name):
            os.rmdir(name, dir_fd=dir_fd)


def move(
    source: JailedPath, destination: JailedPath, *, overwrite: bool = False, expect: FileVersion | None = None
) -> Moved:
    """Rename an entry, a link itself included; across file systems copy it, then remove it.

    Parents are made. expect: the state of what is overwritten; file_changed where it is in another one. ToolError not_found,
    exists, is_a_directory (a folder is never replaced), no_change (onto itself), refused (a root, a folder into itself, a
    special file across file systems), protected_path (either side, or something inside a moved folder), path_denied.
    """
    old, new = _entry(source), _entry(destination)
    status = old.stat()
    if status is None:
        raise ToolError(Code.NOT_FOUND, f"there is no {old.shown}", old.similar() or FIND)
    _check_root(old)
    if old.path == new.path:
        raise ToolError(Code.NO_CHANGE, f"{old.shown} is already there")
    with old.roots.locks.hold(old.absolute, new.absolute):
        old.check_writable()
        is_folder = stat.S_ISDIR(status.st_mode)
        # A link may lead to a folder, whose content then has the names below it.
        new.check_writable(folder=is_folder or stat.S_ISLNK(status.st_mode))
        if is_folder:
            if new.path.is_relative_to(old.path):
                raise ToolError(Code.REFUSED, f"{old.shown} cannot move into itself")
            _check_tree(old, new)
        there = new.stat()
        same = there is not None and (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino)
        renamed_case = same and _one_name(old, new)
        if there and not renamed_case:
            if stat.S_ISDIR(there.st_mode):
                raise ToolError(Code.IS_A_DIRECTORY, f"{new.shown} is a folder", "name the entry inside it")
            if not overwrite or is_folder:
                hint = "a folder replaces nothing" if is_folder else "overwrite=true replaces it"
                raise ToolError(Code.EXISTS, f"{new.shown} exists", hint)
        folders = make_parents(new)
        try:
            # Without a state that is expected what is there goes as it is.
            expect = (expect or FileVersion.of(there)) if there else None
            _rename(old, new, expect, linked=same and not renamed_case, renamed_case=renamed_case)
        except (OSError, ToolError) as e:
            remove_folders(folders)
            raise (refusal(e, new.shown) if isinstance(e, OSError) else e) from None
    return Moved(new, there is not None and not renamed_case, folders)


def removable(place: JailedPath, *, recursive: bool) -> str:
    """Say what an entry is that may be removed: file, directory or link.

    ToolError not_found, not_empty (a folder with content, not recursive), refused (a root, or a folder around one),
    protected_path, path_denied.
    """
    at = _entry(place)
    status = at.stat()
    if status is None:
        raise ToolError(Code.NOT_FOUND, f"there is no {at.shown}", at.similar() or FIND)
    _check_root(at)
    at.check_writable()
    if not stat.S_ISDIR(status.st_mode):
        return "link" if stat.S_ISLNK(status.st_mode) else "file"
    if not recursive:
        fd = at.open_folder()
        try:
            with os.scandir(fd) as scan:
                if next(scan, None):
                    raise _not_empty(at)
        except OSError as e:
            raise refusal(e, at.shown) from None
        finally:
            os.close(fd)
    return "directory"


def remove(place: JailedPath, *, recursive: bool = False) -> str:
    """Remove an entry for good, a link itself, and say what it was: file, directory or link.

    ToolError as from removable(), also protected_path for something inside and refused for another file system below.
    """
    at = _entry(place)
    with at.roots.locks.hold(at.absolute):
        kind = removable(at, recursive=recursive)
        with at.parent() as (dir_fd, name):
            try:
                if kind != "directory":
                    os.unlink(name, dir_fd=dir_fd)
                elif recursive:
                    _remove_all(at, dir_fd)
                else:
                    os.rmdir(name, dir_fd=dir_fd)
            except OSError as e:
                if e.errno in _NOT_EMPTY:
                    raise _not_empty(at) from None
                raise refusal(e, at.shown) from None
    return kind


def _remove_all(at: JailedPath, dir_fd: int) -> None:
    _check_tree(at, None)
    try:
        remove_tree(dir_fd, at.name)
    except OSError as e:
        why = refusal(e, at.shown)
        code = Code.NOT_EMPTY if e.errno in _NOT_EMPTY else why.code
        raise ToolError(code, f"{why.error}: a part of it may be gone", "look at what is left") from None


def _not_empty(at: JailedPath) -> ToolError:
    return ToolError(Code.NOT_EMPTY, f"{at.shown} is not empty", "recursive=true removes it")


def _check_root(at: JailedPath) -> None:
    """ToolError refused for a root, and for a folder with a root below: one root may lie inside another."""
    for root in at.roots.folders:
        if root == at.path:
            raise ToolError(Code.REFUSED, f"{at.shown} is a root folder")
        if root.is_relative_to(at.path):
            raise ToolError(Code.REFUSED, f"{at.shown} holds a root folder")


def _entry(place: JailedPath) -> JailedPath:
    return (replace(place, links=Links.ENTRY) if place.links is Links.FOLLOW else place).target()


def _one_name(old: JailedPath, new: JailedPath) -> bool:
    """Return True if the places of one file are spellings of one name, as a file system that ignores case has them."""
    if old.path.parent != new.path.parent or fold(old.name) != fold(new.name):
        return False
    fd = old.folder().open_folder()
    try:
        return not {old.name, new.name} <= set(os.listdir(fd))
    except OSError as e:
        raise refusal(e, old.shown) from None
    finally:
        os.close(fd)


def _check_tree(old: JailedPath, new: JailedPath | None) -> None:
    """ToolError protected_path if a folder holds, or would hold at its new place, what is never written."""
    protected = old.roots.protected
    judges = [protected.below(place.root.path, place.parts) for place in (old, new) if place]
    try:
        with old.parent() as (dir_fd, name), closing(Cursor(dir_fd)) as cursor:
            cursor.down(name)
            for step in traverse(cursor):
                for judge in judges:
                    if step.move is Move.LEAVE:
                        judge.up()
                    elif why := judge.refusal(step.name):
                        raise ToolError(Code.PROTECTED_PATH, f"{old.shown} holds something protected: {why}")
                    elif step.move is Move.ENTER:
                        judge.down(step.name)
    except OSError as e:
        raise refusal(e, old.shown) from None


def _rename(old: JailedPath, new: JailedPath, expect: FileVersion | None, *, linked: bool, renamed_case: bool) -> None:
    """expect: the state of what is replaced, None where nothing is. linked: both are names of one file; renamed_case: one name."""
    with old.parent() as (old_fd, old_name), new.parent() as (new_fd, new_name):
        if linked:
            # A rename between two names of one file does nothing.
            _remove_name(old, old_fd, FileVersion.at(new_fd, new_name))
            return
        try:
            try:
                if renamed_case:
                    os.rename(old_name, new_name, src_dir_fd=old_fd, dst_dir_fd=new_fd)
                elif expect:
                    _replace(old, old_fd, new, new_fd, expect)
                else:
                    rename_no_replace(old_fd, old_name, new_fd, new_name)
            except OSError as e:
                if e.errno != errno.EXDEV:
                    raise
                move_far(old, new, old_fd, new_fd, expect)
        except FileExistsError:
            raise ToolError(Code.EXISTS, f"{new.shown} exists") from None
        except FileNotFoundError:
            if old.stat() is None:
                raise ToolError(Code.NOT_FOUND, f"there is no {old.shown}") from None
            raise ToolError(Code.FILE_CHANGED, f"{old.shown} or {new.shown} has just changed", "try again") from None
        for fd in (old_fd, new_fd):
            with suppress(OSError):
                os.fsync(fd)


def _replace(old: JailedPath, old_fd: int, new: JailedPath, new_fd: int, expect: FileVersion) -> None:
    """Rename over what is there, but only over what is in the state expected; without hard links, as far as a look can tell."""
    spare = new.roots.staging.name(new_fd)
    # With two names the source is not lost whatever comes to one of them.
    if not give_second_name(old_fd, old.name, new_fd, spare):
        look(new, new_fd, expect)
        os.rename(old.name, new.name, src_dir_fd=old_fd, dst_dir_fd=new_fd)
        return
    source = FileVersion.at(new_fd, spare)
    swap = Swap(new, spare, expect, source)
    try:
        swap.run(new_fd)
        _remove_name(old, old_fd, source)
    except BaseException:
        swap.cancel(new_fd)
        raise
    swap.finish(new_fd)


def _remove_name(place: JailedPath, dir_fd: int, file: FileVersion) -> None:
    """Take a name from a file that has another one; what somebody has just saved there keeps it."""
    aside = temporary_name()
    rename_no_replace(dir_fd, place.name, dir_fd, aside)
    try:
        if file.is_file(FileVersion.at(dir_fd, aside)):
            os.unlink(aside, dir_fd=dir_fd)
            return
    except OSError:
        name_again(place, dir_fd, aside)
        raise
    name_again(place, dir_fd, aside)
