"""What every sandbox back end offers."""

from typing import Protocol

from ..spec import Job, Probe, Result


class Backend(Protocol):
    """A way to run a program confined. name: the runtime as results report it."""

    @property
    def name(self) -> str:
        """The runtime."""
        ...

    async def probe(self) -> Probe:
        """Return True if what the back end is made of is there, without an attack."""
        ...

    async def run(self, job: Job) -> Result:
        """Run a job to its end. Raises ToolError where the sandbox or the program cannot start."""
        ...

    async def aclose(self) -> None:
        """End everything the back end holds."""
        ...
