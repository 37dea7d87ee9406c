"""What is never written, whatever the gate says: `.git`, the server's own files, the operator's globs."""

import fnmatch
import os
import re
import stat
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

# Unicode's Default_Ignorable_Code_Point, which ext4 and f2fs leave out when they compare names in a folder that
# forgets case (Linux, fs/unicode, NFDICF); what HFS+ leaves out (git's utf8.c, next_hfs_char) is among it.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

OF_GIT, _OWN = "it belongs to git", "it belongs to this server"

_BARE = frozenset(("HEAD", "objects", "refs"))
"""What makes a folder a git repository, whatever its name (git, setup.c, is_git_directory)."""

_MAX_BELOW = 500
"""Entries below one protected folder that are searched for links; a guess: such folders hold settings."""

_SMALL_FOLDER = 16 << 10
"""Bytes of a folder of some 400 entries on ext4; a guess."""

_MAX_POINTER = 4096
"""Bytes of a `.git` file that are read (PATH_MAX)."""

_GIT_NAMES = re.compile(r"(?:\.git|git~[0-9]+)[. ]*(?::.*)?", re.DOTALL)


def fold(name: str) -> str:
    """Return a name as the most forgetful file system compares it: case, composition, ignorable characters."""
    if name.isascii():  # as nearly every name is; then only case is forgotten
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", _IGNORABLE.sub("", name)).casefold())


def _is_git(folded: str) -> bool:
    """Return True if some file system takes a folded name for `.git`: also short names, streams, dots at the end."""
    return "git" in folded and _GIT_NAMES.fullmatch(folded) is not None


class Protected:
    """The places that are never written.

    globs: matched against the end of the path, component by component and in any case; `**` stands for any
    components. A glob that begins with `/` starts at a root. What matches protects all below it, and
    `X/**` also X, because putting something else in its place would write below it.
    own_files: absolute files and folders, existing or not. folders: the roots.
    """

    def __init__(self, globs: Sequence[str], own_files: Sequence[Path], folders: Sequence[Path]) -> None:
        self._globs = tuple(_Glob(glob) for glob in globs)
        self._own = tuple(dict.fromkeys(form for file in own_files for form in (file.absolute(), file.resolve())))
        self._known = tuple(map(str, (*self._own, *(folder / ".git" for folder in folders))))
        # A place is judged when it is named and again when it is written.
        self._latest: tuple[tuple[Path, tuple[str, ...], bool], str | None] | None = None
        self._literal = sorted({(".git",), *(names for glob in self._globs for names in glob.literal())})
        self._firsts = _BARE.union(names[0] for names in self._literal)
        self._folders = {names[-1] for glob in self._globs if not glob.is_literal and (names := [*glob.literal()])}

    def name_refusal(self, root: Path, parts: Sequence[str], *, folder: bool = False) -> str | None:
        """Say why a place must not be written, by its names; None when it may. No part may be a link.

        folder: a folder with content comes there, so it must not be where a glob's matches would lie either.
        """
        asked, latest = (root, tuple(parts), folder), self._latest
        if latest is None or latest[0] != asked:
            latest = self._latest = asked, self._judged(root, parts, folder)
        return latest[1]

    def _judged(self, root: Path, parts: Sequence[str], folder: bool) -> str | None:
        whole = [fold(part) for part in (*root.parts[1:], *parts)]
        if any(map(_is_git, whole)):
            return OF_GIT
        if self._is_own(whole):
            return _OWN
        folded = [part.rstrip(". ") or part for part in whole[len(whole) - len(parts) :]]
        for glob in self._globs:
            if glob.covers(folded) or (folder and glob.begins(folded)):
                return glob.refusal
        return None

    def below(self, root: Path, parts: Sequence[str]) -> "Below":
        """Return the rules for the names below a folder."""
        whole = [fold(part) for part in (*root.parts[1:], *parts)]
        folded = [part.rstrip(". ") or part for part in whole[len(whole) - len(parts) :]]
        own = [path[len(whole) :] for path in self._folded_own if path[: len(whole)] == whole and path != whole]
        reached = [glob.reached(folded) for glob in self._globs]
        return Below(self.name_refusal(root, parts), self._globs, own, reached)

    def identities(self) -> frozenset[tuple[int, int]]:
        """Return (device, inode) of the server's own files and of the roots' `.git` that exist at this moment."""
        found: set[tuple[int, int]] = set()
        for path in self._known:
            with suppress(OSError):
                found.add(identity(os.stat(path)))
        return frozenset(found)

    def may_protect(self, name: str) -> bool:
        """Return True if a name can be that of a protected place, wherever it lies; a quick look."""
        folded = fold(name)
        part = folded.rstrip(". ") or folded
        return _is_git(folded) or folded in self._own_names or self._last.match(part) is not None

    def is_repository(self, names: Collection[str]) -> bool:
        """Return True if git takes a folder that has these names for a repository."""
        return all(name in names for name in _BARE)

    def behind_links(self, folder: str, names: Collection[str], root: Path) -> Iterator[str]:
        """Yield the places that links and `.git` files of a folder make protected, existing or not.

        names: those in the folder. root: a folder above it, or itself.
        """
        if self._firsts.isdisjoint(names):
            return
        parts = Path(folder).relative_to(root).parts
        for path, reached in self.aliases(folder).paths.items():
            for literal in self._literal:
                if literal[: len(reached)] == reached and self.name_refusal(root, (*parts, *literal)):
                    yield os.path.join(path, *literal[len(reached) :])

    def aliases(self, folder: str) -> "Aliases":
        """Return under which other names the protected places in a folder can be reached at this moment.

        Those are the targets of links, existing or not, the other names of files, and the folders that `.git` names.
        """
        entries = _entries(folder, self._firsts)
        found = Aliases(entries & _BARE)
        if entries <= _BARE:
            return found
        missing: set[tuple[str, ...]] = set()
        for names in self._literal:
            if names[0] not in entries or names[:-1] in missing:
                missing.add(names)
                continue
            path = os.path.join(folder, *names)
            try:
                status = os.lstat(path)
            except (OSError, ValueError):
                missing.add(names)
                continue
            found.add(path, status, names)
            if names in self._folders and stat.S_ISDIR(status.st_mode):
                self._add_below(found, path, names)
        return found

    def _add_below(self, found: "Aliases", folder: str, names: tuple[str, ...]) -> None:
        """Take in the links and the files with several names below a folder whose protected content is not spelled out."""
        left = _MAX_BELOW
        for above, folders, files in os.walk(folder):
            for name in (*folders, *files):
                left -= 1
                path = os.path.join(above, name)
                with suppress(OSError):
                    status = os.lstat(path)
                    if stat.S_ISLNK(status.st_mode) or (status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)):
                        found.add(path, status, (*names, *os.path.relpath(path, folder).split("/")))
            if left <= 0:
                return

    def _is_own(self, whole: list[str]) -> bool:
        return any(whole[: len(own)] == own for own in self._folded_own)

    @cached_property
    def _last(self) -> re.Pattern[str]:
        # One pattern for all of them, as most names match none.
        return re.compile("|".join(glob.last for glob in self._globs) or r"(?!)")

    @cached_property
    def _own_names(self) -> frozenset[str]:
        return frozenset(own[-1] for own in self._folded_own if own)

    @cached_property
    def _folded_own(self) -> list[list[str]]:
        return [[fold(part) for part in path.parts[1:]] for path in self._own]


