"""Parameter types of the git tools: names of commits, and texts that end up in git's arguments."""

import re
from typing import Annotated

from pydantic import Field

from .errors import Code, ToolError
from .guard import Guard, GuardContext
from .path_jail.roots import JailedPath
from .text import visible_name

_REF = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_./~^@{}+-]{0,199}")
_SHOWN = 100
"""Characters of a refused argument that an error repeats."""


def ref(raw: str, judging: GuardContext) -> str:
    """Insist on the name of one commit, as git users type it: no option, no range, no path."""
    if not _REF.fullmatch(raw) or ".." in raw:
        raise ToolError(
            Code.BAD_REF,
            f"{visible_name(raw[:_SHOWN])!r} does not name a commit",
            "a branch, a tag, a hash, HEAD~2, v1^{} or @{u}; paths go into path",
        )
    return raw


def ref_range(raw: str, judging: GuardContext) -> str:
    """Insist on the name of a commit, or on two of them with `..` or `...` between; one of the two may be missing."""
    first, dots, second = raw.partition("..")
    if not dots:
        return ref(raw, judging)
    second = second.removeprefix(".")
    if not first and not second:
        raise ToolError(Code.BAD_REF, "a range needs a commit on one side", "main..topic")
    for side in (first, second):
        if side:
            ref(side, judging)
    return raw


def words(raw: str, judging: GuardContext) -> str:
    """Insist on a text that can be an argument of a program: a NUL would end it early."""
    if "\0" in raw:
        raise ToolError(Code.INVALID_ARGS, "a NUL character cannot be passed to git")
    return _encodable(raw)


def message(raw: str, judging: GuardContext) -> str:
    """Insist on a commit message that says something."""
    if "\0" in raw:
        raise ToolError(Code.INVALID_ARGS, "message: a commit message cannot hold a NUL character")
    if not raw.strip():
        raise ToolError(Code.EMPTY_MESSAGE, "the commit message is empty")
    return _encodable(raw)


def _encodable(raw: str) -> str:
    try:
        raw.encode()
    except UnicodeEncodeError:
        raise ToolError(Code.INVALID_ARGS, "the text is not valid Unicode") from None
    return raw


def entries(raw: list[str], judging: GuardContext) -> list[JailedPath]:
    """Insist on entries inside the roots, a link being the link itself, and on at least one."""
    if not raw:
        raise ToolError(Code.NO_PATHS, "paths is empty", 'name files or folders, or "." for everything')
    return [judging.policy.roots.place(each, follow=False) for each in raw]


GitRef = Annotated[str, Guard(ref)]
"""The name of one commit."""

GitRange = Annotated[str, Guard(ref_range)]
"""The name of one commit, or `A..B` or `A...B`."""

GitText = Annotated[str, Guard(words)]
"""A text that git compares with others. The handler passes it behind `=`, so that it is no option."""

CommitMessage = Annotated[str, Guard(message)]
"""What a commit says of itself; it reaches git by its standard input."""

GitPaths = Annotated[list[JailedPath], Guard(entries, accepts=Annotated[list[str], Field(max_length=1000)])]
"""Entries of a work tree, existing or not."""
