"""Locks by file name, for the writers of one server."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..path_jail.protected import fold


class Locks:
    """One re-entrant lock a path, which holds all below it too, and is gone when nobody holds it.

    Names that some file system takes for the same share a lock. Who holds paths must take others only where these are below,
    or nobody else knows them: else two may wait for each other for ever.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._waiting = 0
        # The thread that holds a path, and those that hold one below it.
        self._held: dict[str, int] = {}
        self._below: dict[str, set[int]] = {}

    @contextmanager
    def hold(self, *paths: str) -> Iterator[None]:
        """Hold all the paths, absolute ones, taken at once so that two holders never wait for each other."""
        me = threading.get_ident()
        names = {fold(path).rstrip("/") for path in paths}
        with self._lock:
            # What this thread holds already is given back by who took it.
            names = {name for name in names if self._held.get(name) != me}
            folders = _folders(names)
            while not self._free(names, folders, me):
                self._waiting += 1
                try:
                    self._freed.wait()
                finally:
                    self._waiting -= 1
            folders = {name for name in folders if me not in self._below.setdefault(name, set())}
            for name in names:
                self._held[name] = me
            for name in folders:
                self._below[name].add(me)
        try:
            yield
        finally:
            with self._lock:
                for name in names:
                    del self._held[name]
                for name in folders:
                    holders = self._below[name]
                    holders.remove(me)
                    if not holders:
                        del self._below[name]
                if self._waiting:
                    self._freed.notify_all()

    def _free(self, names: Iterable[str], folders: Iterable[str], me: int) -> bool:
        for name in names:
            if name in self._held or self._below.get(name, _NOBODY) - {me}:
                return False
        return all(self._held.get(name, me) == me for name in folders)


_NOBODY: frozenset[int] = frozenset()


def _folders(names: Iterable[str]) -> set[str]:
    """Return the folders that the names are in, up to the top."""
    found: set[str] = set()
    for name in names:
        while name and (name := name.rpartition("/")[0]) not in found:
            found.add(name)
    return found
