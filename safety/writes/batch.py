"""Many files changed as one: every one of them, or none."""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from ..errors import Code, ToolError
from ..os_errors import refusal
from ..path_jail.roots import JailedPath, Writable
from .atomic import check, fill, opened
from .file_version import FileVersion
from .fs_ops import make_parents, remove_folders
from .metadata import Attributes, Owner, give_attributes, keep_owner, keep_owner_of_link, permitted
from .renameat2 import exchange, rename_no_replace
from .rollback import Outcome, kept_for_good, put_back, remove_again
from .tree_ops import copy, remove_tree

_AT_ONCE = 64
"""Files between two looks at whether to go on; far below the usual limit of 1,024 descriptors."""

_TOLD = 3  # files that an error names

_THREADS = 8
"""Threads that write. The journal of a file system takes what comes together in one go: to write and sync 1,000 files
on ext4 takes 2.3 s one after the other and 0.3 s with 4 threads or more; to unlink them on a busy disk 0.75 s and 0.1 s."""


@dataclass(frozen=True)
class Change:
    """What a name becomes.

    place: with its links followed. data: the content of a file; None removes what is there. expect: the state of
    the file that is there; None where nothing may be there. mode: permission bits; None keeps those of the file.
    owner, attributes: to whom a file belongs that is created, and its extended attributes, as far as the system allows.
    link: data is the target of a symbolic link instead.
    """

    place: JailedPath
    data: bytes | None
    expect: FileVersion | None
    mode: int | None = None
    link: bool = False
    owner: Owner | None = None
    attributes: Attributes | None = None


@dataclass(frozen=True)
class Changed:
    """What became of a change. mode, after: permission bits and state of what is there, None where nothing is.

    folders: parent folders that were made, outermost first.
    """

    change: Change
    mode: int | None
    after: FileVersion | None
    folders: tuple[JailedPath, ...]


def change_all(changes: Iterable[Change], go_on: Callable[[], object] = lambda: None) -> tuple[Changed, ...]:
    """Make all the changes or none, each place at most once among them.

    All content is on the disk before the first name changes. A failure puts the very files back that were there, but for
    those that others have written to since, which stay as they are by now; if the process dies in between, each name has
    its old or its new file. Missing folders are made. go_on: asked until the first name changes; raises to give up.
    ToolError as from replace(), file_changed also where a file is no longer as expected or a name is taken; refused where
    not all could be put back.
    """
    ordered = sorted(changes, key=lambda change: (change.place.path.parent, change.place.path.name))
    if not ordered:
        return ()
    with ordered[0].place.roots.locks.hold(*(change.place.absolute for change in ordered)):
        return _Batch(ordered, go_on).run()


@dataclass
class _Item:
    """One change on its way. spare: the name beside it for what is not in place: first the new file, then the old."""

    change: Change
    spare: str = ""
    staged: bool = False
    swapped: bool = False
    mode: int | None = None
    after: FileVersion | None = None
    folders: tuple[JailedPath, ...] = ()


