"""list_directory."""

import os
import stat
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Final

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.os_errors import refusal
from ...safety.path_jail.roots import JailedPath
from ...safety.path_jail.statuses import MOST, Lookup
from ...safety.path_jail.tree_walk import MAX_ENTRIES, MAX_SECONDS, Entry, Kind, Walk
from ...safety.paths import ProjectPath
from ...safety.text import visible_name
from ..base import Access, tool
from ..blocking import IsCancelled, run_read
from ..results import Text
from ..search.globs import compiled
from ..search.scope import WALK_DEADLINE
from ..services import Settings

MAX_ROWS = 1000

_ENOUGH = f"first {MAX_ROWS} entries shown"

_AT_ONCE = 100  # entries that are read between looks at the clock

_KINDS: Final[dict[int, Kind]] = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink"}

Wanted = Callable[[str], object] | None
"""Tells by its name whether an entry is listed; None for all."""

Late = Callable[[], str | None]
"""Says why the work has to end at this moment, if it has to."""


@tool(Access.READ, deadline=lambda settings, given: WALK_DEADLINE)
async def list_directory(
    settings: Settings,
    path: ProjectPath = ".",  # type: ignore[assignment]
    recursive: bool = False,
    include_hidden: bool = False,
    pattern: Annotated[str | None, Field(description="name glob")] = None,
    sizes: bool = True,
) -> Text:
    """List a folder: rows of TYPE, SIZE, NAME."""
    wanted = compiled(pattern, hidden=True).match if pattern is not None else None
    if pattern is not None and "/" in pattern:
        raise ToolError(Code.BAD_PATTERN, "pattern goes by the name alone", "glob matches whole paths")

    def listed(stop: IsCancelled) -> str:
        if recursive:
            rows, cut = _below(path, settings, include_hidden, wanted, sizes, stop)
        else:
            rows, cut = _inside(path, include_hidden, wanted, sizes, stop)
        if cut:
            return f"{rows}\n... ({cut})" if rows else f"... ({cut})"
        return rows or "(empty directory)"

    return Text(await run_read(listed), "narrow the path or give a pattern")


def _below(
    place: JailedPath, settings: Settings, hidden: bool, wanted: Wanted, sizes: bool, stop: IsCancelled
) -> tuple[str, str | None]:
    """Return the rows of all below a folder, and why there are no more."""
    walk = Walk(
        place,
        ignored_dirs=settings.ignored_dirs,
        hidden=hidden,
        sizes=sizes,
        show_ignored=True,
        stop=stop,
    )
    found = (entry for entry in walk if wanted is None or wanted(entry.name))
    row = _row if sizes else _unsized_row
    rows = "\n".join([row(entry) for entry in islice(found, MAX_ROWS)])
    if next(found, None):
        return rows, _ENOUGH
    return rows, walk.cut and f"stopped after {walk.cut}"


def _row(entry: Entry) -> str:
    size = "-" if entry.size is None else entry.size
    return f"{entry.kind}\t{size}\t{visible_name(entry.path)}"


def _unsized_row(entry: Entry) -> str:
    return f"{entry.kind}\t{visible_name(entry.path)}"


def _inside(place: JailedPath, hidden: bool, wanted: Wanted, sizes: bool, stop: IsCancelled) -> tuple[str, str | None]:
    """Return the rows of what one folder holds, as _below() does.

    A Walk, which could do this, keeps several values of each entry, a quarter of the time; here it becomes a row at once.
    """
    end = time.monotonic() + MAX_SECONDS

    def late() -> str | None:
        if time.monotonic() > end:
            return f"stopped after {MAX_SECONDS:g} s"
        return "cancelled" if stop() else None

    fd = place.open_folder()
    try:
        others: dict[str, Kind] | None = None if sizes else {}
        names, cut = _names(fd, wanted, late, others)
        names.sort()
        if not hidden:
            # In this order those that begin with a dot stand together.
            del names[bisect_left(names, ".") : bisect_left(names, "/")]
        if len(names) > MAX_ROWS:
            del names[MAX_ROWS:]
            cut = _ENOUGH
        if others is not None:
            return _unsized_rows(names, others), cut
        rows, why = _sized_rows(fd, names, late)
        return rows, why or cut
    except OSError as e:
        raise refusal(e, place.shown) from None
    finally:
        os.close(fd)


