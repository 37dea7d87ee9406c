"""The HTTP client: what it fetches, from whom, within which bounds."""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread

import anyio

from ...safety.errors import Code, ToolError
from ...safety.web.policy import WebPolicy
from ...safety.web.urls import Url, judge

RESOLVE_TIMEOUT = 5.0
"""Seconds to resolve a name."""
RESOLVERS = 8
"""Names that are resolved at once, those included that nobody waits for any more."""

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Return the addresses of a name."""
Save = Callable[[bytes], Awaitable[None]]
"""Take the next piece of a body."""


@dataclass(frozen=True)
class Page:
    """An answer. url: where it came from in the end. body: decompressed, cut at the bound where is_cut."""

    url: Url
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool

    @property
    def content_type(self) -> str:
        """The media type, without parameters, in lower case; empty where the header holds something else."""
        given = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return given if re.fullmatch(r"[\w.+-]{1,60}/[\w.+-]{1,100}", given, re.ASCII) else ""


@dataclass
class Http:
    """Fetches what the operator's rules allow. Nothing is kept from call to call: no cookie, no connection.

    timeout: seconds to connect and for each read; a request has three times that. max_bytes: of a body, decompressed.
    proxy: host:port of an HTTP proxy of the operator's, through which every address is reached by CONNECT.
    resolve, verify: for tests and embedders.
    """

    policy: WebPolicy = field(default_factory=WebPolicy)
    timeout: float = 10.0
    max_bytes: int = 2_000_000
    max_redirects: int = 5
    proxy: str = ""
    verify: ssl.SSLContext | None = None
    resolve: Resolver | None = None
    _resolving: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(RESOLVERS), repr=False)

    async def fetch(
        self,
        url: Url,
        method: str = "GET",
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        follow: bool = True,
        save: Save | None = None,
        max_bytes: int | None = None,
        seconds: float | None = None,
    ) -> Page:
        """Make a request and return its answer; every status is one.

        follow: follow redirects, each judged anew. save: gets the body as it comes, but for that of an error; the page has
        none then. A body above max_bytes (default: those of this client) is cut. seconds: for all of it (default: three
        times the timeout). ToolError: url_blocked, fetch_failed, too_many_redirects.
        """
        most = self.max_bytes if max_bytes is None else max_bytes
        seconds = seconds or 3 * self.timeout
        # It takes 60 ms to import, and most sessions fetch nothing.
        from . import _transport

        self.verify = self.verify or _transport.default_context()
        sent = {
            "user-agent": _transport.USER_AGENT,
            "accept": "*/*",
            **{k.lower(): v for k, v in (headers or {}).items()},
        }
        try:
            with anyio.fail_after(seconds):
                for _ in range(self.max_redirects + 1):
                    async with _transport.Exchange(self, url, method, sent, body) as answer:
                        location = answer.headers.get("location")
                        if not (follow and answer.status_code in _transport.REDIRECTS and location):
                            return await _transport.page(url, answer, most, save)
                    there = url.joined(location)
                    if there.origin != url.origin:
                        sent = {name: value for name, value in sent.items() if name in _transport.IMPERSONAL}
                    if (answer.status_code == 303 and method != "HEAD") or (
                        answer.status_code in (301, 302) and method == "POST"
                    ):
                        method, body = "GET", None
                    url = there
                raise ToolError(
                    Code.TOO_MANY_REDIRECTS, f"{url.host} redirects more than {self.max_redirects} times", None
                )
        except TimeoutError:
            raise ToolError(
                Code.FETCH_FAILED, f"{url.host} gave no complete answer within {seconds:g}s", "try again later"
            ) from None
        except (*_transport.FAILURES, OSError) as e:
            raise ToolError(Code.FETCH_FAILED, f"{url.host} could not be fetched: {_transport.cause(e)}") from None

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a name. ToolError(url_blocked) where there are none."""
        try:
            with anyio.fail_after(RESOLVE_TIMEOUT):
                if self.resolve is not None:
                    return await self.resolve(host, port)
                await self._resolving.acquire()
                answer: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
                # A daemon: a name server that does not answer must not hold up the end of this process.
                Thread(target=self._resolve, args=(host, port, answer), name="dns", daemon=True).start()
                return await answer
        except (OSError, UnicodeError, TimeoutError):
            return ()

    def _resolve(self, host: str, port: int, answer: asyncio.Future[Sequence[str]]) -> None:
        found: list[str] = []

        def deliver() -> None:
            self._resolving.release()
            if not answer.done():
                answer.set_result(found)

        try:
            # As bytes: Python maps a text by IDNA 2003, which makes an address of full-width digits.
            with suppress(OSError, UnicodeError):
                rows = socket.getaddrinfo(host.encode("ascii"), port, 0, socket.SOCK_STREAM)
                found += dict.fromkeys(str(each[4][0]) for each in rows)
        finally:
            with suppress(RuntimeError):  # The loop is closed.
                answer.get_loop().call_soon_threadsafe(deliver)


def internal_url(raw: str, policy: WebPolicy) -> Url:
    """Return a URL of the operator's own, which may be internal. ToolError(url_blocked): it is malformed or denied."""
    return judge(raw, policy, unsafe=True)
