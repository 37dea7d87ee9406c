"""Host and Origin headers as values: parsed once, compared whole, never by prefix."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal

DEFAULT_PORTS = {"http": 80, "https": 443}

_AUTHORITY = re.compile(
    r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)(?::([0-9]{1,5}|\*))?", re.ASCII
)
_ORIGIN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31})://([^/?#@\\\s]+)", re.ASCII)


@dataclass(frozen=True)
class Authority:
    """A host and its port. port: None where none is written, `*` in a rule that takes any."""

    host: str
    port: int | Literal["*"] | None

    def admits(self, other: "Authority", scheme: str) -> bool:
        """Return True if this rule covers another authority; a missing port is the scheme's."""
        if self.host != other.host:
            return False
        default = DEFAULT_PORTS.get(scheme)
        return self.port == "*" or (self.port or default) == (other.port or default)


@dataclass(frozen=True)
class Origin:
    """A scheme with an authority."""

    scheme: str
    authority: Authority

    def admits(self, other: "Origin") -> bool:
        """Return True if this rule covers another origin."""
        return self.scheme == other.scheme and self.authority.admits(other.authority, self.scheme)


def parse_authority(text: str, *, rule: bool = False) -> Authority | None:
    """Return `host`, `host:port` or `[v6]:port` as a value, None if it is anything else.

    Names are compared in lower case and addresses in their canonical form. A name that ends in a number but is
    no plain address (127.1, 0x7f.0.0.1) is refused. With rule, the port may be `*`.
    """
    match = _AUTHORITY.fullmatch(text)
    if match is None or (match[2] == "*" and not rule):
        return None
    host = _host(match[1])
    if host is None:
        return None
    if match[2] is None:
        return Authority(host, None)
    if match[2] == "*":
        return Authority(host, "*")
    port = int(match[2])
    return Authority(host, port) if 0 < port < 65536 else None


def parse_origin(text: str, *, rule: bool = False) -> Origin | None:
    """Return `scheme://host[:port]` as a value, None if it is anything else, `null` included."""
    match = _ORIGIN.fullmatch(text)
    authority = match and parse_authority(match[2], rule=rule)
    return Origin(match[1].lower(), authority) if match and authority else None


def is_loopback(host: str) -> bool:
    """Return True if a bind to this host, brackets allowed, can only be reached from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _host(text: str) -> str | None:
    if text.startswith("["):
        try:
            return f"[{ipaddress.IPv6Address(text[1:-1]).compressed}]"
        except ValueError:
            return None
    name = text.lower()
    last = name.rsplit(".", 1)[-1]
    if last.isdigit() or last.startswith("0x"):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            return None
    return name