class _Batch:
    def __init__(self, changes: Sequence[Change], go_on: Callable[[], object]) -> None:
        self._go_on = go_on
        self._items = [_Item(change) for change in _told_apart(changes)]

    def run(self) -> tuple[Changed, ...]:
        with ThreadPoolExecutor(min(_THREADS, len(self._items))) as pool:
            try:
                self._stage(pool)
                self._swap()
            except BaseException as e:
                trouble = self._take_back()
                if isinstance(e, OSError):
                    e = refusal(e, self._items[0].change.place.folder().shown)
                if trouble and isinstance(e, ToolError):
                    e = _not_all_back(e, trouble)
                raise e from None
            self._finish(pool)
        return tuple(Changed(item.change, item.mode, item.after, item.folders) for item in self._items)

    def _stage(self, pool: ThreadPoolExecutor) -> None:
        """Write every content beside its place and see it on the disk."""
        writable = Writable(self._items[0].change.place.roots)
        for item in self._items:
            self._go_on()
            writable.check(item.change.place)
        for item in self._items:
            if item.change.expect is None and item.change.data is not None:
                item.folders = make_parents(item.change.place)
        for dir_fd, items in self._folders():
            for at in range(0, len(items), _AT_ONCE):
                self._go_on()
                _each(pool, partial(stage, dir_fd), items[at : at + _AT_ONCE])

    def _swap(self) -> None:
        for dir_fd, items in self._folders():
            for item in items:
                with _refusing(item):
                    swap(item, dir_fd)

    def _finish(self, pool: ThreadPoolExecutor) -> None:
        """Remove the old files. What fails here changes nothing any more."""
        for items in self._by_folder():
            with suppress(ToolError), items[0].change.place.parent() as (dir_fd, _):
                try:
                    _each(pool, partial(_unlink, dir_fd), items)
                except ToolError:  # the system gives no thread
                    for item in items:
                        _unlink(dir_fd, item)

    def _take_back(self) -> list[str]:
        """Undo what was done, the last first, and say what could not be undone."""
        trouble = []
        for item in reversed(self._items):
            if item.swapped:
                trouble += _taken_back(item)
            elif item.staged:
                with suppress(ToolError, OSError), item.change.place.parent() as (dir_fd, _):
                    os.unlink(item.spare, dir_fd=dir_fd)
        for item in reversed(self._items):
            remove_folders(item.folders)
        return trouble

    def _folders(self) -> Iterator[tuple[int, list[_Item]]]:
        """Lend each folder's descriptor with the changes in it."""
        for items in self._by_folder():
            with items[0].change.place.parent() as (dir_fd, _):
                yield dir_fd, items

    def _by_folder(self) -> list[list[_Item]]:
        return [list(group) for _, group in groupby(self._items, key=lambda item: item.change.place.path.parent)]


def _told_apart(changes: Sequence[Change]) -> list[Change]:
    """Return the changes; of names for one file none is judged by a status that changes with the first of them."""
    names = Counter(change.expect.file for change in changes if change.expect)
    out = []
    for change in changes:
        expect = change.expect
        if expect and names[expect.file] > 1:
            change = replace(change, expect=replace(expect, changed_ns=None))
        out.append(change)
    return out


@contextmanager
def _refusing(item: _Item) -> Iterator[None]:
    """Say of a system's refusal which file it was about."""
    shown = item.change.place.shown
    try:
        yield
    except FileExistsError:
        raise ToolError(Code.FILE_CHANGED, f"something else has taken the name {shown}", "read it again") from None
    except IsADirectoryError:
        raise ToolError(Code.IS_A_DIRECTORY, f"{shown} is a folder") from None
    except OSError as e:
        raise refusal(e, shown) from None


