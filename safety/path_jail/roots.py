"""The path jail: the allowed folders, and places beneath them."""

import difflib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, takewhile
from pathlib import Path

from ..errors import Code, ToolError
from ..os_errors import refusal
from ..text import visible_name
from ..writes.file_version import FileVersion
from ..writes.locks import Locks
from ..writes.temp_names import StagingNames
from .openat2 import openat2
from .opening import MAX_PATH, Engine, Links, Opener, Root, normal
from .protected import OF_GIT, Aliases, Protected, identity
from .tree_walk import Walk

__all__ = ["Engine", "JailedPath", "Roots", "Writable"]

MAX_NAME = 255
"""Bytes in one component (NAME_MAX on the usual file systems)."""

# Names of a folder that are compared for a hint, and their length: 10 ms, or 250 ms for names made to be slow.
_SIMILAR_AMONG, _SIMILAR_LENGTH = 500, 64

MAX_ELSEWHERE = 20_000
"""Entries of the root that are looked at for a missing name, in at most half a second; both are guesses."""
_ELSEWHERE_SECONDS, _HINTS = 0.5, 3

FIND = "glob finds files by name"
"""What to do about a missing file when none is named like it."""

ANOTHER_NAME = "it is another name of a protected place"

_MISSING = (errno.ENOENT, errno.ENOTDIR)


