"""One request on a connection of its own: one resolution, every address judged, the connection to one that was judged."""

import itertools
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

import anyio
import httpcore
import httpx

from ...safety.errors import Code, ToolError
from ...safety.text import clean
from ...safety.web.addresses import parsed, refusal
from ...safety.web.urls import Url, is_denied
from ._http import Http, Page, Save

REDIRECTS = frozenset({301, 302, 303, 307, 308})
IMPERSONAL = frozenset(
    {
        "accept",
        "accept-language",
        "cache-control",
        "content-type",
        "if-modified-since",
        "if-none-match",
        "range",
        "user-agent",
    }
)
"""Headers that go on to another origin; tokens have too many names to list, so all others are dropped for good."""
MAX_ADDRESSES = 64
"""Addresses of one name; more are no honest answer."""
ATTEMPTS, ATTEMPT_DELAY = 8, 0.25
"""Addresses that are tried, and seconds until the next one is tried beside the last (RFC 8305)."""
CHUNK = 64 * 1024
GZIP = b"\x1f\x8b"
USER_AGENT = "toolbox-mcp"


FAILURES = (httpx.HTTPError, httpx.InvalidURL)
"""What goes wrong on the way, beside OSError."""


def default_context() -> ssl.SSLContext:
    """Return the TLS context that checks certificates by the authorities that come with the installation; no variable changes it."""
    return httpx.create_ssl_context(trust_env=False)


async def page(url: Url, answer: httpx.Response, most: int, save: Save | None = None) -> Page:
    """Read the body of an answer, up to a bound. save: gets it instead of the page, but for that of an error."""
    kept = bytearray()
    size = 0
    is_cut = False
    async for piece in _decoded(answer, most):
        is_cut = len(piece) > most - size
        given = piece[: most - size]
        if save is None or answer.status_code >= HTTPStatus.BAD_REQUEST:
            kept += given
        else:
            await save(given)
        size += len(given)
        if is_cut:
            break
    # The words of the standard: those of the server would stand before the line that says whose words follow.
    reason = HTTPStatus(answer.status_code).phrase if answer.status_code in {*HTTPStatus} else ""
    return Page(url, answer.status_code, reason, plain(answer.headers), bytes(kept), is_cut)


class Exchange:
    """One request and its answer, on a connection of its own."""

    def __init__(self, http: Http, url: Url, method: str, headers: Mapping[str, str], body: bytes | None) -> None:
        self._transport = _Transport(_Backend(http, url.free), http.verify or default_context())
        self._request = httpx.Request(
            method,
            str(url),
            headers=[
                (name.encode("ascii"), value.encode("latin-1"))
                for name, value in {"host": url.authority, "accept-encoding": "gzip, identity", **headers}.items()
            ],
            content=body,
            extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), http.timeout)},
        )
        self._response: httpx.Response | None = None

    async def __aenter__(self) -> httpx.Response:
        self._response = await self._transport.handle_async_request(self._request)
        return self._response

    async def __aexit__(self, *exc: object) -> None:
        with anyio.CancelScope(shield=True):
            if self._response is not None:
                await self._response.aclose()
            await self._transport.aclose()


class _Transport(httpx.AsyncBaseTransport):
    """httpx over httpcore with a network backend of ours; name, SNI and certificate stay those of the URL."""

    def __init__(self, backend: "_Backend", verify: ssl.SSLContext) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=verify, max_connections=1, max_keepalive_connections=0, network_backend=backend
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Raises httpx.TransportError."""
        core = httpcore.Request(
            request.method,
            httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            answer = await self._pool.handle_async_request(core)
        except httpcore.TimeoutException as e:
            raise httpx.ReadTimeout(str(e) or "no answer in time") from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as e:
            raise httpx.TransportError(str(e)) from None
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        """Close the connection."""
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                yield piece
        except httpcore.TimeoutException as e:
            raise httpx.ReadTimeout(str(e) or "no data in time") from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as e:
            raise httpx.ReadError(str(e)) from None

    async def aclose(self) -> None:
        await self._stream.aclose()


MAX_PROXY_HEAD = 8192
"""Bytes of a proxy's answer to CONNECT; a guess far above what proxies say."""


