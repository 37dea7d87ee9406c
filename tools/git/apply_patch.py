"""apply_patch."""

import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.patches import FilePatch, Patch
from ...safety.path_jail.roots import JailedPath
from ...safety.text import HEAD, is_binary
from ...safety.writes.batch import Change
from ..base import Access, tool
from ..blocking import check_cancelled, run_write
from ..results import Text
from ..services import Journal, Seen
from ..undo.changes import Content, Put
from ..undo.journal import current
from ._apply import Rejected, apply, holds

MAX_BYTES = 10 * 2**20
"""Size of a file that is patched (TOOLS.md §1.6)."""
MAX_HELD = 128 * 2**20
"""Bytes of files that are held before the first is written; a guess at what a server can spare."""


@tool(Access.WRITE, deadline=lambda settings, given: 60)
async def apply_patch(
    seen: Seen,
    journal: Journal,
    patch: Annotated[Patch, Field(description="unified diff, or *** Begin Patch")],
    check: Annotated[bool, Field(description="only tell whether it applies")] = False,
) -> Text:
    """Apply a patch to files, all of it or nothing. Paths are relative to the base folder; no repository is needed."""
    made: list[Made] = []

    def work(go_on: Callable[[], object]) -> Sequence[Put]:
        tree = Tree(go_on)
        for each in patch:
            made.append(tree.apply(each))
        if check or all(one.applied for one in made):
            return ()
        return tree.write(journal)

    for put in await run_write(lambda cancelled: work(partial(check_cancelled, cancelled))):
        if put.before and put.after:
            seen.changed(str(put.place.path), put.before.etag, put.after.etag)
    return Text(told(made, check=check))


def told(made: Sequence["Made"], *, check: bool) -> str:
    """Return the answer. ToolError patch_failed where only a part is applied already."""
    if all(one.applied for one in made):
        return f"Already applied: {len(made)} file(s)\n" + "\n".join(f"= {one.name}" for one in made)
    head = "Applies cleanly:" if check else "Applied to"
    counts = f"(+{sum(one.added for one in made)} -{sum(one.removed for one in made)})"
    return "\n".join([f"{head} {len(made)} file(s) {counts}", *(f"{one.kind} {one.name}" for one in made)])


@dataclass(frozen=True)
class Made:
    """What a patch does to one file. applied: it is so already."""

    kind: str
    name: str
    added: int = 0
    removed: int = 0
    applied: bool = False


@dataclass
class _File:
    """A place as it was, and as the patch has it so far."""

    place: JailedPath
    before: Content | None
    data: bytes | None
    executable: bool | None = None


