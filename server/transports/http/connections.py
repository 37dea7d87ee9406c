"""HTTP connections: sockets, and deadlines that uvicorn does not have."""

import asyncio
import errno
import logging
import socket
import struct
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from .origin import is_loopback
from .settings import HttpSettings

log = logging.getLogger(__name__)

KEEP_ALIVE: Final = 75
"""Seconds a connection may be silent between two requests: above the pools of common clients, so that it is
they who close first."""

BACKLOG: Final = 128
"""Connections that wait to be accepted."""

SILENT_PART: Final = 4
"""What part of the connections may have sent no request yet, one in four: the rest is for those who have."""

NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
ACCEPT_AGAIN: Final = 1.0
"""Seconds until accepting is tried again where the system has no descriptor or memory for a connection."""

END_WAIT: Final = 0.3
"""Seconds for the last bytes to leave when the server stops."""

NO_LINGER: Final = struct.pack("ii", 1, 0)


class Silent(NamedTuple):
    """A connection that has sent no request yet: from where it comes, and how to end it."""

    address: str
    end: Callable[[], object]


def add_silent(silent: dict[object, Silent], key: object, one: Silent, max_connections: int) -> None:
    """Note a silent connection; with too many of them end the oldest of the address that has most."""
    silent[key] = one
    if len(silent) > max(1, max_connections // SILENT_PART):
        [(address, _)] = Counter(each.address for each in silent.values()).most_common(1)
        oldest = next(key for key, each in silent.items() if each.address == address)
        silent.pop(oldest).end()


class Listener:
    """The listening sockets and their connections."""

    def __init__(self, app: Any, settings: HttpSettings, sockets: list[socket.socket]) -> None:
        """Load the certificate; raises OSError or ssl.SSLError if it cannot be used."""
        self._settings = settings
        self._sockets = sockets
        self._state = ServerState()
        self._silent: dict[object, Silent] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._config = Config(
            app,
            http=H11Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            limit_concurrency=settings.max_connections,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        self._config.load()
        self._loaded = self._versions()

    async def start(self) -> None:
        """Accept connections."""
        for sock in self._sockets:
            sock.setblocking(False)
            sock.listen(BACKLOG)
            self._run(self._accept(sock))

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(sock)
            except OSError as failure:
                if failure.errno not in NO_ROOM:
                    continue  # the client has gone before
                log.error("connections wait, as none can be accepted: %s", failure.strerror)
                await asyncio.sleep(ACCEPT_AGAIN)
                continue
            arrival = object()
            task = self._run(self._connect(accepted, arrival))
            if self._config.ssl:
                # From here on: a handshake, too, takes a connection and sends no request.
                add_silent(self._silent, arrival, Silent(str(address[0]), task.cancel), self._settings.max_connections)
            # While others wait, accepting does not pause by itself.
            await asyncio.sleep(0)

    async def _connect(self, accepted: socket.socket, arrival: object) -> None:
        self._renew_certificate()
        loop, context = asyncio.get_running_loop(), self._config.ssl
        try:
            await loop.connect_accepted_socket(
                lambda: _Connection(
                    self._config,
                    self._state,
                    {},
                    loop,
                    settings=self._settings,
                    silent=self._silent,
                    arrival=arrival,
                ),
                accepted,
                ssl=context,
                # A handshake is the head of a TLS connection, and as slow as a client likes without this.
                ssl_handshake_timeout=self._settings.head_timeout if context else None,
            )
        except OSError:  # no handshake, or none in time
            accepted.close()
        finally:
            self._silent.pop(arrival, None)

    def _renew_certificate(self) -> None:
        """Load certificate and key again where a file has changed; the handshake that follows uses them."""
        context, now = self._config.ssl, self._versions()
        if context is None or now == self._loaded:
            return
        self._loaded = now
        try:
            context.load_cert_chain(str(self._settings.tls_cert), str(self._settings.tls_key))
        except (OSError, ValueError) as failure:
            # Half a renewal: the other file follows, and until then the former pair serves.
            log.warning("the certificate cannot be loaded again: %s", failure)

    def _versions(self) -> list[tuple[int, int] | None]:
        found: list[tuple[int, int] | None] = []
        for path in (self._settings.tls_cert, self._settings.tls_key):
            try:
                status = path.stat() if path else None
            except OSError:
                status = None
            found.append((status.st_mtime_ns, status.st_ino) if status else None)
        return found

    def refuse(self) -> None:
        """Accept no more."""
        for task in self._tasks:
            task.cancel()
        for sock in self._sockets:
            sock.close()

    async def stop(self) -> None:
        """Close every connection, after a moment for those that still write."""
        self.refuse()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=END_WAIT)
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(self._state.connections):
            if connection.transport is not None:
                connection.transport.abort()


class _Connection(H11Protocol):
    """A connection with a deadline for the head of each request and for an answer that nobody reads.

    uvicorn stops its only timer, keep-alive, at the first byte. The time for a head runs from its first byte
    (from the connection for the first one) to its last, however often something drips in. Bytes of a body
    that was refused count as a head that does not come.
    """

    def __init__(self, *args: Any, settings: HttpSettings, silent: "dict[object, Silent]", arrival: object) -> None:
        """Be one of the connections of a listener. silent: those that have sent no request; arrival: itself until it is made."""
        super().__init__(*args)
        self._settings = settings
        self._silent = silent
        self._arrival = arrival
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._silent.pop(self._arrival, None)
        # Above max_connections requests are answered 503; connections without a request cost descriptors too.
        if len(self.connections) > 2 * self._settings.max_connections:
            transport.abort()
            return
        self._head_timer = self.loop.call_later(self._settings.head_timeout, transport.abort)
        silent = Silent(self.client[0] if self.client else "", transport.abort)
        add_silent(self._silent, self, silent, self._settings.max_connections)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        between = self.cycle is None or self.cycle.response_complete
        if between and self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(self._settings.head_timeout, self.transport.abort)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._silent.pop(self, None)
        if self.cycle is not before and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self._settings.write_timeout, self._drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _drop(self) -> None:
        # Without this the kernel keeps what it holds of the answer for as long as the client stays.
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        # uvicorn lets keep-alive run on where the client reset the connection, and all of it is held until then.
        for timer in (self._head_timer, self._write_timer, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        self._silent.pop(self, None)
        super().connection_lost(exc)


def bind(settings: HttpSettings) -> list[socket.socket]:
    """Return bound sockets for the host and port; port 0 is one free port for all of them.

    Raises OSError, also if a host that was taken for loopback resolves to something else.
    """
    found = socket.getaddrinfo(
        settings.host.strip("[]"), settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    port = settings.port
    sockets: list[socket.socket] = []
    trouble: OSError | None = None
    for family, kind, protocol, _, address in dict.fromkeys(found):
        if is_loopback(settings.host) and not is_loopback(str(address[0])):
            raise OSError(f"{settings.host} resolves to {address[0]}, which is not loopback")
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as error:  # a machine without IPv6
            trouble = error
            continue
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port, *address[2:]))
        except OSError as error:
            sock.close()
            trouble = error
            continue
        sockets.append(sock)
        port = sock.getsockname()[1]
    if not sockets:
        raise trouble or OSError(f"{settings.host} has no address")
    return sockets
