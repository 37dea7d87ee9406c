"""What is never written, whatever the gate says: `.git`, the server's own files, the operator's globs."""

import fnmatch
import os
import re
import time
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

# Unicode's Default_Ignorable_Code_Point, which ext4 and f2fs leave out when they compare names in a folder that
# forgets case (Linux, fs/unicode, NFDICF); what HFS+ leaves out (git's utf8.c, next_hfs_char) is among it.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

_OF_GIT, _OWN = "it belongs to git", "it belongs to this server"

_RECENT = 1.0
"""Seconds within which who is judged again before anything is written may be told what was so; a guess."""

_GIT_NAMES = re.compile(r"(?:\.git|git~[0-9]+)[. ]*(?::.*)?", re.DOTALL)


def fold(name: str) -> str:
    """Return a name as the most forgetful file system compares it: case, composition, ignorable characters."""
    if name.isascii():  # as nearly every name is; then only case is forgotten
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", _IGNORABLE.sub("", name)).casefold())


def _is_git(folded: str) -> bool:
    """Tell whether some file system takes a folded name for `.git`: also short names, streams, dots at the end."""
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
        self._found: tuple[float, frozenset[tuple[int, int]]] = -_RECENT, frozenset()

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
            return _OF_GIT
        if self._is_own(whole):
            return _OWN
        folded = [part.rstrip(". ") or part for part in whole[len(whole) - len(parts) :]]
        for glob in self._globs:
            if glob.covers(folded) or (folder and glob.begins(folded)):
                return glob.refusal
        return None

    def below(self, root: Path, parts: Sequence[str]) -> "Below":
        """Return what judges the names below a folder."""
        whole = [fold(part) for part in (*root.parts[1:], *parts)]
        folded = [part.rstrip(". ") or part for part in whole[len(whole) - len(parts) :]]
        own = [path[len(whole) :] for path in self._folded_own if path[: len(whole)] == whole and path != whole]
        reached = [glob.reached(folded) for glob in self._globs]
        return Below(self.name_refusal(root, parts), self._globs, own, reached)

    def identities(self, *, recent: bool = False) -> frozenset[tuple[int, int]]:
        """Return (device, inode) of what is protected by name and exists at this moment. recent: or did a second ago."""
        now = time.monotonic()
        if recent and now - self._found[0] < _RECENT:
            return self._found[1]
        found: set[tuple[int, int]] = set()
        for path in self._known:
            try:
                status = os.stat(path)
            except OSError:
                continue
            found.add((status.st_dev, status.st_ino))
        there = frozenset(found)
        # Another thread may have looked meanwhile.
        if self._found[0] <= now:
            self._found = now, there
        return there

    def _is_own(self, whole: list[str]) -> bool:
        return any(whole[: len(own)] == own for own in self._folded_own)

    @cached_property
    def _folded_own(self) -> list[list[str]]:
        return [[fold(part) for part in path.parts[1:]] for path in self._own]


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

    def refusal(self, name: str) -> str | None:
        """Say why what has a name in the folder must not be written; None when it may."""
        if self._refused:
            return self._refused
        folded = fold(name)
        if _is_git(folded):
            return _OF_GIT
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
        self._way.append((rest, [glob.step(at, part) for glob, at in zip(self._globs, reached, strict=True)]))

    def up(self) -> None:
        """Go back."""
        self._way.pop()


class _Glob:
    """One pattern, taken apart into components."""

    def __init__(self, text: str) -> None:
        self.refusal = f"protected_paths has {text}"
        parts = [part for part in text.split("/") if part not in ("", ".")]
        while parts and parts[-1] == "**":
            parts.pop()
        if not text.startswith("/"):
            parts.insert(0, "**")
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(fold(part))) for part in parts]
        self._end = len(parts)
        # Each position with those behind it that a `**`, which may stand for nothing, lets one be at as well.
        self._also = [{self._end}]
        for at, part in reversed([*enumerate(parts)]):
            self._also.append({at} | (self._also[-1] if part == "**" else set()))
        self._also.reverse()

    def covers(self, path: Sequence[str]) -> bool:
        """Tell whether the pattern matches the path or a folder above it."""
        return self._end in self.reached(path)

    def begins(self, path: Sequence[str]) -> bool:
        """Tell whether the pattern's first named component, or more, is what the path ends with."""
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
        """Tell whether the end is among the positions after one more component."""
        for at in reached:
            if at == self._end:
                return True
            pattern = self._parts[at]
            # Most names are matched by none, and most patterns have more to come.
            if self._end in self._also[at + 1] and (pattern is None or pattern.match(part)):
                return True
        return False
