"""The sizes of files with hits, where ripgrep does not ask for the sizes of all."""

import stat
from collections.abc import Iterable
from functools import partial

from ...safety.errors import ToolError
from ..blocking import IsCancelled, run_read
from .scope import MAX_BYTES, Scope

EARLY = 32
"""Files that are looked at while ripgrep goes on, which takes no time then; more would keep others waiting."""


class TooLarge(Exception):
    """A search that does not ask for sizes came upon a file that is too large to be searched."""


class Sizes:
    """Tells which files with hits are too large to be searched."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._large: dict[str, bool] = {}

    def note(self, path: str) -> None:
        """Take note of a file with a hit, relative to the scope's folder."""
        if len(self._large) < EARLY and path not in self._large:
            self._large[path] = self._is_large(path)

    async def too_large(self, paths: Iterable[str]) -> set[str]:
        """Return the files that are too large."""
        asked = set(paths)
        rest = asked - self._large.keys()
        if rest:
            self._large |= await run_read(partial(self._look, rest))
        return {path for path in asked if self._large.get(path)}

    def _look(self, paths: set[str], stop: IsCancelled) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for path in paths:
            if stop():
                break
            found[path] = self._is_large(path)
        return found

    def _is_large(self, path: str) -> bool:
        try:
            status = self._scope.below(path).stat()
        except ToolError:
            return False
        # What went away or became a link after the hit has no size to go by.
        return status is not None and stat.S_ISREG(status.st_mode) and status.st_size > MAX_BYTES
