"""Outlines of all files below a folder: parsed by the worker in batches, remembered by time and size."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TypeVar

from ...safety.errors import ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.path_jail.tree_walk import Walk
from ...safety.text import visible_name
from ...safety.writes.atomic import read_whole
from ...sandbox.isolate.worker import Worker, WorkerFailure
from ..blocking import IsCancelled, run_read
from ..progress import Progress
from ..search import left_out
from ..settings import ToolSettings
from ._file import MAX_BYTES, SECONDS, head_of
from ._languages import language_of, language_of_head
from ._parse import MAX_SECONDS, Parsed, parsed

BATCH = 2 * 2**20
"""Bytes of files that go to a worker at a time: half a second of work, so that other calls get their turn."""
BATCH_SECONDS = 5.0
"""Seconds for a batch, ten times what it takes. Of one that takes longer each file is tried by itself."""
BATCH_FILES = 400
LANES = 2
"""Batches that are on their way at a time; the worker has as many processes."""
TREE_SECONDS = 60.0
"""Seconds after which no further batch is parsed: those of a walk (TOOLS.md §1.5)."""
CACHED_BYTES = 96 * 2**20
"""Bytes of outlines that are remembered; a guess: a tree of 80 MB of code has some 20."""

MAPS = 8
"""Maps that are remembered: of the whole, and of some parts."""

T = TypeVar("T")
_NOTHING: Parsed = ("", -1, b"", b"")
Version = tuple[int, int, int]
"""What tells one state of a file from another: its time in ns, its size, its inode."""


@dataclass(frozen=True)
class Source:
    """A file below a folder, relative to it, with its language and state."""

    path: str
    language: str
    version: Version


@dataclass(frozen=True)
class Tree:
    """The files below a folder with what each defines and mentions. notes: what of it is missing, and why."""

    prefix: str
    files: Sequence[tuple[Source, Parsed]]
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> object:
        """Return the fingerprint of a tree: its files and their states."""
        return self.prefix, self.notes, tuple(source for source, _ in self.files)

    def shown(self, source: Source) -> str:
        """Return the name of a file in results."""
        return self.prefix + visible_name(source.path)


@dataclass
class Outlines:
    """Remembers what files define, by their state; the least used goes first. May be used from several threads."""

    _kept: OrderedDict[tuple[str, str], tuple[Version, Parsed]] = field(default_factory=OrderedDict)
    _maps: OrderedDict[tuple[str, str | None], tuple[object, object]] = field(default_factory=OrderedDict)
    _size: int = 0
    _lock: Lock = field(default_factory=Lock)

    def get(self, root: str, source: Source) -> Parsed | None:
        """Return the facts known of a file in this state."""
        with self._lock:
            found = self._kept.get((root, source.path))
            if found is None or found[0] != source.version:
                return None
            self._kept.move_to_end((root, source.path))
            return found[1]

    def keep(self, root: str, source: Source, outline: Parsed) -> None:
        """Remember what a file in this state defines."""
        with self._lock:
            key = (root, source.path)
            if key in self._kept:
                self._size -= _weight(self._kept.pop(key)[1])
            self._kept[key] = (source.version, outline)
            self._size += _weight(outline)
            while self._size > CACHED_BYTES:
                self._size -= _weight(self._kept.popitem(last=False)[1][1])

    def made_of(self, tree: Tree, folder: str, kind: str | None, make: Callable[[], T]) -> T:
        """Return the cached value of this kind for a tree in the same state, or make it."""
        state = tree.state
        with self._lock:
            known = self._maps.get((folder, kind))
        if known and known[0] == state:
            return known[1]  # type: ignore[return-value]
        made = make()
        if made is None:
            return made
        with self._lock:
            self._maps[folder, kind] = (state, made)
            while len(self._maps) > MAPS:
                self._maps.popitem(last=False)
        return made


def _weight(outline: Parsed) -> int:
    return 500 + len(outline[0]) + len(outline[2]) + len(outline[3])


async def tree(
    folder: JailedPath,
    settings: ToolSettings,
    include_ignored: bool,
    parser: Worker,
    outlines: Outlines,
    progress: Progress,
) -> Tree:
    """Return the definitions of the files below a folder, as far as the time allows. ToolError not_a_directory, path_denied."""
    deadline = time.monotonic() + TREE_SECONDS
    walk = Walk(
        folder,
        ignored_dirs=() if include_ignored else settings.ignored_dirs,
        gitignore=settings.respect_gitignore and not include_ignored,
    )
    (sources, large), root = await run_read(partial(_sources, walk)), folder.target().absolute
    found: dict[str, Parsed] = {}
    missing: list[Source] = []
    for source in sources:
        known = outlines.get(root, source)
        if known is None:
            missing.append(source)
        else:
            found[source.path] = known
    batches = _batches(missing)
    done = len(found)
    unread: list[str] = []

    async def lane() -> None:
        nonlocal done
        for batch in batches:
            if time.monotonic() > deadline:
                return
            contents, refused = await run_read(partial(_read, walk.top, batch))
            unread.extend(refused)
            for source, outline in await _outlined(parser, contents):
                found[source.path] = outline
                outlines.keep(root, source, outline)
            done += len(batch)
            await progress(done, len(sources), f"{done} files")

    async with asyncio.TaskGroup() as group:
        for _ in range(LANES):
            group.create_task(lane())
    notes = left_out.notes(walk)
    if left := len(sources) - len(found) - len(unread):
        notes.append(f"... ({left} of {len(sources)} files are left out: {TREE_SECONDS:g} s are over)")
    slow = [source.path for source in sources if found.get(source.path, ("", 0))[1] == -1]
    notes += left_out.note(left_out.UNREADABLE, unread)
    notes += left_out.note(f"above {MAX_BYTES >> 20} MiB", large)
    notes += left_out.note("too much to parse", slow)
    shown = walk.top.shown
    prefix = "" if shown == "." else shown.rstrip("/") + "/"
    return Tree(prefix, [(source, found[source.path]) for source in sources if source.path in found], tuple(notes))


def _sources(walk: Walk, stop: IsCancelled) -> tuple[list[Source], list[str]]:
    """Return the files below a folder whose language is known, and the paths of those that are too large."""
    out: list[Source] = []
    large: list[str] = []
    for entry in walk:
        if entry.kind != "file":
            continue
        language = language_of(entry.name)
        if language is None and "." not in entry.name:
            language = language_of_head(head_of(walk.at(entry)))
        if language is None:
            continue
        if stop():
            break
        try:
            status = walk.at(entry).stat()
        except ToolError:
            continue
        if status is not None and status.st_size > MAX_BYTES:
            large.append(entry.path)
        elif status is not None:
            out.append(Source(entry.path, language, (status.st_mtime_ns, status.st_size, status.st_ino)))
    return out, large


def _batches(sources: Sequence[Source]) -> Iterator[list[Source]]:
    batch: list[Source] = []
    size = 0
    for source in sources:
        batch.append(source)
        size += source.version[1]
        if size >= BATCH or len(batch) >= BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read(top: JailedPath, batch: Sequence[Source], stop: IsCancelled) -> tuple[list[tuple[Source, bytes]], list[str]]:
    """Return the content of some files, and the paths of those that could not be read."""
    out: list[tuple[Source, bytes]] = []
    unread: list[str] = []
    for source in batch:
        place = top
        for name in source.path.split("/"):
            place = place.child(name)
        try:
            out.append((source, read_whole(place, MAX_BYTES)[0]))
        except ToolError:
            unread.append(source.path)
        if stop():
            break
    return out, unread


async def _outlined(parser: Worker, contents: list[tuple[Source, bytes]]) -> list[tuple[Source, Parsed]]:
    """Return the definitions of some files. Where the worker dies of them, each is tried by itself."""
    files = [(source.language, data) for source, data in contents]
    try:
        outlines = await parser.call(parsed, files, True, deadline=BATCH_SECONDS)
    except WorkerFailure:
        outlines = [await _alone(parser, file) for file in files] if len(files) > 1 else [_NOTHING]
    return [(source, outline) for (source, _), outline in zip(contents, outlines, strict=True)]


async def _alone(parser: Worker, file: tuple[str, bytes]) -> Parsed:
    try:
        return (await parser.call(parsed, [file], True, MAX_SECONDS, deadline=SECONDS))[0]
    except WorkerFailure:
        return _NOTHING
