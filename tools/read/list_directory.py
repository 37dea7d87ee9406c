"""list_directory."""

import os
import time
from collections.abc import Callable, Sequence
from itertools import compress, islice
from operator import attrgetter
from typing import Annotated

from pydantic import Field

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.safety.ignore import MAX_ENTRIES, MAX_SECONDS, Entry, Kind, Walk
from toolbox_mcp.safety.paths import ProjectPath
from toolbox_mcp.safety.refusals import refusal
from toolbox_mcp.safety.roots import Place
from toolbox_mcp.safety.sizes import MOST, Sizes
from toolbox_mcp.safety.text import visible_name
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.read.globbing import compiled
from toolbox_mcp.tools.read.scope import WALK_DEADLINE
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.services import Settings
from toolbox_mcp.tools.threads import Stop, reading

MAX_ROWS = 1000

_AT_ONCE = 100  # entries that are read between looks at the clock

_BY_NAME = attrgetter("name")

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
    pattern: Annotated[str | None, Field(description="glob on the name")] = None,
) -> Text:
    """List a folder: TYPE, SIZE and NAME of each entry."""
    wanted = compiled(pattern, hidden=True).match if pattern is not None else None
    if pattern is not None and "/" in pattern:
        raise ToolError(Code.BAD_PATTERN, "pattern goes by the name alone", "glob matches whole paths")

    def listed(stop: Stop) -> str:
        if recursive:
            rows, cut = _below(path, settings, include_hidden, wanted, stop)
        else:
            rows, cut = _inside(path, include_hidden, wanted, stop)
        if len(rows) > MAX_ROWS:
            rows[MAX_ROWS:] = [f"... (first {MAX_ROWS} entries shown)"]
        elif cut:
            rows.append(f"... (stopped after {cut})")
        return "\n".join(rows) or "(empty directory)"

    return Text(await reading(listed), "narrow the path or give a pattern")


def _below(place: Place, settings: Settings, hidden: bool, wanted: Wanted, stop: Stop) -> tuple[list[str], str | None]:
    """Return the rows of all below a folder, at most one too many, and why there are no more."""
    walk = Walk(
        place,
        ignored_dirs=settings.ignored_dirs,
        gitignore=settings.respect_gitignore,
        hidden=hidden,
        sizes=True,
        show_ignored=True,
        stop=stop,
    )
    found = (entry for entry in walk if wanted is None or wanted(entry.name))
    return [_row(entry) for entry in islice(found, MAX_ROWS + 1)], walk.cut


def _row(entry: Entry) -> str:
    size = "-" if entry.size is None else entry.size
    return f"{entry.kind}\t{size}\t{visible_name(entry.path)}"


def _inside(place: Place, hidden: bool, wanted: Wanted, stop: Stop) -> tuple[list[str], str | None]:
    """Return the rows of what one folder holds, as _below() does.

    A Walk, which could do this, keeps several values of each entry, a quarter of the time; here it becomes a row at once.
    """
    end = time.monotonic() + MAX_SECONDS

    def late() -> str | None:
        if time.monotonic() > end:
            return f"{MAX_SECONDS:g} s"
        return "cancelled" if stop() else None

    rows: list[str] = []
    fd = place.target().open_folder()
    try:
        found, cut = _entries(fd, hidden, wanted, late)
        found.sort(key=_BY_NAME)
        sizes = Sizes(min(len(found), MAX_ROWS))
        for at in range(0, min(len(found), MAX_ROWS + 1), MOST):
            rows += _rows(fd, found[at : min(at + MOST, MAX_ROWS + 1)], sizes)
            if why := late():
                return rows, why
    except OSError as e:
        raise refusal(e, place.shown) from None
    finally:
        os.close(fd)
    return rows, cut


def _rows(fd: int, entries: Sequence[os.DirEntry[str]], sizes: Sizes) -> list[str]:
    """Return a row for each of some entries of an open folder. One that is gone, or something else by now, has no size."""
    # Nearly all the time of a listing passes here, so nothing is called for each entry that can be done without.
    names = [entry.name for entry in entries]
    try:
        files = [entry.is_file(follow_symlinks=False) for entry in entries]
    except OSError:
        files = [_kind(entry) == "file" for entry in entries]
    found = ["-" if size is None else size for size in sizes(fd, [*compress(names, files)])]
    if not "".join(names).isprintable():
        names = [visible_name(name) for name in names]
    left = iter(found)
    return [
        f"file\t{next(left)}\t{name}" if is_file else f"{_kind(entry)}\t-\t{name}"
        for is_file, entry, name in zip(files, entries, names, strict=True)
    ]


def _kind(entry: os.DirEntry[str]) -> Kind:
    """Tell what the folder says that an entry is."""
    try:
        if entry.is_dir(follow_symlinks=False):
            return "dir"
        if entry.is_file(follow_symlinks=False):
            return "file"
        return "symlink" if entry.is_symlink() else "other"
    except OSError:
        return "other"


def _entries(fd: int, hidden: bool, wanted: Wanted, late: Late) -> tuple[list[os.DirEntry[str]], str | None]:
    """Return the entries of an open folder that are listed, and why not all are among them."""
    found: list[os.DirEntry[str]] = []
    with os.scandir(fd) as scan:
        entries = iter(scan)
        for _ in range(0, MAX_ENTRIES, _AT_ONCE):
            some = list(islice(entries, _AT_ONCE))
            if not some:
                return found, None
            if not hidden:
                some = [entry for entry in some if entry.name[0] != "."]
            if wanted is not None:
                some = [entry for entry in some if wanted(entry.name)]
            found += some
            if why := late():
                return found, why
        return found, f"{MAX_ENTRIES} entries" if next(entries, None) else None
