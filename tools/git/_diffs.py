"""Diffs as answers: a summary first, then whole files, as many as fit."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any, Self

from mcp_types import TextContent
from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.git_repo import Repository
from ...safety.patches import unquoted
from ...safety.text import visible_name
from ...sandbox.git import GitReads
from ..results import Answer, Budget, at_most

PatchLine = Annotated[int | None, Field(ge=1, description="line of the patch to go on at")]
"""The parameter that reads on in a long patch."""
FLAGS = ("--no-ext-diff", "--no-textconv", "--no-color")
"""No program of anybody makes or converts a diff."""
MAX_ROWS = 100
"""Files in a summary; of more, the first and how many there are in all."""
MAX_NAMED = 10
"""Files that are named of those that did not fit."""
_ROOMS = (64, 256, 1024)
"""Tokens kept free for the line that says what is missing: names are mostly short."""
_BAR = 40
_BEGIN = re.compile(r"^diff --(?:git|cc|combined) .*$", re.MULTILINE)
_HUNK = re.compile(r"^@@+ .*$", re.MULTILINE)


@dataclass(frozen=True)
class FileDiff:
    """The part of a diff that is about one file."""

    name: str
    text: str
    added: int
    removed: int
    binary: bool


@dataclass(frozen=True)
class Diff:
    """A diff of any size. intro: what stands before it. begin: the character of the patch to begin at, None for all with a summary."""

    files: Sequence[FileDiff]
    intro: str = ""
    begin: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Sequence[FileDiff], start_line: int | None, intro: str = "") -> Self:
        """Return a diff with its summary, or from a line of the patch on. ToolError empty_range."""
        return cls(files, intro, None if start_line is None else _offset(files, start_line))

    @property
    def summary(self) -> str:
        """The files with how many lines of each changed, as `git diff --stat` shows it."""
        shown = self.files[:MAX_ROWS]
        width = min(80, max(len(each.name) for each in shown))
        most = max(1, *(each.added + each.removed for each in shown))
        digits = len(str(most))
        rows = []
        for each in shown:
            count = each.added + each.removed
            scale = min(1.0, _BAR / most)
            bar = "+" * _scaled(each.added, scale) + "-" * _scaled(each.removed, scale)
            what = "Bin" if each.binary else f"{count:>{digits}} {bar}".rstrip()
            rows.append(f" {each.name:<{width}} | {what}")
        if len(self.files) > MAX_ROWS:
            rows.append(f" ... and {len(self.files) - MAX_ROWS} more files")
        added, removed = sum(each.added for each in self.files), sum(each.removed for each in self.files)
        count = len(self.files)
        rows.append(
            f" {count} file{'s' * (count != 1)} changed, {_count(added, 'insertion(+)')}, {_count(removed, 'deletion(-)')}"
        )
        return "\n".join(rows)

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes of the text."""
        return at_most(self.intro) + sum(at_most(each.text) + 2 * len(each.name) + 200 for each in self.files)

    def fit(self, budget: Budget) -> Answer:
        """Return the summary and as many whole files as fit, of one that does not whole hunks; from a line on without a summary."""
        patch = "".join(each.text for each in self.files)
        begin = self.begin or 0
        top = self.intro + (self.summary + "\n\n" if self.files else "") if self.begin is None else ""
        text = top + patch[begin:]
        whole = budget.fit(text.rstrip("\n"))
        if whole.truncated is None:
            return self._answer(whole.text, None, whole.tokens)
        cuts = self._cuts()
        fitted = whole
        for room in _ROOMS:
            end = max(begin, begin + len(budget.start(text, room)) - len(top))
            between = max(begin, cuts[bisect_right(cuts, end) - 1])
            # A hunk that is longer than an answer is read on in parts, and a longer line has its middle cut.
            if self.begin is None or between - begin > (end - begin) // 2:
                end = between
            else:
                end = (patch.rfind("\n", begin, end) + 1) or (patch.find("\n", end) + 1)
            fitted = budget.fit(f"{top}{patch[begin:end]}{self._marker(patch, end)}")
            if fitted.truncated is None:
                break
        return self._answer(fitted.text, whole.truncated, fitted.tokens)

    def _cuts(self) -> list[int]:
        """Return where a file or another hunk of one begins, in characters of the patch."""
        cuts: list[int] = []
        at = 0
        for each in self.files:
            cuts += [at, *(at + found.start() for found in islice(_HUNK.finditer(each.text), 1, None))]
            at += len(each.text)
        return cuts

    def _marker(self, patch: str, end: int) -> str:
        """Return the line that names what follows a place of the patch, and how to get it."""
        at = 0
        left: list[str] = []
        for each in self.files:
            if at < end < at + len(each.text):
                left.append(f"the rest of {each.name}")
            elif at >= end:
                left.append(each.name)
            at += len(each.text)
        names = ", ".join(left[:MAX_NAMED])
        more = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
        line = patch.count("\n", 0, end) + 1
        return f"... not shown: {names}{more}; continue with start_line={line}, or path shows one file or folder ..."

    def _answer(self, text: str, truncated: dict[str, int] | None, tokens: int | None) -> Answer:
        meta = dict(self.meta) | ({"truncated": truncated} if truncated else {})
        return Answer([TextContent(type="text", text=text)], meta=meta, tokens=tokens)