def look(item: _Item, dir_fd: int) -> os.stat_result | None:
    """Judge what has the name at this moment, by what is expected there."""
    change = item.change
    if change.expect is None:
        try:
            os.stat(change.place.name, dir_fd=dir_fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        raise FileExistsError
    status = os.stat(change.place.name, dir_fd=dir_fd, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode) and FileVersion.of(status) == change.expect:
        return status
    return check(change.place, dir_fd, change.place.name, change.expect, overwrite=True)


def stage(dir_fd: int, item: _Item) -> None:
    """Write the content beside the place, and see it on the disk."""
    with _refusing(item):
        change = item.change
        item.spare = change.place.roots.staging.name(dir_fd)
        try:
            status = look(item, dir_fd)
        except FileNotFoundError:
            raise _gone(item) from None
        if change.data is None:
            return
        if change.link:
            os.symlink(change.data, os.fsencode(item.spare), dir_fd=dir_fd)
            item.staged = True
            if change.owner:
                keep_owner_of_link(dir_fd, item.spare, change.owner)
            item.after = replace(FileVersion.at(dir_fd, item.spare), changed_ns=None)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(item.spare, flags, 0o600 if status else 0o666, dir_fd=dir_fd)
        item.staged = True
        try:
            mode = change.mode
            if status is None and change.owner and not keep_owner(fd, change.owner) and mode is not None:
                mode = permitted(mode, group_kept=False)
            if status is None and change.attributes:
                give_attributes(fd, change.attributes)
            with opened(dir_fd, change.place.name if status else None) as old:
                fill(fd, change.data, status, mode, old)
            os.fsync(fd)
            filled = os.fstat(fd)
        finally:
            os.close(fd)
        # The rename changes the time of its status.
        item.mode, item.after = stat.S_IMODE(filled.st_mode), replace(FileVersion.of(filled), changed_ns=None)


def swap(item: _Item, dir_fd: int) -> None:
    """Let the spare and the place change names, if what is there is still what is expected."""
    change, name = item.change, item.change.place.name
    try:
        look(item, dir_fd)
        if change.expect is None:
            if change.data is not None:
                rename_no_replace(dir_fd, item.spare, dir_fd, name)
                item.swapped = True
            return
        copied = False
        if change.data is None:
            rename_no_replace(dir_fd, name, dir_fd, item.spare)
        elif not exchange(dir_fd, item.spare, name):
            copied = _replace_keeping(item, change.expect, dir_fd, name)
    except FileNotFoundError:
        raise _gone(item) from None
    item.swapped = True
    # What was written into the old file in the instant before it left its place would be lost.
    expect = change.expect
    if copied:
        kept = os.stat(item.spare, dir_fd=dir_fd, follow_symlinks=False)
        expect = replace(expect, dev=kept.st_dev, ino=kept.st_ino)
    if not expect.holds(dir_fd, item.spare):
        raise _changed(item)


def _replace_keeping(item: _Item, expect: FileVersion, dir_fd: int, name: str) -> bool:
    """Do in steps what exchange() does, for systems without it, and tell whether the old file kept is a copy."""
    kept = item.change.place.roots.staging.name(dir_fd)
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
                raise _changed(item)
        os.rename(item.spare, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        with suppress(OSError):
            remove_tree(dir_fd, kept)
        raise
    item.spare = kept
    return copied


def _taken_back(item: _Item) -> list[str]:
    """Undo _swap(), but for what others have written since, and say what is not as it was before."""
    change = item.change
    try:
        with change.place.parent() as (dir_fd, name):
            outcome = _swap_back(item, dir_fd, name)
    except (ToolError, OSError):
        with suppress(ToolError, OSError), change.place.parent() as (dir_fd, _):
            item.spare = kept_for_good(dir_fd, item.spare)
        kept = change.place.folder().child(item.spare).shown
        if change.expect is None:
            return [f"{change.place.shown} could not be removed: what somebody has saved since may be in {kept}"]
        return [f"{change.place.shown} could not be put back: what it held, or somebody has saved since, is in {kept}"]
    if outcome is Outcome.MIXED:
        return [f"{change.place.shown} stays changed, as somebody has written into it since"]
    return []


def _swap_back(item: _Item, dir_fd: int, name: str) -> Outcome:
    change, put = item.change, item.after
    if change.data is None:
        rename_no_replace(dir_fd, item.spare, dir_fd, name)
        return Outcome.BACK
    assert put is not None
    if not change.link:
        put = put.holding(change.data)
    if change.expect is None:
        return remove_again(dir_fd, item.spare, name, put)
    return put_back(dir_fd, item.spare, name, put)


def _not_all_back(failure: ToolError, trouble: Sequence[str]) -> ToolError:
    """Return the error for a failure that left something changed."""
    more = f"; and {len(trouble) - _TOLD} more" if len(trouble) > _TOLD else ""
    return ToolError(
        Code.REFUSED, f"{failure.error}; {'; '.join(trouble[:_TOLD])}{more}", "the rest is as before; read those again"
    )


def _changed(item: _Item) -> ToolError:
    return ToolError(Code.FILE_CHANGED, f"{item.change.place.shown} has changed since it was read", "read it again")


def _gone(item: _Item) -> ToolError:
    return ToolError(Code.FILE_CHANGED, f"{item.change.place.shown} is gone since it was read", "read it again")


def _unlink(dir_fd: int, item: _Item) -> None:
    with suppress(OSError):
        os.unlink(item.spare, dir_fd=dir_fd)


def _each(pool: ThreadPoolExecutor, act: Callable[[_Item], None], items: Sequence[_Item]) -> None:
    """Act on some items at a time; a failure is raised when none is acted on any more. ToolError refused: no threads."""
    if len(items) == 1:
        act(items[0])
        return
    try:
        doing = [pool.submit(act, item) for item in items]
    except RuntimeError:
        # Those that are at work have to leave the folder before it is closed.
        pool.shutdown(cancel_futures=True)
        raise ToolError(Code.REFUSED, "the system has no more threads to spare", "try again later") from None
    wait(doing)
    for one in doing:
        one.result()
