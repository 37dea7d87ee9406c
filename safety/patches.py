"""The parameter type of patches: what a patch says, with every path that it names judged before anything is read.

Two forms are understood: unified diffs, with or without git's extended headers, and the envelope `*** Begin Patch`, in which
the place of a change is told by its context alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from .errors import Code, ToolError
from .guard import Guard, GuardContext
from .path_jail.roots import JailedPath, Roots
from .text import visible_name

Mark = Literal[" ", "+", "-"]

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_PREFIX = re.compile(r"[abciow12]/")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
_END_OF_FILE = "*** End of File"


@dataclass(frozen=True)
class Hunk:
    """A change of some lines in a row.

    lines: each with its mark. start: the line, 1-based, at which it begins in the old file; None where only the context
    tells. anchors: lines that stand before it, in their order. at_end: it reaches to the end of the file. newline: whether
    the old and the new file end with a line break after it; None where the patch does not say.
    """

    shown: str
    lines: Sequence[tuple[Mark, str]]
    start: int | None = None
    anchors: Sequence[str] = ()
    at_end: bool = False
    newline: tuple[bool, bool] | None = None

    @property
    def old(self) -> list[str]:
        """The lines that are there before the change."""
        return [text for mark, text in self.lines if mark != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that are there after it."""
        return [text for mark, text in self.lines if mark != "-"]


@dataclass(frozen=True)
class FilePatch:
    """What happens to one file. old: None where it is created; new: None where it is removed. executable: None keeps it."""

    old: JailedPath | None
    new: JailedPath | None
    hunks: Sequence[Hunk]
    executable: bool | None = None
    copied: bool = False

    @property
    def place(self) -> JailedPath:
        """The file after the change, or the one that is removed."""
        place = self.new or self.old
        assert place
        return place


@dataclass
class _Raw:
    """What one file's part of a patch says, as text."""

    old: str | None = None
    new: str | None = None
    creates: bool = False
    removes: bool = False
    renames: bool = False
    copies: bool = False
    executable: bool | None = None
    hunks: list[Hunk] = field(default_factory=list)


def patch(raw: str, judging: GuardContext) -> list[FilePatch]:
    """Return the parsed patch. ToolError empty_patch, patch_failed, refused, path_denied, protected_path."""
    if not raw.strip():
        raise ToolError(Code.EMPTY_PATCH, "the patch is empty")
    lines = raw.split("\n")
    if lines[0].endswith("\r"):
        # The patch as a whole came with other line ends; they say nothing of the files.
        lines = [line.removesuffix("\r") for line in lines]
    first = next((at for at, line in enumerate(lines) if line.strip() == _BEGIN), None)
    files = list(_envelope(lines[first + 1 :]) if first is not None else _unified(lines))
    if not files:
        raise ToolError(
            Code.EMPTY_PATCH,
            "no file is named in the patch",
            "a unified diff begins with --- and +++, an envelope with *** Begin Patch",
        )
    return [_judged(each, judging.policy.roots) for each in files]


Patch = Annotated[list[FilePatch], Guard(patch)]
"""A unified diff or an envelope. The handler gets it taken apart, with all its places judged."""


def _judged(raw: _Raw, roots: Roots) -> FilePatch:
    old = None if raw.creates or raw.old is None else _place(raw.old, roots)
    new = None if raw.removes or raw.new is None else _place(raw.new, roots)
    if old is None and new is None:
        raise ToolError(Code.PATCH_FAILED, "a part of the patch names no file")
    return FilePatch(old, new, raw.hunks, raw.executable, raw.copies)


def _place(raw: str, roots: Roots) -> JailedPath:
    place = roots.place(raw, follow=False)
    if not place.parts:
        raise ToolError(Code.IS_A_DIRECTORY, f"{place.shown} is a folder")
    place.check_writable()
    return place


def _unified(lines: Sequence[str]) -> Iterator[_Raw]:
    at = 0
    current: _Raw | None = None
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            if current:
                yield _whole(current)
            current, at = _git_header(lines, at)
        elif _is_header(lines, at):
            if current:
                yield _whole(current)
            current = _Raw()
            _take_names(current, lines[at], lines[at + 1])
            at += 2
        elif line.startswith("@@"):
            if current is None:
                raise ToolError(Code.PATCH_FAILED, "a hunk stands before any file", "--- and +++ name the file")
            hunk, at = _hunk(lines, at)
            current.hunks.append(hunk)
        elif line.startswith(("GIT binary patch", "Binary files ")):
            name = visible_name((current.new or current.old or "") if current else "")
            raise ToolError(
                Code.REFUSED, f"the patch changes {name}, which is not text", "write_file writes binary files"
            )
        else:
            at += 1
    if current:
        yield _whole(current)


