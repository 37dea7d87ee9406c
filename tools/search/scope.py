"""Where a search looks: a folder or one file, without what is ignored."""

import codecs
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.os_errors import refusal
from ...safety.path_jail.opening import Links
from ...safety.path_jail.roots import FIND, JailedPath
from ...safety.path_jail.tree_walk import rules_above
from ...safety.text import HEAD, is_binary, visible_name
from ...safety.writes.temp_names import is_temporary
from ..blocking import IsCancelled
from ..settings import ToolSettings
from .globs import Glob, compiled

MAX_BYTES = 5 * 2**20
"""Size of a file that is searched."""
WALK_SECONDS = 60.0
"""Seconds that a walk may take. Both bounds are TOOLS.md §4.1's and §1.5's."""
WALK_DEADLINE = WALK_SECONDS + 5

IncludeHidden = Annotated[bool, Field(description="also names that begin with a dot")]

_SIMPLE = re.compile(r"(?=.)[\w.*?+@~ -]*(?:\{[\w.+-]+(?:,[\w.+-]+)*\}[\w.*?-]*)?", re.ASCII)
"""Globs that ripgrep reads as we do: no classes, and no braces in braces or with nothing in them."""

_WILD = re.compile(r"[*?]+")


@dataclass(frozen=True)
class Scope:
    """A folder, or one file in it by its name; glob narrows it to some files.

    hidden: with names that begin with a dot, too; without, only those whose dots the glob spells out.
    """

    folder: JailedPath
    file: str | None
    glob: str | None
    matcher: Glob | None
    ignored_dirs: tuple[str, ...]
    gitignore: bool
    hidden: bool = True

    @classmethod
    def of(
        cls,
        path: JailedPath,
        glob: str | None,
        settings: ToolSettings,
        *,
        include_ignored: bool,
        include_hidden: bool = True,
    ) -> "Scope":
        """Return the scope of a search below path. ToolError not_a_directory, not_a_file, bad_pattern."""
        at = path.target()
        there = at.stat()
        if there is None:
            raise ToolError(Code.NOT_A_DIRECTORY, f"there is no {path.shown}", path.similar() or FIND)
        file = None
        if not stat.S_ISDIR(there.st_mode):
            if not stat.S_ISREG(there.st_mode):
                raise ToolError(Code.NOT_A_FILE, f"{path.shown} is neither a folder nor a regular file")
            at, file = at.folder(), at.name
        return cls(
            folder=at,
            file=file,
            glob=glob,
            matcher=_matcher(glob, include_hidden) if glob else None,
            ignored_dirs=() if include_ignored else settings.ignored_dirs,
            gitignore=settings.respect_gitignore and not include_ignored,
            hidden=include_hidden,
        )

    def shown(self, relative: str) -> str:
        """Return the name of a file below the folder in results: on one line, and without bytes that are no text."""
        return self._prefix + visible_name(relative)

    @cached_property
    def _prefix(self) -> str:
        shown = self.folder.shown
        return "" if shown == "." else f"{shown.rstrip('/')}/"

    def below(self, relative: str) -> JailedPath:
        """Return the place of a file below the folder; no link leads there."""
        return replace(self.folder, parts=(*self.folder.parts, *relative.split("/")), links=Links.NONE)

    def meant(self, relative: str) -> bool:
        """Return True if the glob means a file; relative to the folder. A glob without `/` goes by the name alone.

        No glob means those that are on their way to their places: what replaced one of them would come there in its stead.
        """
        if self.file is not None:
            return relative == self.file
        if is_temporary(relative):
            return False
        if self.matcher is None:
            return self.hidden or not is_hidden(relative)
        assert self.glob is not None
        whole = "/" in self.glob.removeprefix("!").rstrip("/")
        folder, _, name = relative.rpartition("/")
        wanted = self.matcher.match(relative if whole else name)
        if self.glob.startswith("!"):
            return wanted is None and (self.hidden or not is_hidden(relative))
        # A glob of the name alone spells out no dot of a folder.
        return wanted is not None and (self.hidden or whole or not is_hidden(folder))

    def is_binary(self, stop: IsCancelled) -> bool:
        """Return True if it is one file, and that one binary. ToolError not_a_file, path_denied."""
        if self.file is None:
            return False
        fd = self.folder.child(self.file).open_file()
        try:
            return is_binary(os.pread(fd, HEAD, 0))
        finally:
            os.close(fd)

    def ripgrep(self) -> "RgScope":
        """Return the arguments that keep ripgrep to this scope. Reads the .gitignore files above the folder."""
        if self.file is not None:
            return RgScope(self.folder, "./", f"./{self.file}", ("--no-ignore", "--hidden", *self._as_text()))
        # What the glob does not spell out is sorted out behind it.
        arguments = ["--hidden"] if self.hidden or (self.glob and self._spells_out_dots) else []
        above = rules_above(self.folder) if self.gitignore else b""
        # ripgrep would heed what lies above the root, too, so it is told what holds and looks at nothing above.
        arguments += ["--no-ignore-parent"] if self.gitignore else ["--no-ignore"]
        if self.folder.roots.no_xdev:
            arguments.append("--one-file-system")
        arguments += _leaving_out(self.ignored_dirs)
        arguments += self._narrowed()
        if not above:
            return RgScope(self.folder, "./", "./", tuple(arguments))
        below = "".join(f"{part}/" for part in self.folder.parts)
        return RgScope(replace(self.folder, parts=()), f"./{below}", f"./{below}", tuple(arguments), above)

    @property
    def _spells_out_dots(self) -> bool:
        assert self.glob is not None
        return any(part.startswith((".", "\\.", "[", "{")) for part in self.glob.split("/")) or ",." in self.glob

    def _as_text(self) -> list[str]:
        """Return the argument by which a NUL ends no search of one file; whether it is binary is asked of its beginning.

        What ripgrep has to decode it holds in memory up to a line break or a NUL: of a hole, as much as there is.
        """
        assert self.file is not None
        try:
            fd = self.folder.child(self.file).open_file()
        except ToolError:
            return []
        try:
            return [] if os.pread(fd, 2, 0) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else ["--text"]
        finally:
            os.close(fd)

    def _narrowed(self) -> list[str]:
        """Return arguments that leave out early what the glob cannot mean, by the last component.

        A type, since a glob of ripgrep's own would bring back files that .gitignore excludes.
        """
        if self.glob is None or self.glob.startswith("!"):
            return []
        name = self.glob.rpartition("/")[2]
        if not _SIMPLE.fullmatch(name):
            return []
        # For ripgrep `?` is one byte, where it is one character.
        return [f"--type-add=meant:{_WILD.sub('*', name)}", "--type=meant"]


