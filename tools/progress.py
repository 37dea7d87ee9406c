"""Progress of one call, as notifications to the client that asked for them."""

import math
import time
from collections.abc import Awaitable, Callable

INTERVAL = 0.5
"""Seconds between two reports at least."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]


class Progress:
    """Reports growing values, at most twice a second, and nothing once the call is answered."""

    def __init__(self, report: Report | None = None) -> None:
        self._report = report
        self._last_at = -math.inf
        self._last = -math.inf

    @property
    def wanted(self) -> bool:
        """Return True if the client asked for progress."""
        return self._report is not None

    async def __call__(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report that done of total (in any unit) is behind us. Values that do not grow are dropped."""
        if self._report is None or done <= self._last or time.monotonic() - self._last_at < INTERVAL:
            return
        self._last, self._last_at = done, time.monotonic()
        await self._report(done, total, message)

    async def beat(self, seconds: float) -> None:
        """Report that the call still runs after so many seconds, where nothing was reported meanwhile.

        The value is a little above the last one, in whose unit it is: what does not grow is no progress to a client.
        """
        done = seconds if self._last == -math.inf else self._last + max(1e-6, abs(self._last) * 1e-9)
        await self(done, None, f"{seconds:g} s")

    def close(self) -> None:
        """Drop every report from here on."""
        self._report = None