class Aliases:
    """Other names of protected places, each with the names under which it is protected."""

    def __init__(self, of_repository: frozenset[str]) -> None:
        """Begin with the entries of a repository that the folder has."""
        self._of_repository = of_repository
        self.paths: dict[str, tuple[str, ...]] = {}
        self.identities: dict[tuple[int, int], tuple[str, ...]] = {}

    def add(self, path: str, status: os.stat_result, names: tuple[str, ...]) -> None:
        """Take in what has a protected name, or is on the way to one."""
        if stat.S_ISLNK(status.st_mode):
            with suppress(OSError):
                self.paths[os.path.realpath(path)] = names
                self.identities[identity(os.stat(path))] = names
            return
        if not stat.S_ISDIR(status.st_mode):
            self.identities[identity(status)] = names
        if stat.S_ISREG(status.st_mode) and names[-1] == ".git":
            with suppress(OSError, ValueError):
                self.paths[_git_folder(path)] = names

    def is_repository_with(self, name: str | None) -> bool:
        """Return True for a folder that git takes for a repository, or would if it had one more entry of this name."""
        return len(self._of_repository) >= len(_BARE) - 1 and self._of_repository.union((name,)) >= _BARE

    def names_of(self, path: str, found: tuple[int, int] | None) -> tuple[str, ...] | None:
        """Return the names under which a place is protected, or on the way to what is; None for others."""
        return self.paths.get(path) or (self.identities.get(found) if found else None)


def identity(status: os.stat_result) -> tuple[int, int]:
    """Return the device and the inode."""
    return status.st_dev, status.st_ino


def _entries(folder: str, names: frozenset[str]) -> frozenset[str]:
    """Return the names that a folder has. A listing of a small folder takes less time than a look for each name."""
    try:
        if os.stat(folder).st_size <= _SMALL_FOLDER:
            return names.intersection(os.listdir(folder))
    except NotADirectoryError:
        return frozenset()
    except OSError:
        pass
    return frozenset(name for name in names if os.path.lexists(f"{folder}/{name}"))