def _shown(names: Sequence[str]) -> Sequence[str]:
    joined = "".join(names)
    return names if joined.isascii() and joined.isprintable() else [visible_name(name) for name in names]


def _unsized_rows(names: Sequence[str], others: Mapping[str, Kind]) -> str:
    """Return a row for each entry. others: what those are that are no files."""
    shown = _shown(names)
    if names and not others:
        return "file\t" + "\nfile\t".join(shown)
    return "\n".join([f"{others.get(name, 'file')}\t{text}" for name, text in zip(names, shown, strict=True)])


def _sized_rows(fd: int, names: Sequence[str], late: Late) -> tuple[str, str | None]:
    """Return a row for each entry of an open folder, none for one that is gone by now; and why there are no more."""
    look = Lookup(len(names))
    modes: list[int] = []
    sizes: list[int] = []
    for at in range(0, len(names), MOST):
        some = look(fd, names[at : at + MOST])
        modes += some[0]
        sizes += some[1]
        if why := late():
            return "\n".join(_rows(fd, names[: len(modes)], modes, sizes)), why
    return "\n".join(_rows(fd, names, modes, sizes)), None


def _rows(fd: int, names: Sequence[str], modes: Sequence[int], sizes: Sequence[int]) -> list[str]:
    """Return the rows of entries whose mode and size are known; mode 0 for what could not be looked at."""
    # Nearly all the time of a listing passes here and before, so nothing is called for each entry that can be done without.
    shown = _shown(names)
    kinds = {mode: _KINDS.get(stat.S_IFMT(mode), "other") for mode in {*modes}}
    if {*kinds.values()} == {"file"}:
        return [f"file\t{size}\t{name}" for size, name in zip(sizes, shown, strict=True)]
    # What the folder tells without looking is enough where a look is not allowed.
    told = _told(fd) if 0 in kinds else {}
    return [
        f"{kinds[mode]}\t{size if kinds[mode] == 'file' else '-'}\t{text}" if mode else f"{told[name]}\t-\t{text}"
        for name, text, mode, size in zip(names, shown, modes, sizes, strict=True)
        if mode or name in told
    ]


def _told(fd: int) -> dict[str, Kind]:
    """Return the kinds of the entries of an open folder."""
    with os.scandir(fd) as entries:
        return {entry.name: _kind(entry) for entry in islice(entries, MAX_ENTRIES)}


def _not_files(entries: Sequence[os.DirEntry[str]]) -> dict[str, Kind]:
    """Return the kinds of those entries that are no files, by name."""
    others = entries
    with suppress(OSError):
        # Nearly all are, and one call for each of them is enough.
        others = [entry for entry in entries if not entry.is_file(follow_symlinks=False)]
    return {entry.name: kind for entry in others if (kind := _kind(entry)) != "file"}


def _kind(entry: os.DirEntry[str]) -> Kind:
    """Tell what the folder says that an entry is."""
    try:
        if entry.is_file(follow_symlinks=False):
            return "file"
        if entry.is_dir(follow_symlinks=False):
            return "dir"
        return "symlink" if entry.is_symlink() else "other"
    except OSError:
        return "other"


def _names(fd: int, wanted: Wanted, late: Late, others: dict[str, Kind] | None) -> tuple[list[str], str | None]:
    """Return the names in an open folder that are listed, and why not all are among them.

    others: gets what those of them are that are no files, where that is asked for.
    """
    found: list[str] = []
    with os.scandir(fd) as scan:
        entries = iter(scan)
        for _ in range(0, MAX_ENTRIES, _AT_ONCE):
            some = [*islice(entries, _AT_ONCE)]
            if not some:
                return found, None
            if wanted is not None:
                some = [entry for entry in some if wanted(entry.name)]
            found += [entry.name for entry in some]
            if others is not None:
                others |= _not_files(some)
            if why := late():
                return found, why
        return found, f"stopped after {MAX_ENTRIES} entries" if next(entries, None) else None