class _Backend(httpcore.AsyncNetworkBackend):
    """Resolves a name once, judges every answer, and connects to one of those."""

    def __init__(self, http: Http, free: bool) -> None:
        self._http = http
        self._free = free
        # To pyright it may be the stand-in that httpcore has where anyio is missing.
        self._inner = cast(httpcore.AsyncNetworkBackend, httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a judged address. ToolError(url_blocked) where one of them may not be reached."""
        literal = parsed(host)
        found = [str(literal)] if literal else await self._http.addresses(host, port)
        if not found or len(found) > MAX_ADDRESSES:
            raise ToolError(Code.URL_BLOCKED, f"{host} cannot be resolved", "check the name")
        for each in found:
            address = parsed(each)
            if is_denied(each, self._http.policy):
                raise ToolError(Code.URL_BLOCKED, f"{host} leads to an address in web_denylist", None)
            why = "no address" if address is None else refusal(address, nat64=self._http.policy.nat64)
            if why and not self._free:
                raise ToolError(
                    Code.URL_BLOCKED,
                    f"{host} leads to an address that is not public",
                    f"the operator can add {host}:{port} to web_private_allow",
                )
        if self._http.proxy:
            return await self._through_proxy(_by_family(found)[0], port, timeout)
        stream = await self._first(_by_family(found), port, timeout)
        peer = stream.get_extra_info("server_addr")
        if not peer or parsed(str(peer[0]).partition("%")[0]) not in {parsed(each) for each in found}:
            await stream.aclose()
            raise ToolError(
                Code.URL_BLOCKED, f"{host} answered from another address than the one that was judged", None
            )
        return stream

    async def _through_proxy(self, address: str, port: int, timeout: float | None) -> httpcore.AsyncNetworkStream:
        """Open a tunnel to a judged address: the proxy never gets the name, so it cannot choose another address."""
        there = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        host, _, proxy_port = self._http.proxy.rpartition(":")
        stream = await self._inner.connect_tcp(host.strip("[]"), int(proxy_port), timeout=timeout)
        try:
            await stream.write(f"CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n\r\n".encode("ascii"), timeout)
            head = b""
            while b"\r\n\r\n" not in head:
                piece = await stream.read(1, timeout)  # what follows is the tunnel's
                head += piece
                if not piece or len(head) > MAX_PROXY_HEAD:
                    raise httpcore.ConnectError("the proxy gave no answer")
            if not re.match(rb"HTTP/1\.[01] 200\b", head):
                raise httpcore.ConnectError("the proxy refused the tunnel")
        except BaseException:
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise
        return stream

    async def _first(self, addresses: Sequence[str], port: int, timeout: float | None) -> httpcore.AsyncNetworkStream:
        won: list[httpcore.AsyncNetworkStream] = []
        failed: list[Exception] = []

        async def attempt(address: str, over: anyio.Event) -> None:
            try:
                stream = await self._inner.connect_tcp(address, port, timeout=timeout)
            except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as e:
                failed.append(e)
                over.set()
                return
            if won:
                with anyio.CancelScope(shield=True):
                    await stream.aclose()
                return
            won.append(stream)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for address in addresses[:ATTEMPTS]:
                over = anyio.Event()
                group.start_soon(attempt, address, over)
                with anyio.move_on_after(ATTEMPT_DELAY):
                    await over.wait()
        if won:
            return won[0]
        raise failed[0] if failed else httpcore.ConnectError("no address answers")

    async def connect_unix_socket(self, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        """Refuse."""
        raise ToolError(Code.URL_BLOCKED, "sockets of files are not reached")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(seconds)


def _by_family(addresses: Sequence[str]) -> list[str]:
    six, four = ([each for each in addresses if (":" in each) is v6] for v6 in (True, False))
    return [each for pair in itertools.zip_longest(six, four) for each in pair if each]


async def _decoded(answer: httpx.Response, most: int) -> AsyncIterator[bytes]:
    """Yield the body, decompressed piece by piece, at most a piece beyond the bound. ToolError(fetch_failed)."""
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):
        raise ToolError(Code.FETCH_FAILED, f"the body comes as {coding[:40]!r}, which was not asked for")
    unzip = zlib.decompressobj(31) if "gzip" in coding else None
    raw = made = 0
    async for piece in answer.aiter_raw(CHUNK):
        raw += len(piece)
        if unzip is None:
            yield piece
            made += len(piece)
        else:
            left = piece
            while left:
                if unzip.eof:
                    if not GZIP.startswith(left[:2]):
                        return  # What is no further member is padding.
                    unzip = zlib.decompressobj(31)
                try:
                    out = unzip.decompress(left, CHUNK)
                except zlib.error:
                    raise ToolError(Code.FETCH_FAILED, "the compressed body is damaged") from None
                left = unzip.unused_data if unzip.eof else unzip.unconsumed_tail
                if out:
                    yield out
                    made += len(out)
                if made > most:
                    return
            if raw > most + CHUNK:
                raise ToolError(Code.FETCH_FAILED, "the compressed body is longer than what it holds")
        if made > most:
            return
    if unzip is not None and raw and not unzip.eof:
        raise ToolError(Code.FETCH_FAILED, "the compressed body ends before its end")


def plain(headers: httpx.Headers) -> dict[str, str]:
    return {name: " ".join(clean(value).split())[:2000] for name, value in headers.items()}


def cause(e: BaseException) -> str:
    text = " ".join(str(e).split())[:200]
    return text or type(e).__name__
