"""What the server says to one client of the handshake era on its own account: questions and notifications."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel
from mcp.shared.dispatcher import CallOptions, ProgressFnT, as_request_id, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
)

from .framing import write_line

log = logging.getLogger(__name__)

CLOSED: Final = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")

Send = Callable[[bytes], Awaitable[None]]
"""Writes a line; waits while the client does not read. Raises BrokenResourceError where it is gone."""


@dataclass
class _Asked:
    """A question: its answer, and what hears of its progress."""

    answer: asyncio.Future[dict[str, Any] | ErrorData]
    on_progress: ProgressFnT | None


class Outbound:
    """Fits what the SDK calls an Outbound."""

    def __init__(self, send: Send) -> None:
        """Write to a client."""
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._asked: dict[RequestId, _Asked] = {}
        self._numbers = 0
        self._over = False

    def close(self) -> None:
        """Say nothing any more; what was asked is answered as closed."""
        self._over = True
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_result(CLOSED)

    def on_response(self, number: RequestId | None, outcome: dict[str, Any] | ErrorData) -> None:
        """Take the client's answer to a question."""
        asked = None if number is None else self._asked.get(coerce_request_id(number))
        if asked and not asked.answer.done():
            asked.answer.set_result(outcome)

    def progress(self, params: Mapping[str, Any]) -> Callable[[], Awaitable[None]] | None:
        """Return the sender of progress of a question; None where nobody listens."""
        token = as_request_id(params.get("progressToken"))
        asked = None if token is None else self._asked.get(coerce_request_id(token))
        return partial(_progressed, asked.on_progress, params) if asked and asked.on_progress else None

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the client. Raises MCPError: its own, or that the time is up or the connection closed."""
        # Whoever is cancelled already asks nothing.
        await anyio.lowlevel.checkpoint_if_cancelled()
        if self._over:
            raise MCPError.from_error_data(CLOSED)
        opts = opts or {}
        number = opts.get("request_id")
        if number is None:
            number = self._number()
        key = coerce_request_id(number)
        if key in self._asked:
            raise ValueError(f"request {number!r} is not answered yet")
        asked = self._asked[key] = _Asked(self._loop.create_future(), opts.get("on_progress"))
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
        sent = dict(params or {})
        if asked.on_progress:
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": number}
        request = JSONRPCRequest.model_validate(message | ({"params": sent} if sent else {}))
        why: str | None = "the caller has given up"
        try:
            try:
                await self._send(write_line(request))
            except anyio.BrokenResourceError:
                why = None
                raise MCPError.from_error_data(CLOSED) from None
            with anyio.move_on_after(opts.get("timeout")) as scope:
                await asyncio.wait([asked.answer])
            if scope.cancelled_caught:
                why = "the time is up"
                raise MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out")
            why = None
        finally:
            del self._asked[key]
            if why and not self._over and opts.get("cancel_on_abandon", True):
                with anyio.move_on_after(1, shield=True):
                    await self.notify("notifications/cancelled", {"requestId": number, "reason": why})
        outcome = asked.answer.result()
        if isinstance(outcome, ErrorData):
            raise MCPError.from_error_data(outcome)
        return outcome

    def _number(self) -> int:
        self._numbers += 1
        while self._numbers in self._asked:
            self._numbers += 1
        return self._numbers

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Tell the client something; nothing happens where it is gone."""
        said = {"params": dict(params)} if params is not None else {}
        message = JSONRPCNotification.model_validate({"jsonrpc": "2.0", "method": method, **said})
        try:
            if not self._over:
                await self._send(write_line(message))
        except anyio.BrokenResourceError:
            log.debug("%s finds nobody", method)


async def _progressed(on_progress: ProgressFnT, params: Mapping[str, Any]) -> None:
    progress, total, message = (params.get(name) for name in ("progress", "total", "message"))
    if isinstance(progress, bool) or not isinstance(progress, int | float):
        return
    await on_progress(
        float(progress),
        float(total) if isinstance(total, int | float) else None,
        message if isinstance(message, str) else None,
    )
