"""Walking a folder: sorted, beneath descriptors, without what is ignored, and never through a link."""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..errors import ToolError
from ..os_errors import refusal
from .gitignore import MAX_BYTES, Ignore, Rules, compile_ignore, rebased
from .opening import FOLDER, Links

if TYPE_CHECKING:
    from .roots import JailedPath

MAX_ENTRIES = 200_000
"""Entries that a walk looks at (TOOLS.md)."""

MAX_SECONDS = 60.0
"""Seconds that a walk takes (TOOLS.md)."""

MAX_RULES = 4 << 20
"""Bytes of .gitignore files that a walk reads. Compiled they take 30 times that; 5,000 folders with files of 800
bytes fit."""

_CLOCK_EVERY = 64  # entries between looks at the clock

_KEY = itemgetter(0)
_TYPE = 0o170000  # what S_ISREG looks at, without the call

_AT_ONCE = 1024  # names that are looked at between looks at the clock

Wanted = Callable[[str, list[str]], Collection[str]]
"""Given the path of a folder and the names in it, picks some of them."""

Kind = Literal["dir", "file", "symlink", "other"]

_SIZED = 2000
"""Entries of a folder whose sizes are looked up as it is read; in a larger one only those that are asked for."""

_HELD = 32  # folders that stay open on the way down; few enough for many walks at a time

_Layer = tuple[int, Ignore]
"""A .gitignore file that holds, and how much of a path from the root its folder takes up."""


class Entry(NamedTuple):
    """What a walk found. path: relative to where it began, with `/`, as the system has it. depth: 1 in that folder.

    size: bytes of a file where sizes were asked for, else None.
    """

    path: str
    name: str
    kind: Kind
    depth: int
    size: int | None


class _Below(NamedTuple):
    """A folder that waits for its turn."""

    path: str
    name: str
    depth: int
    layers: tuple[_Layer, ...]


class _Open(NamedTuple):
    """A folder on the way down: what it holds and has not come up yet, and its descriptor unless it is too deep.

    unsized: sizes are wanted and not looked up yet.
    """

    rows: "Iterator[tuple[object, Entry | _Below]]"
    fd: int | None
    unsized: bool


