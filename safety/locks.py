"""Locks by file name, for the writers of one server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from toolbox_mcp.safety.protected import fold


class Locks:
    """One re-entrant lock a path, made when it is wanted and gone when nobody holds it.

    Names that some file system takes for the same share a lock.
    """

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._locks: WeakValueDictionary[str, threading.RLock] = WeakValueDictionary()

    @contextmanager
    def hold(self, *paths: Path) -> Iterator[None]:
        """Hold all the paths, taken in one order so that two holders never wait for each other."""
        names = sorted({fold(str(path)) for path in paths})
        with self._making:
            locks = [self._locks.setdefault(name, threading.RLock()) for name in names]
        held: list[threading.RLock] = []
        try:
            for lock in locks:
                lock.acquire()
                held.append(lock)
            yield
        finally:
            for lock in reversed(held):
                lock.release()
