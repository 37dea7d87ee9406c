"""What the HTTP transports may be told, and when they refuse to start."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from .bearer import Tokens
from .origin import Authority, Origin, is_loopback, parse_authority, parse_origin

WELL_KNOWN = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True)
class OAuthSettings:
    """Whose tokens are taken. issuer: its URL. resource: the URL of this server's endpoint. audience: `aud` of its tokens.

    scopes: those that let somebody in, the one that opens most last.
    """

    issuer: str
    resource: str
    audience: str
    scopes: tuple[str, ...]

    @property
    def metadata_url(self) -> str:
        """Return where the metadata of the protected resource is."""
        parts = urlsplit(self.resource)
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"

    def metadata(self) -> bytes:
        """Return the metadata by which a client finds the issuer."""
        return json.dumps(
            {
                "resource": self.resource,
                "authorization_servers": [self.issuer],
                "scopes_supported": list(self.scopes),
                "bearer_methods_supported": ["header"],
            }
        ).encode()


def is_trustworthy(url: str) -> bool:
    """Return True for a URL over TLS, or on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"))


@dataclass(frozen=True)
class HttpSettings:
    """Settings of the http and sse transports; names and defaults as in TOOLS.md 2.

    port: 0 takes a free one. tokens: principals with the SHA-256 of their token, from tokens.digests; with any,
    every request needs one. oauth: an issuer whose tokens are taken too. allowed_hosts: `host`, `host:port` or `host:*`; empty means the loopback names and
    the bound host, with the port. allowed_origins: `scheme://host[:port]`, beside the server's own. max_body:
    bytes. idle_timeout, body_timeout, head_timeout and write_timeout: seconds that a session may be unused,
    a body may take in all, a request head may take in all, and a client may leave an answer unread. drain: seconds
    that requests under way may still take when the server is told to end.
    """

    transport: Literal["http", "sse"] = "http"
    host: str = "127.0.0.1"
    port: int = 8765
    tokens: Tokens = field(default=(), repr=False)
    oauth: OAuthSettings | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allow_plain_http: bool = False
    max_sessions: int = 1000
    idle_timeout: float = 1800
    max_body: int = 4 * 1024 * 1024
    max_in_flight: int = 64
    max_connections: int = 256
    body_timeout: float = 10
    head_timeout: float = 10
    write_timeout: float = 30
    drain: float = 0

    @property
    def scheme(self) -> str:
        """Return http or https."""
        return "https" if self.tls_cert else "http"

    @property
    def url_host(self) -> str:
        """Return the bound host as it stands in a URL."""
        return f"[{self.host.strip('[]')}]" if ":" in self.host else self.host

    def host_rules(self) -> tuple[Authority, ...]:
        """Return the allowed values of a Host header."""
        if self.allowed_hosts:
            return tuple(filter(None, (parse_authority(text, rule=True) for text in self.allowed_hosts)))
        names = dict.fromkeys(("127.0.0.1", "localhost", "[::1]", self.url_host))
        wildcards = ("0.0.0.0", "[::]")  # noqa: S104
        parsed = (parse_authority(f"{name}:{self.port}") for name in names if name not in wildcards)
        return tuple(filter(None, parsed))

    def origin_rules(self) -> tuple[Origin, ...]:
        """Return the allowed values of an Origin header, the server itself among them."""
        own = tuple(Origin(self.scheme, authority) for authority in self.host_rules())
        return own + tuple(filter(None, (parse_origin(text, rule=True) for text in self.allowed_origins)))


def refusal(settings: HttpSettings) -> str | None:
    """Return why a server must not start with these settings, in one line, or None if it may."""
    for text in settings.allowed_hosts:
        if parse_authority(text, rule=True) is None:
            return f"allowed_hosts: {text!r} is not host, host:port or host:*"
    for text in settings.allowed_origins:
        if parse_origin(text, rule=True) is None:
            return f"allowed_origins: {text!r} is not scheme://host, scheme://host:port or scheme://host:*"
    if settings.oauth and not is_trustworthy(settings.oauth.issuer):
        return f"oauth_issuer: {settings.oauth.issuer!r} is not served over TLS"
    if settings.oauth and not settings.oauth.scopes:
        return "oauth_scopes: name the scopes that let somebody in, with their presets"
    if (settings.tls_cert is None) != (settings.tls_key is None):
        return "tls_cert and tls_key belong together; one of them is missing"
    if is_loopback(settings.host):
        return None
    if not settings.tokens and settings.oauth is None:
        return (
            f"{settings.host} can be reached from other machines: a bearer token is needed (token_file, oauth_issuer)"
        )
    if settings.tls_cert is None and not settings.allow_plain_http:
        return (
            f"{settings.host} can be reached from other machines: TLS is needed (tls_cert, tls_key) or allow_plain_http"
        )
    return None
