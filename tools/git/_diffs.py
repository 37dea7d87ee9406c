"""Diffs as answers: a summary first, then whole files, as many as fit."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_types import TextContent

from ...safety.git_repo import Repository
from ...safety.patches import unquoted
from ...safety.text import visible_name
from ...sandbox.git import GitReads
from ..results import Answer, Budget, at_most

FLAGS = ("--no-ext-diff", "--no-textconv", "--no-color")
"""No program of anybody makes or converts a diff."""
MAX_ROWS = 100
"""Files in a summary; of more, the first and how many there are in all."""
MAX_NAMED = 10
"""Files that are named of those that did not fit."""
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
    """A diff of any size. intro: what stands before it."""

    files: Sequence[FileDiff]
    intro: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)

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
        """Return the summary and as many whole files as fit; of one that does not, whole hunks."""
        top = self.intro + (self.summary + "\n" if self.files else "")
        whole = budget.fit(self._text(top, len(self.files)))
        if whole.truncated is None:
            return self._answer(whole.text, None, whole.tokens)
        low, high = 0, len(self.files) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if budget.fit(self._text(top, middle)).truncated is None:
                low = middle
            else:
                high = middle - 1
        hunks = self._hunks(top, low, budget)
        fitted = budget.fit(self._text(top, low, hunks), "narrow the path")
        return self._answer(fitted.text, whole.truncated, fitted.tokens)

    def _hunks(self, top: str, files: int, budget: Budget) -> str:
        """Return the first hunks, as many as fit, of the file after those that fit whole."""
        if files >= len(self.files):
            return ""
        text = self.files[files].text
        ends = [found.start() for found in _HUNK.finditer(text)][1:]
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high + 1) // 2
            if budget.fit(self._text(top, files, text[: ends[middle - 1]])).truncated is None:
                low = middle
            else:
                high = middle - 1
        return text[: ends[low - 1]] if low else ""

    def _text(self, top: str, files: int, hunks: str = "") -> str:
        parts = [top, "\n" * bool(top and self.files), *(each.text for each in self.files[:files]), hunks]
        if files < len(self.files):
            left = self.files[files:]
            names = ", ".join(each.name for each in left[:MAX_NAMED])
            more = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
            what = "the rest of " if hunks else ""
            parts.append(f"... not shown: {what}{names}{more}; path shows one file or folder ...")
        return "".join(parts).rstrip("\n")

    def _answer(self, text: str, truncated: dict[str, int] | None, tokens: int | None) -> Answer:
        meta = dict(self.meta) | ({"truncated": truncated} if truncated else {})
        return Answer([TextContent(type="text", text=text)], meta=meta, tokens=tokens)


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
