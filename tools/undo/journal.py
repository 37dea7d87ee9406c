"""What the calls of a session did to files, kept so that undo can take it back."""

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import RLock

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.writes import atomic
from ...safety.writes.atomic import Written
from ...safety.writes.batch import Change, Changed, change_all
from ...safety.writes.file_version import Data, FileVersion, etag
from ...safety.writes.metadata import Attributes, attributes_of, owner_of
from ...safety.writes.tree_ops import signature
from .changes import Content, Made, Moved, Put, Renewed, Step, permissions

MAX_CALLS = 50
MAX_BYTES = 200 * 2**20
"""Undoable calls, and bytes of their files, that are kept for a session (TOOLS.md §2)."""
MAX_REFUSED = 100
"""Steps that are kept of a change that cannot be undone, for the list; a guess."""


@dataclass
class Entry:
    """One change: what a call did to files.

    steps: what it did, in order. size: bytes kept; counted: those that its history has counted. refused: why it cannot
    be undone. undone: whether it is at this moment. undid: the change that this one took back. number: among the changes
    of its session, counted from 1; 0 until it is kept. at: the monotonic clock at its start.
    """

    tool: str
    steps: list[Step] = field(default_factory=list)
    size: int = 0
    counted: int = 0
    refused: str | None = None
    undone: bool = False
    undid: "Entry | None" = None
    number: int = 0
    at: float = field(default_factory=time.monotonic)

    @property
    def id(self) -> str:
        """Return the id by which a client names the change, such as `c7`; empty until it is kept."""
        return f"c{self.number}" if self.number else ""

    @property
    def undoable(self) -> bool:
        """Return True if there is something that undo can take back."""
        return bool(self.steps) and self.refused is None

    def turn(self, undone: bool) -> None:
        """Note that the change is undone, or no longer; for what it undid itself the opposite holds."""
        self.undone = undone
        if self.undid:
            self.undid.turn(not undone)