class Walk:
    """Iterate once over what is below a folder, in code point order of the paths.

    enters: whether the walk goes into a folder, by its path; None for all. wanted: picks those
    that are yielded; folders are entered all the same. folders_first: each
    folder's entries are folders, then the rest, and what a folder holds follows it at once.

    ignored_dirs: names of folders that are left out. gitignore: leave out what `.gitignore` files say, too, those
    above up to the root included. hidden: show names with a dot. max_depth: levels; 1 is the folder alone. sizes:
    look up the size of each file that is yielded. show_ignored: yield folders of ignored_dirs and `.git`, which are
    not entered all the same. stop: asked now and then whether to give up.

    ToolError not_a_directory, path_denied at the first step; folders below that cannot be read, or not to
    their end, are in unreadable. After the end, cut says why the walk stopped early, or is None.
    """

    def __init__(
        self,
        place: "JailedPath",
        *,
        ignored_dirs: Collection[str] = (),
        gitignore: bool = False,
        hidden: bool = True,
        max_depth: int | None = None,
        sizes: bool = False,
        show_ignored: bool = False,
        max_entries: int = MAX_ENTRIES,
        max_seconds: float = MAX_SECONDS,
        stop: Callable[[], bool] | None = None,
        enters: Callable[[str], bool] | None = None,
        wanted: Wanted | None = None,
        folders_first: bool = False,
    ) -> None:
        self.top = place.target()
        self.cut: str | None = None
        self.unreadable: list[str] = []
        self._ignored = frozenset(ignored_dirs)
        self._gitignore = gitignore
        self._hidden = hidden
        self._max_depth = max_depth
        self._sizes = sizes
        self._show_ignored = show_ignored
        self._max_entries = max_entries
        self._max_seconds = max_seconds
        self._stop = stop
        self._enters = enters
        self._wanted = wanted
        self._folders_first = folders_first
        # A name below an open folder could lead over a mount.
        self._by_name = not self.top.roots.no_xdev
        self._deadline = time.monotonic() + max_seconds
        self._seen = 0
        self._due = 0  # entries at which the clock is looked at next
        self._rules = 0
        self._prefix = "".join(part + "/" for part in self.top.parts)

    def __iter__(self) -> Iterator[Entry]:
        top = _Below("", "", 0, self._above() if self._gitignore else ())
        way: list[_Open] = []
        try:
            if opened := self._enter(top, None):
                way.append(opened)
        except OSError as e:
            raise refusal(e, self.top.shown) from None
        look, look_up = os.stat, self._status
        try:
            while way:
                # Each round takes up a folder where it was left, and leaves it for one below.
                rows, fd, unsized = way[-1]
                for _, row in rows:
                    if isinstance(row, Entry):
                        if unsized and row[2] == "file":
                            try:
                                size = _size(
                                    look(row[1], dir_fd=fd, follow_symlinks=False) if fd is not None else look_up(row)
                                )
                            except (OSError, ToolError):
                                size = None  # gone, or something else by now
                            row = tuple.__new__(Entry, (row[0], row[1], "file", row[3], size))
                        yield row
                    elif self.cut is None:
                        try:
                            opened = self._enter(row, fd)
                        except (ToolError, OSError):
                            self.unreadable.append(row.path)
                            continue
                        if opened:
                            way.append(opened)
                            break
                else:
                    done = way.pop()
                    if done.fd is not None:
                        os.close(done.fd)
        finally:
            for folder in way:
                if folder.fd is not None:
                    os.close(folder.fd)

    def at(self, entry: Entry) -> "JailedPath":
        """Return the place of an entry, to open without following any link."""
        return self._below(entry.path)

    def _below(self, path: str) -> "JailedPath":
        parts = path.split("/") if path else ()
        return replace(self.top, parts=(*self.top.parts, *parts), links=Links.NONE)

    def _above(self) -> tuple[_Layer, ...]:
        """Read the .gitignore files of the folders between the root and the top, the nearest first."""
        layers: tuple[_Layer, ...] = ()
        length = 0
        for count, part in enumerate(self.top.parts):
            fd = replace(self.top, parts=self.top.parts[:count]).open_folder()
            try:
                ignore = self._read_ignore(fd)
            finally:
                os.close(fd)
            if ignore:
                layers = ((length, ignore), *layers)
            length += len(part) + 1
        return layers

    def _enter(self, folder: _Below, above: int | None) -> _Open | None:
        """Open a folder and read what it holds; None where nothing in it counts.

        above: the open folder that it is in, if that is open.
        """
        # In an open folder one name that must be no link is as good as the way from the root, and shorter.
        fd = self._below(folder.path).open_folder() if above is None else os.open(folder.name, FOLDER, dir_fd=above)
        hold = False
        try:
            # In most folders of a large tree nothing counts, and no more than this is done.
            if self._seen >= self._due:
                self._due = self._seen + _CLOCK_EVERY
                if self._is_late():
                    return None
            found = self._scan(fd)
            names = [entry.name for entry in found]
            told = None
            if wanted := self._wanted:
                many = len(names) > _AT_ONCE
                told = self._in_turns(wanted, folder.path, names) if many else wanted(folder.path, names)
                found = _kept(found, told)
            if not found:
                return None
            rows, unsized = self._rows(folder, fd, found, told, ".gitignore" in names)
            hold = self._by_name and folder.depth < _HELD
        finally:
            if not hold:
                os.close(fd)
        return _Open(iter(rows), fd if hold else None, unsized)

    def _scan(self, fd: int) -> list[os.DirEntry[str]]:
        """Return the entries of an open folder, as many as the walk may look at."""
        with os.scandir(fd) as scan:
            found = list(islice(scan, self._max_entries - self._seen + 1))
        self._seen += len(found)
        if self._seen > self._max_entries:
            self.cut = f"{self._max_entries} entries"
            found.pop()
        return found

    def _in_turns(self, wanted: Wanted, folder: str, names: list[str]) -> Collection[str]:
        """Return the wanted names of a folder, or stop at the deadline."""
        told: set[str] = set()
        for at in range(0, len(names), _AT_ONCE):
            if self._is_late():
                break
            told.update(wanted(folder, names[at : at + _AT_ONCE]))
        return told

    def _rows(
        self, folder: _Below, fd: int, found: list[os.DirEntry[str]], told: Collection[str] | None, has_rules: bool
    ) -> tuple[list[tuple[object, Entry | _Below]], bool]:
        """Return the entries of an open folder in order: rows, and folders to read when it is their turn.

        And whether sizes are to be looked up yet. told: the names of those entries that are yielded; None for all.
        """
        # This runs for each entry of a walk, so everything that it needs is at hand.
        rows: list[tuple[object, Entry | _Below]] = []
        prefix = folder.path + "/" if folder.path else ""
        depth = folder.depth + 1
        deeper = self._max_depth is None or depth < self._max_depth
        hidden, enters, first = self._hidden, self._enters, self._folders_first
        ignored, full = self._ignored, self._prefix
        layers = folder.layers
        make, row_type, below = tuple.__new__, Entry, _Below
        sized = self._sizes and len(found) <= _SIZED
        try:
            if has_rules and self._gitignore and (own := self._read_ignore(fd)):
                layers = ((len(full) + len(prefix), own), *layers)
            rules = [ignore.within((full + prefix)[length:]) for length, ignore in layers]
            for count, entry in enumerate(found, 1):
                if count % _CLOCK_EVERY == 0 and self._is_late():
                    break
                name = entry.name
                if not hidden and name[0] == ".":
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                tell = told is None or name in told
                out = (is_folder and name in ignored) or (len(name) == 4 and name.lower() == ".git")
                if out and not self._show_ignored:
                    continue
                path = prefix + name
                if rules and not out and _excluded(rules, name, is_folder):
                    continue
                enter = is_folder and not out and deeper and (enters is None or enters(path))
                if tell:
                    kind = "dir" if is_folder else "file" if entry.is_file(follow_symlinks=False) else _other(entry)
                    size = None
                    if sized and kind == "file":
                        try:
                            size = _size(entry.stat(follow_symlinks=False))
                        except OSError:
                            size = None  # gone by now
                    row = make(row_type, (path, name, kind, depth, size))
                    rows.append(((not is_folder, name, False) if first else name, row))
                if enter:
                    # In code point order a folder's content belongs where its name with "/" sorts.
                    key = (False, name, True) if first else name + "/"
                    rows.append((key, make(below, (path, name, depth, layers))))
        except OSError:
            if not prefix:
                raise
            self.unreadable.append(folder.path)
        rows.sort(key=_KEY)
        return rows, self._sizes and not sized

    def _status(self, entry: Entry) -> os.stat_result:
        """Return the status of an entry of a folder that is not open. OSError when it is gone."""
        found = self.at(entry).stat()
        if found is None:
            raise FileNotFoundError(entry.path)
        return found

    def _read_ignore(self, dir_fd: int) -> Ignore | None:
        data = read_rules(dir_fd, min(MAX_BYTES, MAX_RULES - self._rules))
        self._rules += len(data)
        return compile_ignore(data) if data else None

    def _is_late(self) -> bool:
        """Look at the clock, and ask whether to give up."""
        if time.monotonic() > self._deadline:
            self.cut = f"{self._max_seconds:g} s"
        elif self._stop and self._stop():
            self.cut = "cancelled"
        else:
            return False
        return True