def _git_folder(path: str) -> str:
    """Return the folder that a `.git` file names. OSError, ValueError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        text = os.fsdecode(os.read(fd, _MAX_POINTER))
    finally:
        os.close(fd)
    if not text.startswith("gitdir:"):
        raise ValueError
    return os.path.realpath(os.path.join(os.path.dirname(path), text.removeprefix("gitdir:").strip()))


class Below:
    """Judges the names in a folder, and in those below it, as name_refusal() does their whole paths.

    A tree has many names: what is known of the way to a folder is kept as long as one is in it.
    """

    def __init__(
        self, refused: str | None, globs: Sequence["_Glob"], own: list[list[str]], reached: list[set[int]]
    ) -> None:
        """Begin in a folder. refused: why it, and so all in it, must not be written.

        own: what is left, from there on, of paths that lead through it. reached: the globs' positions there.
        """
        self._refused = refused
        self._globs = globs
        self._way = [(own, reached)]
        self._bare: list[set[str]] = [set()]

    def refusal(self, name: str) -> str | None:
        """Say why what has a name in the folder must not be written; None when it may."""
        if self._refused:
            return self._refused
        folded = fold(name)
        if _is_git(folded):
            return OF_GIT
        if name in _BARE:
            self._bare[-1].add(name)
            if len(self._bare[-1]) == len(_BARE):
                return OF_GIT
        own, reached = self._way[-1]
        if own and [folded] in own:
            return _OWN
        part = folded.rstrip(". ") or folded
        for glob, at in zip(self._globs, reached, strict=True):
            if glob.ends(at, part):
                return glob.refusal
        return None

    def down(self, name: str) -> None:
        """Go into a folder that may be written."""
        folded = fold(name)
        part = folded.rstrip(". ") or folded
        own, reached = self._way[-1]
        rest = [path[1:] for path in own if path[0] == folded]
        self._bare.append(set())
        self._way.append((rest, [glob.step(at, part) for glob, at in zip(self._globs, reached, strict=True)]))

    def up(self) -> None:
        """Go back."""
        self._way.pop()
        self._bare.pop()


class _Glob:
    """One pattern, taken apart into components."""

    def __init__(self, text: str) -> None:
        self.refusal = f"protected_paths has {text}"
        parts = [part for part in text.split("/") if part not in ("", ".")]
        self.is_literal = not any(mark in text for mark in "*?[")
        while parts and parts[-1] == "**":
            parts.pop()
        if not text.startswith("/"):
            parts.insert(0, "**")
        self._texts = parts
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(fold(part))) for part in parts]
        self._end = len(parts)
        # Each position with those behind it that a `**`, which may stand for nothing, lets one be at as well.
        self._also = [{self._end}]
        for at, part in reversed([*enumerate(parts)]):
            self._also.append({at} | (self._also[-1] if part == "**" else set()))
        self._also.reverse()

    def literal(self) -> Iterator[tuple[str, ...]]:
        """Yield the names that lead to the pattern's matches, as far as they are spelled out."""
        texts = self._texts[1:] if self._texts[:1] == ["**"] else self._texts
        for count, text in enumerate(texts, 1):
            if any(mark in text for mark in "*?["):
                return
            yield tuple(texts[:count])

    @property
    def last(self) -> str:
        """The regular expression of the last component of a match."""
        last = self._parts[-1]
        return ".*" if last is None else last.pattern

    def covers(self, path: Sequence[str]) -> bool:
        """Return True if the pattern matches the path or a folder above it."""
        return self._end in self.reached(path)

    def begins(self, path: Sequence[str]) -> bool:
        """Return True if the pattern's first named component, or more, is what the path ends with."""
        return any(at and self._parts[at - 1] is not None for at in self.reached(path))

    def reached(self, path: Sequence[str]) -> set[int]:
        """Return the positions in the pattern after the path; linear whatever the pattern."""
        reached = self._also[0]
        for part in path:
            reached = self.step(reached, part)
        return reached

    def step(self, reached: set[int], part: str) -> set[int]:
        """Return the positions after one more component."""
        step: set[int] = set()
        for at in reached:
            if at == self._end:
                step.add(at)
            elif (pattern := self._parts[at]) is None:
                step |= self._also[at]
            elif pattern.match(part):
                step |= self._also[at + 1]
        return step

    def ends(self, reached: set[int], part: str) -> bool:
        """Return True if the end is among the positions after one more component."""
        for at in reached:
            if at == self._end:
                return True
            pattern = self._parts[at]
            # Most names are matched by none, and most patterns have more to come.
            if self._end in self._also[at + 1] and (pattern is None or pattern.match(part)):
                return True
        return False
