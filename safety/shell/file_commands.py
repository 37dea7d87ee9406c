"""Shell lines that begin with rm, rmdir or mv of literal paths inside the roots, which need no shell."""

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from ..errors import Code, ToolError
from ..guard import Guard, GuardContext
from ..path_jail.roots import JailedPath, Roots

LITERAL = re.compile(r"[ \t\w./,:@+'\"-]+")
"""Characters that mean themselves to every shell, in quotes or not; the quotes are shlex's as they are sh's."""

_FIRST = re.compile(rf"({LITERAL.pattern})(&&|;|\Z)")

OPTIONS = {"rm": frozenset("rRfdv"), "rmdir": frozenset("v"), "mv": frozenset("fv")}
"""The letters of options that neither ask nor choose."""


@dataclass(frozen=True)
class FileCommand:
    """A command with its paths as they are written, and as places that may be changed."""

    name: Literal["rm", "rmdir", "mv"]
    options: frozenset[str]
    operands: tuple[tuple[str, JailedPath], ...]
    ends: str = ""
    """What stands behind it: nothing, `;`, or `&&`."""


@dataclass(frozen=True)
class ShellLine:
    """A shell line, and the roots that its paths may lie in."""

    text: str
    roots: Roots

    def split(self, folder: JailedPath | None, blocked: Collection[str]) -> tuple[tuple[FileCommand, ...], str]:
        """Return the commands on files that the line begins with, and what follows them for the shell.

        folder: where the line runs; None is the base. blocked: names that the operator refuses. ToolError protected_path.
        """
        done: list[FileCommand] = []
        rest = self.text
        while found := _FIRST.match(rest):
            command = self._file_command(found[1], folder, blocked)
            if command is None:
                break
            done.append(replace(command, ends=found[2]))
            rest = rest[found.end() :]
            if not rest:
                break
        if done and done[-1].ends == "&&" and not rest.strip():
            return (), self.text
        return tuple(done), rest

    def _file_command(self, text: str, folder: JailedPath | None, blocked: Collection[str]) -> FileCommand | None:
        words = _words(text)
        if not words or words[0] not in OPTIONS or words[0] in {name.lower() for name in blocked}:
            return None
        name, *rest = words
        options = ""
        while rest and rest[0].startswith("-"):
            option = rest.pop(0)
            if option == "--":
                break
            options += option[1:] or "?"
        if any(raw.startswith("-") for raw in rest) or not frozenset(options) <= OPTIONS[name]:
            return None
        if len(rest) < (2 if name == "mv" else 1) or any(".." in raw.split("/") for raw in rest):
            # The shell takes `..` of where a link leads.
            return None
        prefix = "" if folder is None else f"{folder.absolute}/"
        try:
            places = [self.roots.place(raw if raw.startswith("/") else prefix + raw, follow=False) for raw in rest]
            for place in places:
                place.check_writable()
        except ToolError as refused:
            if refused.code is Code.PATH_DENIED:
                return None
            raise
        return FileCommand(name, frozenset(options), tuple(zip(rest, places, strict=True)))  # type: ignore[arg-type]


def _words(line: str) -> list[str]:
    if not LITERAL.fullmatch(line):
        return []
    try:
        return shlex.split(line)
    except ValueError:
        return []


def _line(raw: str, judging: GuardContext) -> ShellLine:
    return ShellLine(raw, judging.policy.roots)


def _lines(raw: list[str], judging: GuardContext) -> list[ShellLine]:
    return [_line(each, judging) for each in raw]


Line = Annotated[ShellLine, Guard(_line)]
"""A line for a shell."""

Lines = Annotated[list[ShellLine], Guard(_lines, accepts=list[str])]
"""Lines for a shell."""
