"""The protected places below a folder that a confined program may write: found before it runs, looked at again after.

What exists can be mounted read-only. What does not exist has no place for a mount, so what a program puts there gets
another name once the program has ended.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import Code, ToolError
from .protected import identity
from .roots import Roots

MAX_PLACES = 1000
"""Protected places of one folder, each a mount of its own; bubblewrap takes 9,000 arguments."""

SKIPPED = frozenset(("node_modules",))
"""Folders of packages that others made: nobody opens them as projects, and they hold hundreds of such files."""

_BLOCKED = "blocked"


@dataclass(frozen=True)
class ProtectedPlace:
    """A protected place that exists. identity: device and inode.

    link: where it leads, for a symbolic link. bare: a folder whose entries make it a repository, whatever its name.
    """

    path: str
    identity: tuple[int, int]
    link: str | None = None
    bare: bool = False


class ProtectedTree:
    """What is protected below a folder, as it was when this was made. Blocking: for a thread."""

    def __init__(self, roots: Roots, folder: str) -> None:
        """Look through a folder of the roots. ToolError(too_large) where too many places are protected there."""
        self._roots = roots
        self._folder = os.path.realpath(folder)
        self._linked: dict[str, tuple[int, int] | None] = {}
        self._before = {place.path: place for place in self._walk()}
        self.existing = tuple(self._mountable())
        """Existing places, none of them a link, none below another one."""
        if len(self.existing) > MAX_PLACES:
            raise ToolError(
                Code.TOO_LARGE,
                f"{len(self.existing)} protected places in one folder; a sandbox takes {MAX_PLACES}",
                "protected_paths says what is protected",
            )

    def restore(self) -> list[str]:
        """Rename what has come to protected places since, put links back, and return a sentence for each."""
        known = {place.identity for place in self._before.values() if place.link is None}
        linked = dict(self._linked)
        arrived: list[str] = []
        for place in [*self._walk()]:
            before = self._before.get(place.path)
            # A place keeps its identity where a folder above it has been moved.
            # An inode that is free is used again, so a link is also known by where it leads.
            same = (place.identity, place.link) == (before.identity, before.link) if before else place.identity in known
            if not same:
                arrived.append(os.path.join(place.path, "HEAD") if place.bare else place.path)
        arrived += [path for path, identity_ in linked.items() if _identity(path) not in (None, identity_)]
        told = [self._block(path) for path in arrived]
        return told + [line for place in self._before.values() for line in self._put_back(place)]

    def _put_back(self, place: ProtectedPlace) -> Iterator[str]:
        """Make a link again that has gone, where its folder is still there."""
        if place.link is None or os.path.lexists(place.path):
            return
        with suppress(OSError, ToolError):
            folder, name = self._parent(place.path)
            try:
                os.symlink(place.link, name, dir_fd=folder)
            finally:
                os.close(folder)
            yield f"{self._shown(place.path)} is protected: it is the link again that it was"

    def _mountable(self) -> Iterator[str]:
        here = self._folder
        paths = {place.path for place in self._before.values() if place.link is None}
        paths |= {path for path, found in self._linked.items() if found}
        last = ""
        for path in sorted(paths, key=lambda path: path + "/"):
            if (path == here or path.startswith(here + "/")) and not (last and path.startswith(last + "/")):
                last = path
                yield path

    def _walk(self) -> Iterator[ProtectedPlace]:
        """Yield the protected places that exist, none below another one; note those that links lead to."""
        waiting = [self._folder]
        root, protected = Path(self._folder), self._roots.protected
        candidates: dict[str, bool] = {}
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as listed:
                    entries = [*listed]
            except OSError:
                continue
            names = {entry.name for entry in entries}
            if protected.is_repository(names):
                yield from _place(folder, bare=True)
                continue
            for path in protected.behind_links(folder, names, root):
                if path == self._folder or path.startswith(self._folder + "/"):
                    self._linked.setdefault(path, _identity(path))
            parts = Path(folder).relative_to(root).parts
            for entry in entries:
                if entry.name not in candidates:
                    candidates[entry.name] = protected.may_protect(entry.name)
                link = entry.is_symlink()
                # A link counts as the folder that it may become.
                if (link or candidates[entry.name]) and protected.name_refusal(root, (*parts, entry.name), folder=link):
                    yield from _place(entry.path)
                elif entry.name not in SKIPPED and entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)

    def _block(self, path: str) -> str:
        """Give what lies at a place a name that is not protected, and say so."""
        try:
            folder, name = self._parent(path)
            try:
                other = self._free(path, name, folder)
                try:
                    os.rename(name, other, src_dir_fd=folder, dst_dir_fd=folder)
                except PermissionError:
                    # The program has taken the right to change its folder away.
                    os.fchmod(folder, os.fstat(folder).st_mode | stat.S_IRWXU)
                    os.rename(name, other, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                os.close(folder)
        except (OSError, ToolError) as failure:
            return f"{self._shown(path)} is protected, and what was put there could not be renamed: {failure}"
        return f"{self._shown(path)} is protected: what was put there has the name {other}"

    def _free(self, path: str, name: str, folder: int) -> str:
        root, parts = Path(self._folder), Path(path).parent.relative_to(self._folder).parts
        taken = set(os.listdir(folder))
        for number in range(len(taken) + 1):
            for other in (f"{_BLOCKED}{number or ''}-{name.lstrip('.')}", f"{_BLOCKED}{number or ''}"):
                if other not in taken and not self._roots.protected.name_refusal(root, (*parts, other)):
                    return other
        raise FileExistsError(f"every name for {self._shown(path)} is protected")

    def _parent(self, path: str) -> tuple[int, str]:
        """Return the folder of a path, open and inside the roots whatever has become of it, and the name in it."""
        folder, name = os.path.split(path)
        return self._roots.place(folder).open_folder(), name

    def _shown(self, path: str) -> str:
        return os.path.relpath(path, self._folder)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        return identity(os.lstat(path))
    except OSError:
        return None


def _place(path: str, *, bare: bool = False) -> Iterator[ProtectedPlace]:
    with suppress(OSError):
        status = os.lstat(path)
        yield ProtectedPlace(path, identity(status), os.readlink(path) if stat.S_ISLNK(status.st_mode) else None, bare)
