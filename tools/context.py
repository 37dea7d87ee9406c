"""Who calls, as the client says it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CallContext:
    """Information about the caller of one call. It comes from the client and authorises nothing.

    params hold what the client sent for its own use, by attribute or item; an unknown name is None.
    """

    id: str
    tenant_id: str | None = None
    agent: str | None = None
    client: tuple[str, str] | None = None
    session: str | None = None
    principal: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        """Return a client's own parameter, or None."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.params.get(name)

    def __getitem__(self, name: str) -> Any:
        """Return a client's own parameter, or None."""
        return self.params.get(name)
