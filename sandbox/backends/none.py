"""The back end that runs nothing: code that a model wrote does not run unconfined."""

from ..linux.zygote_client import unavailable
from ..spec import Job, Probe, Result


class NoSandbox:
    """Refuses every job. name: what was asked for; reason: why there is no sandbox."""

    def __init__(self, name: str, reason: str) -> None:
        """Remember what to say."""
        self.name = name
        self._reason = reason

    async def probe(self) -> Probe:
        """Tell that there is no sandbox."""
        return Probe(False, (self._reason,))

    async def run(self, job: Job) -> Result:
        """Refuse."""
        raise unavailable(self.name, self._reason)

    async def aclose(self) -> None:
        """Hold nothing."""