class Roots:
    """The allowed folders, each held open by a descriptor.

    folders: existing folders, the first is the base; OSError if one cannot be opened. protected: globs that
    are never written. own_files: files and folders of the server itself, wherever they are. engine: for
    tests; None takes the best that works here. One instance may serve many threads.
    """

    def __init__(
        self,
        folders: Sequence[str | Path],
        *,
        protected: Sequence[str] = (),
        own_files: Sequence[Path] = (),
        block_symlinks: bool = False,
        no_xdev: bool = False,
        engine: Engine | None = None,
    ) -> None:
        if os.open not in os.supports_dir_fd:
            raise OSError(errno.ENOSYS, "this system cannot open files beneath a folder that is held open")
        call = None if engine is Engine.WALK else openat2()
        if engine is Engine.OPENAT2 and call is None:
            raise OSError(errno.ENOSYS, "openat2 does not work here")
        self.engine = Engine.OPENAT2 if call else Engine.WALK
        self._open: list[int] = []
        try:
            self._roots = [self._opened(folder) for folder in folders]
            # Opened as a place to start from only: a server that confines itself may not read this folder.
            self._system = self._opened("/", getattr(os, "O_PATH", os.O_RDONLY))
        except OSError:
            self.close()
            raise
        self.folders: tuple[Path, ...] = tuple(root.path for root in self._roots)
        self.base: Path = self.folders[0]
        self.locks = Locks()
        self.staging = StagingNames()
        self.protected = Protected(protected, own_files, [*self.folders])
        self.no_xdev = no_xdev
        self._inside = Opener(self._find, call=call, block_symlinks=block_symlinks, no_xdev=no_xdev)
        self._anywhere = Opener(self._find_anywhere, call=call, block_symlinks=block_symlinks, no_xdev=False)

    def place(self, raw: str, *, follow: bool = True, unconfined: bool = False) -> "JailedPath":
        """Turn a path as a client gives it into a place. Opens nothing.

        `..` is taken out of the text, as editors and shells show it, before any link is followed. follow:
        False means the entry itself where the last component is a link. unconfined: anywhere on the system, for
        a granted `unsafe`. ToolError path_denied for what is malformed or outside.
        """
        parts = self._parse(raw)
        links = Links.FOLLOW if follow else Links.ENTRY
        if unconfined:
            return JailedPath(self, self._system, parts, links)
        found = self._find(parts)
        if found is None:
            raise _outside(visible_name(raw))
        return JailedPath(self, *found, links)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open folders, in their order; lent until close()."""
        return tuple(root.fd for root in self._roots)

    def close(self) -> None:
        """Give the descriptors back, once. Places of this object no longer work."""
        while self._open:
            os.close(self._open.pop())
        self._roots = []

    def opener(self, root: Root) -> Opener:
        """Return the opener of this root."""
        return self._anywhere if root is self._system else self._inside

    def _opened(self, folder: str | Path, access: int = os.O_RDONLY) -> Root:
        given = Path(os.path.abspath(folder))
        path = given.resolve(strict=True)
        fd = os.open(path, access | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open.append(fd)
        return Root(path, tuple(dict.fromkeys((path.parts[1:], given.parts[1:]))), fd)

    def _parse(self, raw: str) -> tuple[str, ...]:
        try:
            data = os.fsencode(raw)
        except UnicodeEncodeError:
            raise ToolError(Code.PATH_DENIED, "the path is not valid Unicode") from None
        if not data:
            raise ToolError(Code.PATH_DENIED, "the path is empty", 'use "." for the base folder')
        if b"\0" in data:
            raise ToolError(Code.PATH_DENIED, "the path holds a NUL character")
        if len(data) > MAX_PATH:
            raise ToolError(Code.PATH_DENIED, f"the path is longer than {MAX_PATH} bytes")
        if any(len(part) > MAX_NAME for part in data.split(b"/")):
            raise ToolError(Code.PATH_DENIED, f"a component of the path is longer than {MAX_NAME} bytes")
        given = raw.split("/")
        return normal(given if raw.startswith("/") else [*self.base.parts[1:], *given])

    def _find(self, parts: Sequence[str]) -> tuple[Root, tuple[str, ...]] | None:
        best: tuple[Root, tuple[str, ...]] | None = None
        for index, root in enumerate(self._roots):
            for name in root.names:
                if tuple(parts[: len(name)]) == name:
                    below = tuple(parts[len(name) :])
                    if index == 0:
                        return root, below
                    if best is None or len(below) < len(best[1]):
                        best = root, below
        return best

    def _find_anywhere(self, parts: Sequence[str]) -> tuple[Root, tuple[str, ...]]:
        return self._system, tuple(parts)


@dataclass(frozen=True)
class JailedPath:
    """A root and the names below it. A value: nothing is open until asked.

    Each method opens beneath the root's descriptor anew, so what is checked is what is used. All raise
    ToolError; path_denied when the path leaves the roots through a link or the system refuses.
    """

    roots: Roots = field(repr=False)
    root: Root = field(repr=False)
    parts: tuple[str, ...]
    links: Links = Links.FOLLOW
    was_file: bool = field(default=False, repr=False, compare=False)
    """Whether a regular file was there, maybe behind links, when with_status() looked."""

    @property
    def absolute(self) -> str:
        """The same as path, as a text, which is made in a third of the time."""
        return os.path.join(self.root.path, *self.parts)

    @cached_property
    def path(self) -> Path:
        """The absolute name, for programs that take one. Opening it again loses the swap race."""
        return self.root.path.joinpath(*self.parts)

    @property
    def shown(self) -> str:
        """The name for results: relative to the base with `/`, `.` for the base, absolute elsewhere."""
        if self.root.path == self.roots.base:
            return visible_name("/".join(self.parts)) or "."
        return visible_name(self.path.as_posix())

    @property
    def name(self) -> str:
        """The last component as the system has it; that of the root folder for a root."""
        return self.parts[-1] if self.parts else self.root.path.name

    def open(self, flags: int = os.O_RDONLY) -> int:
        """Return a descriptor. Never blocks on a FIFO. ToolError not_found for missing.

        flags: not for creating files; that goes through parent().
        """
        try:
            return self._open(flags)
        except OSError as e:
            raise refusal(e, self.shown) from None

    def open_file(self) -> int:
        """Return a read descriptor of a regular file. ToolError not_a_file for anything else."""
        try:
            # Looking before opening: opening a device can already do something. What has just been seen to be a file, and
            # is no link now, is not looked at again.
            seen = self.was_file and self.links is Links.NONE
            if seen or stat.S_ISREG(self._stat(self.links).st_mode):
                fd = self._open(os.O_RDONLY)
                try:
                    if stat.S_ISREG(os.fstat(fd).st_mode):
                        return fd
                except OSError:
                    os.close(fd)
                    raise
                os.close(fd)
        except OSError as e:
            if e.errno not in _MISSING:
                raise refusal(e, self.shown) from None
            raise ToolError(Code.NOT_A_FILE, f"there is no file {self.shown}", self.similar() or FIND) from None
        if self._is_folder():
            raise ToolError(Code.NOT_A_FILE, f"{self.shown} is a folder", "list_directory shows what is in it")
        raise ToolError(Code.NOT_A_FILE, f"{self.shown} is not a regular file")

    def open_target(self) -> tuple[int, "JailedPath"]:
        """Return a read descriptor of a regular file, and target(), which is what was opened. Raises as open_file."""
        # What a guard has seen to be a file is not looked at again. Something else that came into its place since is opened
        # without waiting for it, and found out; no link is followed to it.
        if self.was_file:
            at = JailedPath(self.roots, self.root, self.parts, Links.NONE)
            with suppress(OSError):
                fd = at._open(os.O_RDONLY)
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    return fd, at
                os.close(fd)
        at = self.target()
        return at.open_file(), at

    def open_folder(self) -> int:
        """Return a read descriptor of a folder. ToolError not_a_directory for anything else."""
        try:
            return self._open(os.O_RDONLY | os.O_DIRECTORY)
        except OSError as e:
            if e.errno not in _MISSING:
                raise refusal(e, self.shown) from None
            if e.errno == errno.ENOTDIR:
                raise ToolError(Code.NOT_A_DIRECTORY, f"not a folder: {self.shown}", "name a folder") from None
            missing = f"there is no folder {self.shown}"
            raise ToolError(
                Code.NOT_A_DIRECTORY, missing, self.similar() or "tree shows the folders there are"
            ) from None

    def stat(self, follow: bool = True) -> os.stat_result | None:
        """Return the status, or None where nothing is. follow: False describes a link itself, as an entry place always does."""
        try:
            return self._stat(self.links if follow or self.links is not Links.FOLLOW else Links.ENTRY)
        except OSError as e:
            if e.errno in _MISSING:
                return None
            raise refusal(e, self.shown) from None

    @contextmanager
    def parent(self) -> Iterator[tuple[int, str]]:
        """Lend (descriptor of the folder, name) to act on the entry itself: unlink, rename, mkdir.

        ToolError refused for a root, not_found when the folder is missing.
        """
        if not self.parts:
            raise ToolError(Code.REFUSED, f"{self.shown} is a root folder")
        folder = self.folder()
        try:
            fd = folder._open(os.O_RDONLY | os.O_DIRECTORY)
        except OSError as e:
            raise refusal(e, folder.shown) from None
        try:
            yield fd, self.parts[-1]
        finally:
            os.close(fd)

    def target(self) -> "JailedPath":
        """Return the place with every link followed, which no link can lead elsewhere afterwards.

        The target need not exist. An entry place keeps its last component. ToolError path_denied where a
        link leads outside, dangling or not.
        """
        return self if self.links is Links.NONE else self.target_seen()[0]

    def target_seen(self) -> tuple["JailedPath", os.stat_result | None]:
        """Return target(), and its status where that came up on the way."""
        opener = self.roots.opener(self.root)
        status = opener.plain_status(self.root, self.parts, self.links)
        if self.links is Links.NONE:
            return self, status
        if status is not None:
            is_file = stat.S_ISREG(status.st_mode)
            return JailedPath(self.roots, self.root, self.parts, Links.NONE, was_file=is_file), status
        try:
            with opener.visit(self.root, self.parts, self.links) as spot:
                return JailedPath(self.roots, spot.root, spot.parts, Links.NONE), None
        except OSError as e:
            raise refusal(e, self.shown) from None

    def child(self, name: str) -> "JailedPath":
        """Return the place of one name in this folder. ToolError path_denied when it is not a plain name."""
        if name in ("", ".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > MAX_NAME:
            raise ToolError(Code.PATH_DENIED, f"{visible_name(name)} is not a name")
        return JailedPath(self.roots, self.root, (*self.parts, name), self.links)

    def folder(self) -> "JailedPath":
        """Return the folder of this place; a root is its own."""
        links = Links.FOLLOW if self.links is Links.ENTRY else self.links
        return JailedPath(self.roots, self.root, self.parts[:-1], links)

    def check_writable(self, expect: FileVersion | None = None, *, folder: bool = False) -> None:
        """ToolError protected_path when the place is never written. expect, folder: as for Writable.check()."""
        Writable(self.roots).check(self, expect, folder=folder)

    def check_names(self) -> None:
        """ToolError protected_path when the names given are never written, wherever links lead from there."""
        if why := self.roots.protected.name_refusal(self.root.path, self.parts):
            raise ToolError(Code.PROTECTED_PATH, f"{self.shown} is protected: {why}")

    def with_status(self) -> "JailedPath":
        """Return the place, with what is there noted. Raises as stat()."""
        seen = self.stat()
        if seen is None or not stat.S_ISREG(seen.st_mode):
            return self
        return JailedPath(self.roots, self.root, self.parts, self.links, was_file=True)

    def _open(self, flags: int) -> int:
        flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return self.roots.opener(self.root).open(self.root, self.parts, flags, self.links)

    def _stat(self, links: Links) -> os.stat_result:
        return self.roots.opener(self.root).stat(self.root, self.parts, links)

    def _is_folder(self) -> bool:
        try:
            return stat.S_ISDIR(self._stat(self.links).st_mode)
        except OSError:
            return False

    def similar(self) -> str | None:
        """Name up to three entries as a hint: of the same name elsewhere in the root, and like it in the same folder."""
        found = dict.fromkeys(place.shown for place in (*self._elsewhere(), *self._alike()))
        return "similar: " + ", ".join([*found][:_HINTS]) if found else None

    def _elsewhere(self) -> "list[JailedPath]":
        """Return places of the same name, those first whose last folders are the same, too."""
        top = JailedPath(self.roots, self.root, (), Links.NONE)
        folded = self.name.casefold()
        walk = Walk(
            top,
            gitignore=True,
            hidden=self.name.startswith("."),
            max_entries=MAX_ELSEWHERE,
            max_seconds=_ELSEWHERE_SECONDS,
            wanted=lambda folder, names: [name for name in names if name.casefold() == folded],
        )
        try:
            found = [walk.at(entry) for entry in walk if entry.path.split("/") != [*self.parts]]
        except ToolError:
            return []

        def rank(place: JailedPath) -> tuple[int, int, tuple[str, ...]]:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(place.parts[::-1], self.parts[::-1], strict=False))
            return -sum(1 for _ in same), len(place.parts), place.parts

        return sorted(found, key=rank)

    def _alike(self) -> "list[JailedPath]":
        folder = self.folder()
        try:
            fd = folder._open(os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return []
        try:
            names: list[str] = []
            with os.scandir(fd) as entries:
                for entry in islice(entries, _SIMILAR_AMONG):
                    # A link to nothing is there, and yet it is what is missing.
                    if len(entry.name) <= _SIMILAR_LENGTH and entry.name != self.name:
                        names.append(entry.name)
        except OSError:
            return []
        finally:
            os.close(fd)
        folded = {name.casefold(): name for name in sorted(names, reverse=True)}
        sought = self.name.casefold()[:_SIMILAR_LENGTH]
        stem = os.path.splitext(sought)[0]
        # A short name is like every other with its extension.
        stems = {name: os.path.splitext(name)[0] for name in difflib.get_close_matches(sought, folded, n=_HINTS)}
        return [folder.child(folded[name]) for name in stems if difflib.get_close_matches(stem, [stems[name]])]


class Writable:
    """Judges whether places may be written, many of them at one moment: each folder is looked at once."""

    def __init__(self, roots: Roots) -> None:
        self._protected = roots.protected
        self._forbidden = roots.protected.identities()
        self._aliases: dict[str, Aliases] = {}
        self._found: dict[str, tuple[int, int] | None] = {}

    def check(self, place: JailedPath, expect: FileVersion | None = None, *, folder: bool = False) -> None:
        """ToolError protected_path when a place is never written.

        It is judged by the names given, by those behind its links, and by what every folder on the way is. expect: a
        file that was there, where nothing else will be replaced; it is not looked up again. folder: what comes there has
        content, or is a link that may lead to some.
        """
        why = self._protected.name_refusal(place.root.path, place.parts, folder=folder)
        if why is None:
            at, there = place, expect.file if expect else None
            if there is None or place.links is not Links.NONE:
                at, status = place.target_seen()
                there = identity(status) if status else None
            why = self._refusal(at, there, folder)
        if why:
            raise ToolError(Code.PROTECTED_PATH, f"{place.shown} is protected: {why}")

    def _refusal(self, at: JailedPath, there: tuple[int, int] | None, folder: bool) -> str | None:
        """Say why a place without links must not be written; None when it may. there: what it is, if that is known."""
        if why := self._protected.name_refusal(at.root.path, at.parts, folder=folder):
            return why
        if there is None and (status := at.stat()):
            there = identity(status)
        path, way = at.root.path.as_posix().rstrip("/"), [at.root.path.as_posix()]
        for part in at.parts:
            path = f"{path}/{part}"
            way.append(path)
        found = [*(self._identity(at, depth, way[depth]) for depth in range(len(at.parts))), there]
        for depth, folder_path in enumerate(way):
            if found[depth] is None:
                break
            if found[depth] in self._forbidden:
                return ANOTHER_NAME
            aliases = self._aliases_in(folder_path)
            if aliases.is_repository_with(at.parts[depth] if depth < len(at.parts) else None):
                return OF_GIT
            if not aliases.paths and not aliases.identities:
                continue
            for below in range(depth, len(way)):
                names = aliases.names_of(way[below], found[below])
                if not names:
                    continue
                other = (*at.parts[:depth], *names, *at.parts[below:])
                if self._protected.name_refusal(at.root.path, other, folder=folder):
                    return ANOTHER_NAME
        return None

    def _aliases_in(self, folder: str) -> Aliases:
        known = self._aliases.get(folder)
        if known is None:
            known = self._aliases[folder] = self._protected.aliases(folder)
        return known

    def _identity(self, at: JailedPath, depth: int, path: str) -> tuple[int, int] | None:
        """Return the status of the folder so deep on the way to a place."""
        if path not in self._found:
            # A root is open, and stays what it is.
            status = (
                JailedPath(at.roots, at.root, at.parts[:depth], Links.NONE).stat() if depth else os.fstat(at.root.fd)
            )
            self._found[path] = identity(status) if status else None
        return self._found[path]


def _outside(shown: str) -> ToolError:
    if len(shown) > 200:
        shown = shown[:200] + "…"
    return ToolError(
        Code.PATH_DENIED, f"{shown} is outside the allowed folders", "paths are relative to the base folder"
    )