def _offset(files: Sequence[FileDiff], line: int) -> int:
    patch = "".join(each.text for each in files)
    at = 0
    for number in range(1, line):
        at = patch.find("\n", at) + 1
        if at == len(patch):
            raise ToolError(
                Code.EMPTY_RANGE, f"start_line {line} is beyond the end of the patch", f"it has {number} lines"
            )
    return at


def prefixes(repo: Repository) -> tuple[str, str]:
    """Return the options by which a diff names files as all results do, relative to the base."""
    prefix = repo.prefix.lstrip("/")
    return f"--src-prefix=a/{prefix}", f"--dst-prefix=b/{prefix}"


def parsed(text: str) -> list[FileDiff]:
    """Take a diff of git apart, file by file."""
    starts = [found.start() for found in _BEGIN.finditer(text)]
    return [_file(text[at:end]) for at, end in zip(starts, [*starts, len(text)][1:], strict=True)]


async def diff(git: GitReads, repo: Repository, *args: str, paths: Sequence[str] = ()) -> list[FileDiff]:
    """Return the output of `git diff`."""
    done = await git.run(repo, "diff", *FLAGS, *prefixes(repo), *args, paths=paths)
    return parsed(done.text)


def _file(text: str) -> FileDiff:
    first = _HUNK.search(text)
    head = text[: first.start()] if first else text
    body = text[first.start() :] if first else ""
    # A merge has a column for each parent.
    columns = len(first[0]) - len(first[0].lstrip("@")) - 1 if first else 1
    added = removed = 0
    for line in body.split("\n"):
        marks = line[:columns]
        if marks.startswith("@"):
            continue
        added += "+" in marks
        removed += "-" in marks
    binary = "\nBinary files " in head or "\nGIT binary patch" in head
    return FileDiff(_name(head), text if text.endswith("\n") else text + "\n", added, removed, binary)


def _name(head: str) -> str:
    """Return the name that a summary gives a file: the one after the change, `OLD => NEW` for a rename."""
    old = re.search(r"^(?:rename|copy) from (.*)$", head, re.MULTILINE)
    new = re.search(r"^(?:rename|copy) to (.*)$", head, re.MULTILINE)
    if old and new:
        return f"{unquoted(old[1])} => {unquoted(new[1])}"
    for side, mark in (("\\+\\+\\+", "b/"), ("---", "a/")):
        if (found := re.search(f"^{side} (.*)$", head, re.MULTILINE)) and found[1] != "/dev/null":
            return visible_name(unquoted(found[1].rstrip("\t")).removeprefix(mark))
    line = head.split("\n", 1)[0]
    if combined := re.match(r"diff --(?:cc|combined) (.*)", line):
        return visible_name(unquoted(combined[1]))
    both = line.removeprefix("diff --git ")
    if both.startswith('"'):
        return visible_name(unquoted(both[: both.index('" ') + 1] if '" ' in both else both).removeprefix("a/"))
    # Both names are the same here.
    return visible_name(both[: len(both) // 2].removeprefix("a/"))


def _count(number: int, what: str) -> str:
    return f"{number} {what if number == 1 else what.replace('(', 's(')}"


def _scaled(count: int, scale: float) -> int:
    return max(1, round(count * scale)) if count else 0