def _whole(raw: _Raw) -> _Raw:
    if raw.old is None and raw.new is None:
        raise ToolError(Code.PATCH_FAILED, "the names in a header of the patch cannot be read")
    return raw


def _is_header(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _git_header(lines: Sequence[str], at: int) -> tuple[_Raw, int]:
    """Read `diff --git` and the lines below it, up to the names or the next file."""
    raw = _Raw()
    both = lines[at].removeprefix("diff --git ")
    at += 1
    while at < len(lines):
        line = lines[at]
        word, _, rest = line.partition(" ")
        if line.startswith(("new file mode ", "new mode ", "deleted file mode ", "old mode ", "index ")):
            mode = line.rpartition(" ")[2]
            if word == "index":
                mode = mode if re.fullmatch("[0-7]{6}", mode) else "100644"
            if not re.fullmatch("100[0-7]{3}", mode):
                what = {"120000": "a link", "160000": "a submodule"}.get(mode, f"an entry of mode {mode[:10]!r}")
                raise ToolError(Code.REFUSED, f"the patch is about {what}", "patches change files")
            raw.creates = raw.creates or line.startswith("new file")
            raw.removes = raw.removes or word == "deleted"
            if word == "new":
                raw.executable = bool(int(mode, 8) & 0o100)
        elif line.startswith(("rename from ", "copy from ")):
            raw.old = unquoted(rest.removeprefix("from "))
        elif line.startswith(("rename to ", "copy to ")):
            raw.new = unquoted(rest.removeprefix("to "))
            raw.renames, raw.copies = word == "rename", word == "copy"
        elif not line.startswith(("similarity index ", "dissimilarity index ")):
            break
        at += 1
    if raw.old is None and raw.new is None:
        raw.old = raw.new = _same_name(both)
    if at < len(lines) and _is_header(lines, at):
        _take_names(raw, lines[at], lines[at + 1])
        at += 2
    return raw, at


def _same_name(both: str) -> str | None:
    """Return the name that a `diff --git` line has twice; None where the two differ."""
    if both.startswith('"'):
        first, _, second = both.partition('" ')
        first, second = unquoted(first + '"'), unquoted(second)
    else:
        middle = len(both) // 2
        first, second = both[:middle], both[middle + 1 :]
    first, second = _stripped(first, second)
    return first if first == second and first else None


def _take_names(raw: _Raw, minus: str, plus: str) -> None:
    old, new = _named(minus[4:]), _named(plus[4:])
    if old is None and new is None:
        raise ToolError(Code.PATCH_FAILED, "a part of the patch names no file")
    if raw.renames or raw.copies:
        return
    if old is None:
        raw.creates, raw.new = True, _stripped_one(new or "")
    elif new is None:
        raw.removes, raw.old = True, _stripped_one(old)
    else:
        # Where the names differ and nothing speaks of a rename, it is the second that is patched, as by patch(1).
        raw.old = raw.new = _stripped(old, new)[1]


def _named(text: str) -> str | None:
    """Return the name in a `---` or `+++` line, without a time behind it; None for `/dev/null`."""
    name = unquoted(text) if text.startswith('"') else text.partition("\t")[0].rstrip("\r")
    name = name.rstrip() if not text.startswith('"') else name
    return None if name == "/dev/null" else name


def _stripped(old: str, new: str) -> tuple[str, str]:
    """Take git's prefixes off both names of a file, if both have one."""
    if _PREFIX.match(old) and _PREFIX.match(new) and old[0] != new[0]:
        return old[2:], new[2:]
    return old, new


def _stripped_one(name: str) -> str:
    return name[2:] if _PREFIX.match(name) else name


def unquoted(name: str) -> str:
    """Return a name as git wrote it, without the quotes and escapes that it has around unusual ones."""
    name = name.rstrip("\r")
    if not name.startswith('"'):
        return name
    data = bytearray()
    at = 1
    while at < len(name) and name[at] != '"':
        if found := _ESCAPE.match(name, at):
            what = found[1]
            if what[0] in "01234567":
                data.append(int(what, 8) & 0xFF)
            elif what in _LETTERS:
                data.append(_LETTERS[what])
            else:
                data += what.encode("utf-8", "surrogatepass")
            at = found.end()
        else:
            data += name[at].encode("utf-8", "surrogatepass")
            at += 1
    return data.decode("utf-8", "surrogateescape")


def _hunk(lines: Sequence[str], at: int) -> tuple[Hunk, int]:
    """Read a hunk. What its header says of its length is believed as long as it fits."""
    header = lines[at]
    numbers = _HUNK.match(header)
    shown = header[:80]
    if numbers:
        start, removed, _, added = (int(number) if number else 1 for number in numbers.groups())
        if (taken := _counted(lines, at + 1, removed, added)) is not None:
            body, end = taken
            # Behind a whole hunk comes no line of one.
            if (
                end >= len(lines)
                or not lines[end].startswith((" ", "+", "-"))
                or _is_header(lines, end)
                or lines[end] == "-- "
            ):
                return _made(shown, body, start + (removed == 0)), end
    else:
        start = 0
    end = at + 1
    while end < len(lines) and not _ends(lines, end):
        end += 1
    body = list(lines[at + 1 : end])
    while body and not body[-1].strip():
        body.pop()
    return _made(shown, body, (start + (not any(line[:1] in (" ", "-", "") for line in body))) or None), end


def _counted(lines: Sequence[str], at: int, removed: int, added: int) -> tuple[list[str], int] | None:
    """Return as many lines as a header announces, and where they end; None where others stand there."""
    body: list[str] = []
    while removed or added or (at < len(lines) and lines[at].startswith("\\")):
        if at == len(lines):
            return None
        line = lines[at]
        mark = line[:1] or " "
        if mark not in " +-\\":
            return None
        removed -= mark in " -"
        added -= mark in " +"
        if removed < 0 or added < 0:
            return None
        body.append(line)
        at += 1
    return body, at


def _ends(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    return (bool(line) and line[0] not in " +-\\") or _is_header(lines, at) or line == "-- "


def _made(shown: str, body: Sequence[str], start: int | None) -> Hunk:
    found: list[tuple[Mark, str]] = []
    old_newline = new_newline = True
    marked = False
    for line in body:
        if line.startswith("\\"):
            marked = True
            last = found[-1][0] if found else " "
            old_newline = old_newline and last == "+"
            new_newline = new_newline and last == "-"
        else:
            mark = line[:1] or " "
            assert mark in " +-"
            found.append((mark, line[1:]))  # type: ignore[arg-type]
    return Hunk(shown, found, start, newline=(old_newline, new_newline) if marked else None, at_end=marked)


def _envelope(lines: Sequence[str]) -> Iterator[_Raw]:
    at = 0
    while at < len(lines) and lines[at].strip() != _END:
        line = lines[at]
        at += 1
        if line.startswith(_ADD):
            end = at
            while end < len(lines) and lines[end].startswith("+"):
                end += 1
            hunk = Hunk(line, [("+", text[1:]) for text in lines[at:end]], 1)
            yield _Raw(new=_plain(line, _ADD), creates=True, hunks=[hunk] if end > at else [])
            at = end
        elif line.startswith(_DELETE):
            yield _Raw(old=_plain(line, _DELETE), removes=True)
        elif line.startswith(_UPDATE):
            raw = _Raw(old=_plain(line, _UPDATE))
            raw.new = raw.old
            if at < len(lines) and lines[at].startswith(_MOVE):
                raw.new, raw.renames = _plain(lines[at], _MOVE), True
                at += 1
            at = _updates(raw, lines, at)
            yield raw
        elif line.strip():
            raise ToolError(
                Code.PATCH_FAILED,
                f"{visible_name(line[:80])!r} is no line of a patch",
                "*** Add File:, *** Update File:, *** Delete File: begin the parts; each line of a change begins with +, - or a space",
            )


def _updates(raw: _Raw, lines: Sequence[str], at: int) -> int:
    anchors: list[str] = []
    body: list[tuple[Mark, str]] = []

    def close(*, at_end: bool = False) -> None:
        if body:
            shown = f"@@ {anchors[-1]}"[:80] if anchors else f"change {len(raw.hunks) + 1}"
            raw.hunks.append(Hunk(shown, list(body), anchors=list(anchors), at_end=at_end))
            anchors.clear()
            body.clear()

    while at < len(lines):
        line = lines[at]
        if line == _END_OF_FILE:
            close(at_end=True)
        elif line.startswith("*** "):
            break
        elif line.startswith("@@"):
            close()
            if anchor := line[2:].removeprefix(" ").rstrip():
                anchors.append(anchor.removesuffix(" @@"))
        elif line[:1] in (" ", "+", "-", ""):
            mark = line[:1] or " "
            body.append((mark, line[1:]))  # type: ignore[arg-type]
        else:
            break
        at += 1
    # An empty line between two parts belongs to neither, and as context it is not missed.
    while body and body[-1] == (" ", ""):
        body.pop()
    close()
    return at


def _plain(line: str, head: str) -> str:
    return line.removeprefix(head).strip()
