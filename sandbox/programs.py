"""Programs of the operator's machine, run in the base folder with a scrubbed environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .process.runner import Finished, Seen, run


@dataclass(frozen=True)
class Programs:
    """Where and with which environment programs run; cwd is the base as an absolute path."""

    cwd: str
    env: Mapping[str, str]

    async def run(self, argv: Sequence[str], *, timeout: float, seen: Seen | None = None) -> Finished:
        """Run argv to its end, or until timeout seconds have passed; the whole tree dies with the call.

        seen: called with the name of a stream and every piece of it, kept or not.
        """
        return await run(argv, cwd=self.cwd, env=self.env, timeout=timeout, seen=seen)


@dataclass(frozen=True)
class Toolchains(Programs):
    """A project's own tools: test runners, linters, package managers. They get the operator's full environment."""
