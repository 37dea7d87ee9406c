"""What a call waits for before it runs: that its row outlives a crash of the server."""

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, Final

from .store import BUSY, RecordError

_START_MAX = BUSY + 1
"""Seconds that a call waits for its row before it counts as one that cannot be written."""


class Writing:
    """A row on its way to the file; await it to know that it is there. That takes no turn of the loop when it is."""

    def __init__(self, written: Future[None]) -> None:
        """Stand for what the writing thread does."""
        self._written = written

    def __await__(self) -> Generator[Any, None, None]:
        """Return once the row outlives a crash of the server. Raises RecordError, also after 6 s."""
        if not self._written.done():
            yield from self._wait().__await__()
        try:
            self._written.result()
        except RecordError:
            raise
        except Exception as e:
            raise RecordError(f"the record cannot be written ({e})") from e

    async def _wait(self) -> None:
        waited = asyncio.wrap_future(self._written)
        # The failure is told above, whoever waits; a call that is cancelled leaves its row to be written.
        waited.add_done_callback(lambda future: future.cancelled() or future.exception())
        done, _ = await asyncio.wait([waited], timeout=_START_MAX)
        if not done:
            raise RecordError("the records are busy")


class _Written:
    def __await__(self) -> Generator[Any, None, None]:
        """Return at once."""
        yield from ()


WRITTEN: Final = _Written()
"""A row that outlives a crash of the server."""
