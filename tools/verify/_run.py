"""Running a project's own tool and reporting what it said."""

import contextlib
import os
import re
import shlex
import stat
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from mcp_types import TextContent

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import FIND, JailedPath
from ...safety.text import visible_name
from ...sandbox.process.runner import Finished
from ..exec_result import ExecResult
from ..outputs import more, read_on
from ..results import Answer, Budget, Text, at_most

REPORT_BYTES = 64 << 20
"""How much of a report is read; a guess that no project comes near."""

SNIFFED = 1 << 20
"""Bytes of a project file that are looked at to find out what the project uses."""


NAMES_SEEN = 1000
"""Entries of a folder that are looked at to find out what language it holds; a guess."""


_FRAMES = re.compile(r"((?:^[ \t]+(?:from|at) [^\n]*\n){2})((?:^[ \t]+(?:from|at) [^\n]*(?:\n|\Z)){2,})", re.MULTILINE)
"""A backtrace of Ruby or Node: a line for each frame."""

MAX_PROJECTS = 10
"""Projects that a refusal names; a guess."""

MARKERS = (
    "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini", "package.json", "Cargo.toml", "go.mod", "Gemfile", "Rakefile",
    ".rspec", ".rubocop.yml", ".standard.yml", "ruff.toml", ".ruff.toml",
)  # fmt: skip
"""Files that stand at the top of a project."""


def report(
    headline: str,
    argv: Sequence[str],
    done: Finished,
    note: str = "",
    *,
    folder: JailedPath | None = None,
    shorter: str | None = None,
    more: str | None = "narrow the path",
) -> "Report":
    """Return the headline, the command line, the exec form, and last a note if there is one.

    folder: where it ran, told unless it is the base. shorter: what takes the place of stdout where the whole does not fit.
    more: how to get what even so is cut.
    """
    last = f"\n({note})" if note else ""
    command = f"$ {visible_name(shlex.join(argv))}" + (f"   (in {folder.shown})" if folder else "")

    def form(finished: Finished) -> str:
        return f"{headline}\n{command}\n{ExecResult.of(finished).rendered()}{last}"

    cut = form(replace(done, stdout=replace(done.stdout, text=shorter))) if shorter is not None else None
    return Report(form(done), more, shorter=cut)


def without_frames(text: str) -> str:
    """Return text with the first two frames of each backtrace, and how many more there are."""
    return _FRAMES.sub(lambda found: f"{found[1]}    ... {found[2].count(chr(10))} more frames\n", text)


def insist(path: JailedPath, selector: str = "(?!)") -> None:
    """ToolError not_found where a path names nothing. selector: what may stand behind the name of a file, a pattern."""
    name = re.sub(rf"(?:{selector})\Z", "", "/".join(path.parts), flags=re.DOTALL)
    file = replace(path, parts=tuple(filter(None, name.split("/"))))
    if path.stat() is None and file.stat() is None:
        raise ToolError(Code.NOT_FOUND, f"there is no {file.shown}", file.similar() or FIND)


@dataclass(frozen=True)
class Report(Text):
    """A text that has a shorter form for where it has to be cut."""

    shorter: str | None = None

    def fit(self, budget: Budget) -> Answer:
        """Return the whole, or the shorter form with as much of it as fits."""
        cut = budget.fit(self.body, read_on(budget, self.body, self.more))
        truncated = cut.truncated
        if truncated and self.shorter is not None:
            total = truncated["tokens"]
            cut = budget.fit(
                self.shorter, f"all of it: {more(budget.keep(self.body), 1)}" if budget.keep else self.more
            )
            left = at_most(cut.text) // 4 if cut.tokens is None else cut.tokens
            truncated = {"tokens": total, "cut": max(1, total - left)}
        meta = dict(self.meta) | ({"truncated": truncated} if truncated else {})
        return Answer([TextContent(type="text", text=cut.text)], meta=meta, tokens=cut.tokens)