def read_rules(dir_fd: int, most: int = MAX_BYTES) -> bytes:
    """Read the .gitignore of a folder, the whole lines within so many bytes.

    A link or special file of that name says nothing.
    """
    try:
        fd = os.open(".gitignore", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b""
        data = os.read(fd, most + 1)
    except OSError:
        return b""
    finally:
        os.close(fd)
    return data if len(data) <= most else data[: data.rfind(b"\n") + 1]


def rules_above(place: "JailedPath") -> bytes:
    """Return the rules of the .gitignore files above a folder, up to the root, as one file in the root.

    Empty where there is nothing to heed. A pattern that git cannot read is in it, and is left to the reader.
    """
    top = place.target()
    out = b""
    for count in range(len(top.parts)):
        fd = replace(top, parts=top.parts[:count]).open_folder()
        try:
            out += rebased(read_rules(fd), "".join(part + "/" for part in top.parts[:count]))
        finally:
            os.close(fd)
    return out


def _kept(found: list[os.DirEntry[str]], told: Collection[str]) -> list[os.DirEntry[str]]:
    """Return the entries that are told, and the folders."""
    # Two ways, as in most folders of a large tree nothing is told.
    if not told:
        return [entry for entry in found if entry.is_dir(follow_symlinks=False)]
    return [entry for entry in found if entry.name in told or entry.is_dir(follow_symlinks=False)]


def _size(status: os.stat_result) -> int | None:
    """Return the size of a regular file; anything else took its place meanwhile."""
    return status.st_size if status.st_mode & _TYPE == stat.S_IFREG else None


def _other(entry: os.DirEntry[str]) -> Kind:
    """Tell what an entry is that is neither a folder nor a file."""
    return "symlink" if entry.is_symlink() else "other"


def _excluded(rules: Iterable[Rules], name: str, is_folder: bool) -> bool:
    """Ask the nearest file that speaks of the entry."""
    for each in rules:
        verdict = each.verdict(name, is_folder)
        if verdict is not None:
            return verdict
    return False
