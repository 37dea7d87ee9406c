"""What lies near a pattern that matches nothing."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches

from ...safety.path_jail.roots import JailedPath
from ...safety.path_jail.tree_walk import Walk
from ...safety.text import visible_name
from ..blocking import IsCancelled
from ..search.globs import compiled, expanded
from ..search.scope import is_hidden
from ..settings import ToolSettings

MAX_ENTRIES = 20_000
MAX_SECONDS = 1.0
"""What a look around may cost; both are guesses at what an answer that found nothing may add."""
MAX_NAMED = 3
_ALTERNATIVES = 8
"""Alternatives of braces for which something near is looked for."""
_ALIKE = 0.7
"""Above this, names count as alike: `yml` and `yaml`, `ts` and `tsx`, but not `js` and `json`."""
_NAME_LENGTH = 64
"""Characters of a name that is compared, since the time grows with the product of two lengths."""

_EXTENSION = re.compile(r"(?s)(.+)\.([\w+-]+)")
_WILD = re.compile(r"[*?\[\]\\]")


def near(
    base: JailedPath,
    pattern: str,
    settings: ToolSettings,
    stop: IsCancelled,
    *,
    include_hidden: bool,
    include_ignored: bool,
) -> str:
    """Return what to add to `no matches for PATTERN`, which no visible file matches: what other arguments would find.

    A count that stopped early has a `+`.
    """

    def look(*, ignored: bool, enters: Callable[[str], bool] | None = None) -> tuple[list[str], str]:
        walk = Walk(
            base,
            ignored_dirs=() if ignored else settings.ignored_dirs,
            gitignore=settings.respect_gitignore and not ignored,
            max_entries=MAX_ENTRIES,
            max_seconds=MAX_SECONDS,
            enters=enters,
            stop=stop,
        )
        return [entry.path for entry in walk if entry.kind == "file"], "+" if walk.cut else ""

    meant = compiled(pattern, hidden=True)
    paths, more = look(ignored=include_ignored)
    exact = []
    if not include_hidden and (count := sum(map(_is_true(meant.match), paths))):
        exact.append(f"{count}{more} hidden: include_hidden=true")
    if not include_ignored:
        wanted = meant if include_hidden else compiled(pattern)
        found, cut = look(ignored=True, enters=wanted.enters)
        if count := sum(map(_is_true(wanted.match), found)):
            exact.append(f"{count}{cut} ignored: include_ignored=true")
    if exact:
        return "; " + ", ".join(exact)
    rows = []
    for other in _others(pattern, paths):
        match = compiled(other, hidden=True).match
        if hits := [path for path in paths if match(path)]:
            hidden = sum(map(is_hidden, hits))
            rows.append(f"{other} has {len(hits)}{more}" + (f", {hidden} hidden" if hidden else ""))
    if rows := list(dict.fromkeys(rows))[:MAX_NAMED]:
        return "; " + "; ".join(rows)
    names = _alike(pattern, paths)
    shown = base.target().shown
    prefix = "" if shown == "." else shown.rstrip("/") + "/"
    return "; similar: " + ", ".join(prefix + visible_name(name) for name in names) if names else ""


def _is_true(match: Callable[[str], object]) -> Callable[[str], bool]:
    return lambda path: match(path) is not None


def _others(pattern: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield patterns that are like one: anywhere below the folder, and with the extensions that there are."""
    extensions = Counter(found[2] for path in paths if (found := _EXTENSION.fullmatch(path.rpartition("/")[2])))
    folded = {name.casefold(): name for name, _ in reversed(extensions.most_common())}
    for one in expanded(pattern)[:_ALTERNATIVES]:
        folder, slash, name = one.rpartition("/")
        if name == "**":
            continue
        yield f"**/{name}"
        if found := _EXTENSION.fullmatch(name):
            stem, extension = found.groups()
            for close in get_close_matches(extension.casefold()[:_NAME_LENGTH], folded, MAX_NAMED, _ALIKE):
                yield f"{folder}{slash}{stem}.{folded[close]}"
                yield f"**/{stem}.{folded[close]}"


def _alike(pattern: str, paths: Sequence[str]) -> list[str]:
    """Return files whose names are like the one that a pattern without stars ends in."""
    out: list[str] = []
    names = {name.casefold(): path for path in reversed(paths) if len(name := path.rpartition("/")[2]) <= _NAME_LENGTH}
    for one in expanded(pattern)[:_ALTERNATIVES]:
        name = one.rpartition("/")[2]
        if not _WILD.search(name):
            out += (names[each] for each in get_close_matches(name.casefold()[:_NAME_LENGTH], names, MAX_NAMED, _ALIKE))
    return list(dict.fromkeys(out))[:MAX_NAMED]