@dataclass(frozen=True)
class RgScope:
    """A scope as ripgrep is told of it: where it runs, what it searches, with which arguments and rules of .gitignore.

    prefix: what stands before the paths that it reports, relative to the folder of the scope.
    """

    cwd: JailedPath
    prefix: str
    target: str
    arguments: tuple[str, ...]
    rules: bytes = b""

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Lend a descriptor of the folder that it runs in. ToolError path_denied where that may be read and not entered."""
        fd = self.cwd.open_folder()
        try:
            try:
                os.stat(".", dir_fd=fd)
            except OSError as e:
                raise refusal(e, self.cwd.shown) from None
            yield fd
        finally:
            os.close(fd)

    def name(self, path: bytes) -> str:
        """Return a path that ripgrep reports relative to the folder of the scope, as the system has it."""
        return os.fsdecode(path).removeprefix(self.prefix)


@cache
def _leaving_out(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments by which ripgrep enters no folder of these names, and no .git."""
    named = ("".join("\\" + c if c in "*?[]{}\\!" else c for c in name) for name in sorted(folders))
    # Names are looked up, where a pattern for any case would be tried on each path: a thirtieth of a search.
    gits = ("".join(letters) for letters in product("gG", "iI", "tT"))
    return (*(f"--glob=!{name}/" for name in named), *(f"--glob=!.{git}" for git in gits))


def is_hidden(path: str) -> bool:
    """Return True if a component of a relative path begins with a dot."""
    return path[:1] == "." or "/." in path


def _matcher(glob: str, hidden: bool) -> Glob:
    return compiled(glob.removeprefix("!").removeprefix("/").removeprefix("./"), hidden=hidden or glob.startswith("!"))