class Tree:
    """The files that a patch is about, changed in memory."""

    def __init__(self, go_on: Callable[[], object]) -> None:
        """go_on: asked before each hunk; raises to give up."""
        self._go_on = go_on
        self._files: dict[str, _File] = {}
        self._held = 0
        self._first: bool | None = None

    def apply(self, patch: FilePatch) -> Made:
        """Change one file. ToolError patch_failed, refused, is_a_directory, binary_file, too_large."""
        name = patch.place.shown
        if patch.old and patch.new and patch.old != patch.new:
            name = f"{patch.old.shown} -> {patch.new.shown}"
        try:
            made = self._changed(patch, name)
        except Rejected as rejected:
            count = len(patch.hunks)
            if not rejected.applied:
                raise _failed(
                    f"{name}: hunk {rejected.number} of {count} ({patch.hunks[rejected.number - 1].shown}) does not fit: {rejected.why}"
                ) from None
            made = Made("=", name, applied=True)
        if self._first is None:
            self._first = made.applied
        elif self._first != made.applied:
            raise _failed(
                f"{name}: a part of the patch is applied already, and another is not", "take out what is applied"
            )
        return made

    def write(self, journal: Journal) -> Sequence[Put]:
        """Write all of it. ToolError file_changed and what a write is refused by."""
        changes, before = [], []
        for file in self._files.values():
            old, mode = file.before, None
            if file.executable is not None:
                mode = _mode(0o666 if old is None else old.mode, file.executable) if old or file.executable else None
            same_mode = mode is None or (old is not None and old.mode == mode)
            if (old.data if old else None) == file.data and same_mode:
                continue
            changes.append(
                Change(file.place, file.data, old.seen if old else None, mode=mode if file.data is not None else None)
            )
            before.append(old)
        if not changes:
            raise ToolError(Code.NO_CHANGE, "the patch changes nothing")
        return journal.change_all(changes, before, self._go_on)

    def _changed(self, patch: FilePatch, name: str) -> Made:
        old = self._file(patch.old) if patch.old else None
        new = old if patch.new and patch.old == patch.new else self._file(patch.new) if patch.new else None
        if old is None:
            assert new
            if new.data is not None:
                if holds(new.data, patch):
                    return Made("=", name, applied=True)
                raise _failed(f"{name} is there already", "read it, and change it by a patch with context")
            made = apply(b"", patch, self._go_on)
            new.data, new.executable = made.data, patch.executable
            return Made("A", name, made.added)
        if new is None:
            if old.data is None:
                return Made("=", name, applied=True)
            return self._removed(old, patch, name)
        if old.data is None:
            if new is not old and new.data is not None and self._is_moved(new.data, patch):
                return Made("=", name, applied=True)
            raise _failed(f"there is no file {old.place.shown}", old.place.similar())
        if new is not old and new.data is not None:
            raise _failed(f"{new.place.shown} is there already", "delete_file or move_file makes room")
        made = apply(old.data, patch, self._go_on)
        new.data = made.data
        new.executable = patch.executable
        if new is not old:
            if new.executable is None and old.before is not None:
                new.executable = bool(old.before.mode & 0o100) or None
            if not patch.copied:
                old.data = None
            return Made("A" if patch.copied else "R", name, made.added, made.removed)
        return Made("M", name, made.added, made.removed)

    def _removed(self, old: _File, patch: FilePatch, name: str) -> Made:
        assert old.data is not None
        removed = old.data.count(b"\n") + (not old.data.endswith(b"\n") and bool(old.data))
        if patch.hunks:
            made = apply(old.data, patch, self._go_on)
            if made.data:
                raise _failed(f"{name}: the file holds more than the patch removes", "read it again")
            removed = made.removed
        old.data = None
        return Made("D", name, 0, removed)

    def _is_moved(self, data: bytes, patch: FilePatch) -> bool:
        if not patch.hunks:
            return True
        try:
            apply(data, patch, self._go_on)
        except Rejected as rejected:
            return rejected.applied
        return False

    def _file(self, entry: JailedPath) -> _File:
        """Return a file as the patch has it so far, read the first time."""
        at = entry.target()
        if found := self._files.get(at.absolute):
            return found
        status = at.stat()
        before = None
        if status is not None:
            if stat.S_ISLNK(status.st_mode):
                raise ToolError(Code.REFUSED, f"{entry.shown} is a link", "name the file that it leads to")
            if stat.S_ISDIR(status.st_mode):
                raise ToolError(Code.IS_A_DIRECTORY, f"{entry.shown} is a folder")
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(Code.NOT_A_FILE, f"{entry.shown} is not a regular file")
            before = current(at, MAX_BYTES)
            if before is None or before.data is None:
                raise ToolError(Code.TOO_LARGE, f"{entry.shown} is larger than {MAX_BYTES} bytes")
            if is_binary(before.data[:HEAD]):
                raise ToolError(Code.BINARY_FILE, f"{entry.shown} is not a text file")
            self._held += before.size
            if self._held > MAX_HELD:
                raise ToolError(
                    Code.TOO_LARGE, f"the files come to more than {MAX_HELD} bytes", "apply one part after the other"
                )
        file = self._files[at.absolute] = _File(at, before, before.data if before else None)
        return file


def _mode(old: int, executable: bool) -> int:
    """Return permission bits with execution for whoever may read, or for nobody."""
    return old | (old & 0o444) >> 2 if executable else old & ~0o111


def _failed(error: str, hint: str | None = None) -> ToolError:
    return ToolError(
        Code.PATCH_FAILED,
        f"{error[:1800]}",
        hint or "nothing was changed; read the lines again and make the patch from them",
    )
