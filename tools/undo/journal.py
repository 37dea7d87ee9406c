"""What the calls of a session did to files, kept so that undo can take it back."""

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from threading import RLock

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.writes import atomic
from ...safety.writes.atomic import Written
from ...safety.writes.batch import Change, Changed, change_all
from ...safety.writes.file_version import FileVersion, etag
from ...safety.writes.metadata import Attributes, attributes_of, owner_of
from ...safety.writes.tree_ops import signature
from .changes import Content, Made, Moved, Put, Renewed, Step, permissions

MAX_CALLS = 50
MAX_BYTES = 200 * 2**20
"""Undoable calls, and bytes of their files, that are kept for a session (TOOLS.md §2)."""
REMEMBERED = 1000
"""Other calls whose ids are kept, so that undo can say why it does not take them back; a guess."""

_undone = attrgetter("undone")


@dataclass
class Entry:
    """One call. steps: what it did, in order. size: bytes kept; counted: those that its history has counted.

    refused: why it cannot be undone. undone: whether it is at this moment. undid: the call that this one took back.
    number: of the changes of its session that can be undone, counted from 1. at: the monotonic clock at its start.
    """

    call_id: str
    tool: str
    steps: list[Step] = field(default_factory=list)
    size: int = 0
    counted: int = 0
    refused: str | None = None
    undone: bool = False
    undid: "Entry | None" = None
    number: int | None = None
    at: float = field(default_factory=time.monotonic)

    @property
    def id(self) -> str:
        """Return the id by which a client names the change, such as `c7`; empty for one that never could be undone."""
        return f"c{self.number}" if self.number else ""

    @property
    def undoable(self) -> bool:
        """Return True if there is something that undo can take back."""
        return bool(self.steps) and self.refused is None

    def turn(self, undone: bool) -> None:
        """Note that the call is undone, or no longer; for what it undid itself the opposite holds."""
        self.undone = undone
        if self.undid:
            self.undid.turn(not undone)


class History:
    """The calls of one session, the newest last. May be used from several threads."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.renewed = Renewed()
        self._undoable: OrderedDict[str, Entry] = OrderedDict()
        self._others: OrderedDict[str, Entry] = OrderedDict()
        self._total = 0
        self._numbered = 0

    def began(self, call_id: str, tool: str, *, journals: bool) -> None:
        """Note a call that may change files. journals: it says what it changes."""
        why = None if journals else f"{tool} keeps nothing by which it could be undone"
        with self.lock:
            self._others[call_id] = Entry(call_id, tool, refused=why)
            while len(self._others) > REMEMBERED:
                self._others.popitem(last=False)

    def journal(self, call_id: str, tool: str, limit: int) -> "Journal":
        """Return the journal of one call. limit: bytes that are kept for it."""
        return Journal(self, Entry(call_id, tool), min(limit, MAX_BYTES))

    def find(self, name: str) -> Entry | None:
        """Return a change by its id (c7) or by the id of its call, as long as it is kept."""
        with self.lock:
            calls = self._undoable | self._others
            return calls.get(name) or next((entry for entry in calls.values() if entry.id == name), None)

    def latest_changes(self, count: int) -> list[Entry]:
        """Return the latest changes that are kept, the newest first, also those that cannot be undone."""
        with self.lock:
            kept = [entry for entry in (self._undoable | self._others).values() if entry.number or entry.refused]
        return sorted(kept, key=attrgetter("at"), reverse=True)[:count]

    def latest(self) -> Entry | None:
        """Return the latest call that is undoable and not undone, calls of undo left out."""
        with self.lock:
            found = (entry for entry in reversed(self._undoable.values()) if not entry.undone and not entry.undid)
            return next(found, None)

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
        """Take a call in as the latest, and let go what is too old or too much."""
        with self.lock:
            self._others.pop(entry.call_id, None)
            if self._undoable.pop(entry.call_id, None):
                self._total -= entry.counted
            if not entry.undoable:
                self._others[entry.call_id] = entry
                return
            self._undoable[entry.call_id] = entry
            if entry.number is None:
                self._numbered += 1
                entry.number = self._numbered
            entry.counted = entry.size
            self._total += entry.counted
            while self._total > MAX_BYTES or self._is_crowded:
                _, oldest = self._undoable.popitem(last=False)
                self._total -= oldest.counted
                # A call that undid it still points here, and must not hold the content.
                oldest.steps = []

    @property
    def _is_crowded(self) -> bool:
        over = len(self._undoable) - MAX_CALLS
        # What is undone comes back only by undoing that, and so takes no place beside it.
        return over > 0 and over > sum(map(_undone, self._undoable.values()))


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
        data: bytes,
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
            if self.entry.steps or self.entry.refused:
                self.history.keep(self.entry)

    def cannot(self, why: str) -> None:
        """Note that the call did what undo cannot take back."""
        with self.history.lock:
            self.entry.refused = why
            self._forget_content()
            self.history.keep(self.entry)

    def _forget_content(self) -> None:
        self.entry.steps = []
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
