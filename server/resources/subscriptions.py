"""Update notifications: who wants to hear of which resource, and how often it does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ServerEvent
from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult

log = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds at least between two notifications of the same thing (TOOLS.md §10)."""

STREAMS = 32
"""Listening streams of one owner at a time; a guess at more than any client opens."""


@dataclass
class _Audience:
    """The streams and the subscriptions of one owner, and what it was told within the last interval."""

    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    subscribed: dict[str, ServerSession] = field(default_factory=dict)
    telling: dict[ServerEvent, "asyncio.Task[None]"] = field(default_factory=dict)
    again: set[ServerEvent] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.listen = ListenHandler(self.bus, max_subscriptions=STREAMS)


class Updates:
    """Tells owners of changes to their own resources. What happens within an interval is told once, at its end.

    Stateless clients hear of them on a stream of `subscriptions/listen`, others by `resources/subscribe`. Owners are
    kept apart: the URIs of somebody else's resources can be guessed, and nothing must be learnt by listening to them.
    """

    def __init__(self, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Begin with nobody listening. pause waits for a number of seconds."""
        self._pause = pause
        self._audiences: dict[str, _Audience] = {}

    async def pause(self) -> None:
        """Wait for one interval."""
        await self._pause(INTERVAL)

    def is_subscribed(self, owner: str) -> bool:
        """Return True if an owner ever subscribed to anything."""
        return owner in self._audiences

    def changed(self, owner: str, event: ServerEvent) -> None:
        """Tell an owner of an event, if it listens. To be called in the server's loop; never waits."""
        audience = self._audiences.get(owner)
        if audience is None:
            return
        if event in audience.telling:
            audience.again.add(event)
        else:
            audience.telling[event] = asyncio.get_running_loop().create_task(self._tell(audience, event))

    async def listen(
        self, owner: str, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream of a stateless client until it leaves or the owner is dropped."""
        return await self._audiences.setdefault(owner, _Audience()).listen(ctx, params)

    def subscribe(self, owner: str, uri: str, session: ServerSession) -> None:
        """Tell a session of changes to a resource."""
        self._audiences.setdefault(owner, _Audience()).subscribed[uri] = session

    def unsubscribe(self, owner: str, uri: str) -> None:
        """Tell it no more; nothing happens where it was not told before."""
        if owner in self._audiences:
            self._audiences[owner].subscribed.pop(uri, None)

    def subscribed(self, owner: str) -> list[str]:
        """Return the URIs that an owner has subscribed to."""
        return list(self._audiences[owner].subscribed) if owner in self._audiences else []

    def drop(self, owner: str) -> None:
        """Forget an owner; its streams end in order."""
        audience = self._audiences.pop(owner, None)
        if audience:
            audience.listen.close()
            for task in audience.telling.values():
                task.cancel()

    async def aclose(self) -> None:
        """Forget all owners, and wait until nothing is told any more."""
        telling = [task for audience in self._audiences.values() for task in audience.telling.values()]
        for owner in tuple(self._audiences):
            self.drop(owner)
        await asyncio.gather(*telling, return_exceptions=True)

    async def _tell(self, audience: _Audience, event: ServerEvent) -> None:
        try:
            while True:
                audience.again.discard(event)
                await audience.bus.publish(event)
                session = audience.subscribed.get(event.uri) if isinstance(event, ResourceUpdated) else None
                if session:
                    await session.send_resource_updated(event.uri)  # type: ignore[union-attr]
                await self._pause(INTERVAL)
                if event not in audience.again:
                    return
        except Exception:
            log.exception("a client could not be told of %s", event)
        finally:
            audience.telling.pop(event, None)