class History:
    """The changes of one session, the newest last. May be used from several threads."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.renewed = Renewed()
        self._changes: OrderedDict[str, Entry] = OrderedDict()
        self._total = 0
        self._numbered = 0

    def journal(self, tool: str, limit: int) -> "Journal":
        """Return the journal of one call. limit: bytes that are kept for it."""
        return Journal(self, Entry(tool), min(limit, MAX_BYTES))

    def find(self, name: str) -> Entry | None:
        """Return a change by its id, as long as it is kept."""
        with self.lock:
            return self._changes.get(name)

    def latest(self) -> list[Entry]:
        """Return the changes that are kept, the latest first, also those that cannot be undone."""
        with self.lock:
            return [*reversed(self._changes.values())]

    def in_effect(self) -> list[Entry]:
        """Return the changes that can be undone and are not, the latest first, those by undo left out."""
        return [entry for entry in self.latest() if entry.undoable and not entry.undone and not entry.undid]

    def signed(self, place: JailedPath) -> str:
        """Return the signature of an entry and all below it; files that undo put back count as what they were."""
        with place.parent() as (dir_fd, name):
            return signature(dir_fd, name, self.renewed.state)

    def left(self, place: JailedPath) -> str:
        """Return the signature of an entry that has just come; empty, so that undo refuses, where that fails.

        What is done cannot fail any more.
        """
        try:
            return self.signed(place)
        except (OSError, ToolError):
            return ""

    def keep(self, entry: Entry) -> None:
        """Take a change in as the latest, and let go what is too old or too much."""
        with self.lock:
            if not entry.number:
                self._numbered += 1
                entry.number = self._numbered
            self._changes[entry.id] = entry
            self._changes.move_to_end(entry.id)
            self._total += entry.size - entry.counted
            entry.counted = entry.size
            refused = [each.id for each in self._changes.values() if each.refused]
            if len(refused) > MAX_CALLS:
                del self._changes[refused[0]]
            while self._total > MAX_BYTES or self._is_crowded:
                _, oldest = self._changes.popitem(last=False)
                self._total -= oldest.counted
                # A change that undid it still points here, and must not hold the content.
                oldest.steps = []

    @property
    def _is_crowded(self) -> bool:
        # What is undone comes back only by undoing that, and so takes no place beside it.
        return sum(each.undoable and not each.undone for each in self._changes.values()) > MAX_CALLS


class Journal:
    """Where one call notes what it changes, in the same thread and right after it changed it."""

    def __init__(self, history: History, entry: Entry, limit: int) -> None:
        self.history = history
        self.entry = entry
        self._limit = limit

    @property
    def left(self) -> int:
        """Return the bytes of former content that this call may still keep."""
        return max(0, self._limit - self.entry.size)

    def replace(
        self,
        place: JailedPath,
        data: Data,
        *,
        expect: FileVersion | None = None,
        mode: int | None = None,
        create_parents: bool = False,
        overwrite: bool = True,
        old: tuple[bytes, str] | None = None,
    ) -> Written:
        """Give a file its content as safety.atomic.replace() does, so that undo can take it back.

        old: the former content and its etag, where the caller has them already.
        """
        keep = self.left if old is None else 0
        written = atomic.replace(
            place,
            data,
            expect=expect,
            mode=mode,
            create_parents=create_parents,
            overwrite=overwrite,
            keep=keep,
        )
        before = None
        if written.before is not None and written.old_mode is not None:
            kept, tag = old or (written.old, "" if written.old is None else etag(written.old))
            before = Content(tag, written.old_mode, written.before.size, kept, seen=written.before)
        self.note([*made(written.folders), put(written, before)])
        return written

    def change_all(
        self, changes: Sequence[Change], before: Sequence[Content | None], go_on: Callable[[], object] = lambda: None
    ) -> list[Put]:
        """Change many files as one, as safety.batch.change_all() does, so that undo can take it back.

        before: what each place holds, in the same order; contents without data where that is too much to keep.
        go_on: asked until the first file changes; raises to give up.
        """
        former = {change.place.path: content for change, content in zip(changes, before, strict=True)}
        steps: list[Step] = []
        puts: list[Put] = []
        for changed in change_all(changes, go_on):
            put = Put(changed.change.place, former[changed.change.place.path], content_after(changed))
            steps += [*made(changed.folders), put]
            puts.append(put)
        self.note(steps)
        return puts

    def moved(self, old: JailedPath, new: JailedPath, *, to_trash: bool = False) -> None:
        """Note that an entry, a link itself, moved."""
        self.note([Moved(old, new, self.history.left(new), to_trash=to_trash)])

    def note(self, steps: Iterable[Step]) -> None:
        """Note steps in the order in which they were taken."""
        with self.history.lock:
            for step in steps:
                self.entry.steps.append(step)
                if not isinstance(step, Put) or step.before is None:
                    continue
                if step.before.size > self.left:
                    self.entry.refused = f"what it changed is larger than {self._limit} bytes"
                elif step.before.data is None:
                    self.entry.refused = "what it replaced could not be kept"
                self.entry.size += step.before.size
            if self.entry.refused:
                self._forget_content()
            if self.entry.steps:
                self.history.keep(self.entry)

    def cannot(self, why: str, place: JailedPath) -> None:
        """Note that the call did to a place what undo cannot take back."""
        with self.history.lock:
            self.entry.refused = why
            self.entry.steps.append(Put(place, None, None))
            self._forget_content()
            self.history.keep(self.entry)

    def _forget_content(self) -> None:
        """Keep no more than what the list of changes names."""
        self.entry.steps = [
            replace(step, before=None, after=None) if isinstance(step, Put) else step
            for step in self.entry.steps[:MAX_REFUSED]
        ]
        self.entry.size = 0


def made(folders: Iterable[JailedPath]) -> list[Step]:
    """Return the steps of folders that were made, without those that cannot be looked at: they stay."""
    steps: list[Step] = []
    for folder in folders:
        with suppress(ToolError):
            if status := folder.stat():
                steps.append(Made(folder, permissions(status)))
    return steps


def put(written: Written, before: Content | None = None) -> Put:
    """Return the step of a file that was written. before: what was there, None for nothing."""
    after = Content(written.etag, written.mode, written.after.size, seen=written.after)
    return Put(written.place, before, after)


def content_after(changed: Changed) -> Content | None:
    """Return the content after a change."""
    change = changed.change
    if change.data is None:
        return None
    mode = changed.mode if changed.mode is not None else 0o777
    return Content(etag(change.data), mode, len(change.data), link=change.link, seen=changed.after)


def current(place: JailedPath, limit: int) -> Content | None:
    """Return the content of a place without links on the way; None where nothing is.

    Its data is left out above limit bytes, and for what is neither a file nor a link; then the etag is empty. ToolError
    path_denied, file_changed.
    """
    status = place.stat()
    if status is None:
        return None
    if stat.S_ISLNK(status.st_mode):
        with place.parent() as (dir_fd, name):
            try:
                target = os.fsencode(os.readlink(name, dir_fd=dir_fd))
            except OSError:
                raise ToolError(Code.FILE_CHANGED, f"{place.shown} has just changed", "try again") from None
        return Content(
            etag(target), 0o777, len(target), target, link=True, seen=FileVersion.of(status), owner=owner_of(status)
        )
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        return Content("", permissions(status), status.st_size, seen=FileVersion.of(status))
    data, seen = atomic.read_whole(place, limit)
    return Content(
        etag(data),
        permissions(status),
        len(data),
        data,
        seen=seen,
        owner=owner_of(status),
        attributes=_attributes(place),
    )


def identified(place: JailedPath) -> Content | None:
    """Return the same as current(), without the data of a file, whatever its size. ToolError as there, not_a_file."""
    content = current(place, 0)
    if content is None or content.etag:
        return content
    tag, seen = atomic.digested(place)
    return replace(content, etag=tag, size=seen.size, seen=seen)


def _attributes(place: JailedPath) -> Attributes:
    fd = place.open_file()
    try:
        return attributes_of(fd)
    finally:
        os.close(fd)
