"""Who owns state: each MCP session, else each principal (TOOLS.md §7)."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from mcp_types import LoggingLevel

from ...tools.session import Session

IDLE = 30 * 60.0
"""Seconds after which the state of an owner without a session is dropped, if it stays away."""
OWNERS = 1000
"""Sessions without a session that are kept at most; the one longest away goes first."""


@dataclass
class OwnerState:
    """What the server keeps for one owner."""

    owner: str
    session: Session = field(default_factory=Session)
    approved: set[str] = field(default_factory=set)
    log_level: LoggingLevel | None = None
    last_call: float = 0.0


class SessionStore:
    """Finds the state of an owner, and makes it at its first call.

    State of a session lasts until drop() says that the session ended; other state until its owner stays away.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, on_drop: Callable[[str], None] | None = None
    ) -> None:
        self._clock = clock
        self._on_drop = on_drop
        self._sessions: dict[str, OwnerState] = {}
        self._others: OrderedDict[str, OwnerState] = OrderedDict()

    def begin(self, owner: str) -> bool:
        """Make the state of a session whose end will be told; False if it is there already."""
        if owner in self._sessions:
            return False
        self._sessions[owner] = OwnerState(owner)
        return True

    def of(self, owner: str) -> OwnerState:
        """Return the state of an owner."""
        if owner in self._sessions:
            return self._sessions[owner]
        now = self._clock()
        state = self._others.setdefault(owner, OwnerState(owner))
        state.last_call = now
        self._others.move_to_end(owner)
        while True:
            oldest = next(iter(self._others.values()))
            if len(self._others) <= OWNERS and now - oldest.last_call <= IDLE:
                return state
            self.drop(oldest.owner)

    def drop(self, owner: str) -> None:
        """Forget an owner, and tell who keeps things for it."""
        there = self._sessions.pop(owner, None) or self._others.pop(owner, None)
        if there and self._on_drop:
            self._on_drop(owner)
