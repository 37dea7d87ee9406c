"""How long the disk has lately taken."""

import time
from collections.abc import Callable
from types import TracebackType

SLOW = 0.02
"""Seconds for which the event loop may wait for a disk, once; a guess at what nobody notices."""
REST = 60.0
"""Seconds after which a disk that took longer is waited for again."""


class Pace:
    """Whether the event loop may wait for the disk: it did not take long when that was last done. Time what is done in a block."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Know of nothing yet. clock counts seconds."""
        self._clock = clock
        self._begun = 0.0
        self._again = 0.0

    @property
    def is_quick(self) -> bool:
        """Tell whether what writes a little may be done in the loop."""
        return self._clock() >= self._again

    def __enter__(self) -> None:
        self._begun = self._clock()

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        now = self._clock()
        if now - self._begun > SLOW:
            self._again = now + REST
