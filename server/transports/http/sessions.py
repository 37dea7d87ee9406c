"""Sessions of streamable HTTP: which one goes where there is no room for another."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

SHARE = 3 / 4
"""The part of all sessions that one of several principals may have."""


@dataclass
class _Session:
    principal: str | None
    last_used: float
    requests: int = 0


@dataclass
class SessionTable:
    """The open sessions, by id. most: how many there may be. idle_timeout: seconds after which an unused one has ended by itself.

    shared: whether there are several principals, of which one may not take all. keeps: whether a session has programs that
    run; such a one stays.
    """

    most: int
    idle_timeout: float
    shared: bool
    keeps: Callable[[str], bool]
    clock: Callable[[], float] = time.monotonic
    _sessions: dict[str, _Session] = field(default_factory=dict)

    def opened(self, session: str, principal: str | None) -> None:
        """Note a session that was opened just now."""
        self._sessions[session] = _Session(principal, self.clock())

    def ended(self, session: str) -> None:
        """Forget a session."""
        self._sessions.pop(session, None)

    @contextmanager
    def used(self, session: str | None) -> Iterator[None]:
        """Note that a session has a request for as long as the block lasts, or a stream."""
        known = self._sessions.get(session or "")
        if known is None:
            yield
            return
        known.requests += 1
        try:
            yield
        finally:
            known.requests -= 1
            known.last_used = self.clock()

    def to_end(self, principal: str | None) -> str | None:
        """Return the session that has to end before a principal opens another one: of its own, the longest idle.

        None where there is room, and where each has a request, a stream or a program.
        """
        now = self.clock()
        for id_, one in [*self._sessions.items()]:
            if not one.requests and now - one.last_used > self.idle_timeout:
                self.ended(id_)
        own = {id_: one for id_, one in self._sessions.items() if one.principal == principal}
        bound = max(1, int(self.most * SHARE)) if self.shared else self.most
        if len(self._sessions) < self.most and len(own) < bound:
            return None
        idle = [(one.last_used, id_) for id_, one in own.items() if not one.requests and not self.keeps(id_)]
        return min(idle)[1] if idle else None