def written(file: str) -> bytes:
    """Return a report that a project's own code wrote, or could put something else in the place of; empty if so."""
    return _beginning(file, REPORT_BYTES)


def operand(path: JailedPath, folder: JailedPath | None = None) -> str:
    """Return a path as an argument, relative to a folder, that no program takes for an option."""
    name = path.shown if folder is None else os.path.relpath(path.absolute, folder.absolute)
    return f"./{name}" if name.startswith(("-", "+", "@")) else name


class Project:
    """The files in a folder that say what a project uses. Nothing is run and no link is followed."""

    def __init__(self, base: str) -> None:
        """Look at the folder base, by its absolute path."""
        self._base = base

    def has(self, name: str) -> bool:
        """Return True if there is a file of this name."""
        with contextlib.suppress(OSError):
            return stat.S_ISREG(os.stat(os.path.join(self._base, name)).st_mode)
        return False

    def is_marked(self) -> bool:
        """Return True where a file or folder says that a project begins here, and not only that there are tests."""
        return self.has_folder("spec") or any(map(self.has, MARKERS))

    def has_folder(self, name: str) -> bool:
        """Return True if there is a folder of this name."""
        return os.path.isdir(os.path.join(self._base, name))

    def below(self, name: str) -> "Project":
        """Return a folder in the base."""
        return Project(os.path.join(self._base, name))

    def names(self) -> list[str]:
        """Return the names in the base."""
        with contextlib.suppress(OSError):
            return sorted(os.listdir(self._base))
        return []

    def extensions(self, ignored: Collection[str]) -> set[str]:
        """Return the extensions of files in the base and in its folders, but ignored and hidden ones."""
        found: set[str] = set()
        folders = [self._base]
        for folder in folders:
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in islice(entries, NAMES_SEEN):
                    if entry.is_file(follow_symlinks=False):
                        found.add(os.path.splitext(entry.name)[1])
                    elif folder == self._base and entry.name not in ignored and not entry.name.startswith("."):
                        folders.append(entry.path)
        return found

    def text(self, name: str) -> str:
        """Return the beginning of a file, empty where there is none."""
        return _beginning(os.path.join(self._base, name), SNIFFED).decode("utf-8-sig", "replace")

    def bundled(self, argv: list[str], gem: str | None = None) -> list[str]:
        """Return argv, behind `bundle exec` where there is a Gemfile; with gem only where that names it."""
        if not self.has("Gemfile"):
            return argv
        listed = gem is None or re.search(rf"\b{re.escape(gem)}\b", self.text("Gemfile") + self.text("Gemfile.lock"))
        return ["bundle", "exec", *argv] if listed else argv


def _beginning(file: str, most: int) -> bytes:
    """Return the beginning of a regular file; empty for anything else, without following a link or waiting."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b""
        with open(fd, "rb", closefd=False) as handle:
            return handle.read(most)
    except OSError:
        return b""
    finally:
        os.close(fd)


def nearest(path: JailedPath | None, fits: Callable[[Project], bool]) -> JailedPath | None:
    """Return the nearest folder at or above a path that is a fitting project; None where there is none, or no path."""
    here = path
    while here is not None:
        if fits(Project(here.absolute)):
            return here
        here = here.folder() if here.parts else None
    return None


def projects_below(base: str, fits: Callable[[Project], bool], ignored: Collection[str], levels: int = 2) -> list[str]:
    """Return the folders that are fitting projects, by name: those of the base, and of its folders that are none."""
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir(base) as entries:
        for entry in sorted(islice(entries, NAMES_SEEN), key=lambda entry: entry.name):
            plain = entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and entry.name not in ignored
            if plain and fits(Project(entry.path)):
                found.append(entry.name)
            elif plain and levels > 1 and len(found) < MAX_PROJECTS:
                found += (f"{entry.name}/{name}" for name in projects_below(entry.path, fits, ignored, levels - 1))
    return found[:MAX_PROJECTS]
