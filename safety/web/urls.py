"""The parameter type of URLs: parsed without leniency, judged by scheme, host, port, lists and, for literals, address."""

import re
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated
from urllib.parse import quote, urljoin

import idna
from pydantic import Field

from ..errors import Code, ToolError
from ..guard import Guard, GuardContext
from .addresses import Address, inner, parsed, refusal
from .policy import WebPolicy

MAX_URL = 4096
"""Characters of a URL."""

INTERNAL_NAMES = frozenset(
    [
        "localhost",
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
        "instance-data.ec2.internal",
        "metadata.azure.internal",
        "kubernetes.default.svc",
        "host.docker.internal",
        "gateway.docker.internal",
        "host.containers.internal",
    ]
)
INTERNAL_SUFFIXES = [".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa", ".corp", ".home", ".svc", ".cluster.local", ".onion", ".in-addr.arpa", ".ip6.arpa", ".invalid", ".test"]  # fmt: skip
"""Names that stand for this machine, its network or a cloud's metadata."""

_MALFORMED = re.compile(r"[\x00-\x20\x7f-\xa0\\\ud800-\udfff\u2028\u2029\ufeff\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
_PARTS = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_DOTTED_QUAD = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")


@dataclass(frozen=True)
class Url:
    """A judged URL. address: of a literal. free: the operator granted it, so that addresses are not judged.

    unsafe: the whole call is free, redirects included.
    """

    scheme: str
    host: str
    port: int
    target: str
    address: Address | None
    free: bool = False
    unsafe: bool = False
    policy: WebPolicy = field(default=WebPolicy(), repr=False, compare=False)

    @property
    def origin(self) -> tuple[str, str, int]:
        """The scheme, host and port, which credentials belong to."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The host, in brackets where it is IPv6, with the port unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _default_port(self.scheme) else f"{host}:{self.port}"

    def __str__(self) -> str:
        """Return the URL without its fragment."""
        return f"{self.scheme}://{self.authority}{self.target}"

    def joined(self, location: str) -> "Url":
        """Return the target of a redirect, judged anew. ToolError(url_blocked)."""
        if len(location) > MAX_URL or _MALFORMED.search(location):
            raise _blocked(location, "the redirect is malformed")
        try:
            there = judge(urljoin(str(self), location), self.policy, unsafe=self.unsafe)
        except ValueError:
            raise _blocked(location, "the redirect is malformed") from None
        if there.free and not self.free:
            # What the operator opened to the model is not open to whoever writes a public page.
            raise _blocked(str(there), "a public address redirects to one that is not")
        if self.scheme == "https" and there.scheme == "http":
            raise _blocked(str(there), "it redirects from https to http")
        return there


def judge(raw: str, policy: WebPolicy, *, unsafe: bool = False) -> Url:
    """Parse and judge a URL. unsafe lifts all rules on hosts, ports and addresses but the deny list. ToolError(url_blocked)."""
    url = _parse(raw)
    if is_denied(url.host, policy):
        raise _blocked(raw, f"{url.host} is in web_denylist")
    granted = {f"{url.host}:{url.port}", f"{url.host}:*", f"[{url.host}]:{url.port}", f"[{url.host}]:*"}
    if unsafe or granted & {*policy.private_allow}:
        return replace(url, free=True, unsafe=unsafe, policy=policy)
    if url.port not in policy.ports:
        raise _blocked(raw, f"port {url.port} is not in web_ports")
    if policy.allowlist and not _covers(policy.allowlist, url.host):
        raise _blocked(raw, f"{url.host} is not in web_allowlist")
    if url.address is not None:
        if why := refusal(url.address, nat64=policy.nat64):
            raise _blocked(raw, f"{url.host} is not public ({why})")
    elif "." not in url.host or url.host in INTERNAL_NAMES or url.host.endswith(tuple(INTERNAL_SUFFIXES)):
        raise _blocked(raw, f"{url.host} is an internal name")
    return replace(url, policy=policy)


def is_denied(host: str, policy: WebPolicy) -> bool:
    """Return True where a name, or an address in whatever notation, is in the operator's deny list."""
    address = parsed(host)
    return _covers(policy.denylist, host) or (address is not None and _covers(policy.denylist, str(inner(address))))


def _parse(raw: str) -> Url:
    if len(raw) > MAX_URL:
        raise _blocked(raw, f"it has more than {MAX_URL} characters")
    if _MALFORMED.search(raw):
        raise _blocked(raw, "it holds a control character, a blank or a backslash")
    parts = _PARTS.fullmatch(raw)
    if parts is None:
        bare = _BARE.fullmatch(raw)
        scheme = "http" if bare and bare[1] else "https"
        raise _blocked(raw, "only http and https URLs are fetched", f"{scheme}://{raw}" if bare else None)
    scheme, authority, target = parts[1].lower(), parts[2], parts[3]
    if "@" in authority:
        raise _blocked("the URL", "it holds credentials")
    if "%" in authority:
        raise _blocked(raw, "its host holds a percent sign")
    host, port, address = _bracketed(raw, authority) if authority.startswith("[") else _named(raw, authority)
    if port and (not port.isdecimal() or not port.isascii() or len(port) > 5 or not 0 < int(port) < 65_536):
        raise _blocked(raw, "its port is no number from 1 to 65535")
    number = int(port) if port else _default_port(scheme)
    target = target if target.startswith("/") else f"/{target}"
    # What is no ASCII goes as percent-encoded UTF-8, as browsers send it; what is encoded already stays.
    return Url(scheme, host, number, quote(target, safe="/?:@!$&'()*+,;=-._~%[]"), address)


def _bracketed(raw: str, authority: str) -> tuple[str, str, Address]:
    found = re.fullmatch(r"\[([0-9a-fA-F:.]+)\](?::([^:]*))?", authority)
    try:
        address = IPv6Address(found[1] if found else "")
    except ValueError:
        raise _blocked(raw, "its host is no IPv6 address") from None
    assert found is not None
    return str(address), found[2] or "", address


def _named(raw: str, authority: str) -> tuple[str, str, Address | None]:
    host, _, port = authority.partition(":")
    if ":" in port:
        raise _blocked(raw, "an IPv6 address has to be in brackets")
    if not host.isascii():
        try:
            # IDNA 2008 without the compatibility mapping, by which full-width digits become an address.
            host = _idna(host)
        except (idna.IDNAError, UnicodeError):
            raise _blocked(raw, "its host is no valid name") from None
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if not host or len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _blocked(raw, "its host is no valid name")
    if not _NUMBER.fullmatch(labels[-1]):
        return host, port, None
    # A name that ends in a number is an address to browsers, in forms that resolvers read differently.
    try:
        if _DOTTED_QUAD.fullmatch(host):
            return host, port, IPv4Address(host)
    except ValueError:
        pass
    raise _blocked(raw, "its address is not in canonical form")


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def _covers(hosts: tuple[str, ...], host: str) -> bool:
    """Return True where a host or one of its parent domains is in a list."""
    names = [_listed(each.strip("[]").removeprefix("*.").rstrip(".")) for each in hosts]
    return any(host == name or host.endswith(f".{name}") for name in names)


def _listed(host: str) -> str:
    """Return a host of a list in the form that a URL has it in."""
    if (address := parsed(host)) is not None:
        return str(inner(address))
    try:
        return host.lower() if host.isascii() else _idna(host)
    except (idna.IDNAError, UnicodeError):
        return host


def _idna(host: str) -> str:
    return idna.encode(host.lower(), uts46=False, std3_rules=True).decode()


_BARE = re.compile(
    r"(?:(localhost|127\.0\.0\.1)|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)(?::[0-9]{1,5})?(?:/[\w./?&=%-]*)?", re.ASCII
)
"""An address without its scheme; the group is this machine."""


def _blocked(raw: str, why: str, meant: str | None = None) -> ToolError:
    shown = raw if len(raw) <= 100 else f"{raw[:100]}..."
    return ToolError(
        Code.URL_BLOCKED,
        f"{shown!r} is refused: {why}",
        f"did you mean {meant[:200]}?" if meant else "only public http and https addresses are reached",
    )


def _guard(raw: str, judging: GuardContext) -> Url:
    try:
        return judge(raw, judging.policy.web)
    except ToolError as refused:
        if not judging.unsafe:
            raise
        # What the deny list or the parser refuses stays refused.
        url = judge(raw, judging.policy.web, unsafe=True)
        if not judging.override(f"url {url}"):
            raise refused from None
        return url


WebUrl = Annotated[Url, Guard(_guard), Field(description="http or https")]
"""A URL that may be reached. The handler gets it parsed; where it leads and each redirect are judged when it is fetched."""

FORBIDDEN_HEADERS = frozenset(
    [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "keep-alive",
        "expect",
        "accept-encoding",
    ]
)
"""Headers that frame a message or choose where it goes, which the client of this server writes itself."""
METHOD_OVERRIDES = frozenset(["x-http-method-override", "x-http-method", "x-method-override"])
"""Headers by which a server takes a request for one of another method."""


def _headers(raw: dict[str, str | int | float], judging: GuardContext) -> dict[str, str]:
    made: dict[str, str] = {}
    for name, value in raw.items():
        text = str(value).strip(" \t")
        lower = name.lower()
        if lower in FORBIDDEN_HEADERS or lower.startswith("proxy-"):
            raise ToolError(Code.INVALID_ARGS, f"headers: {name} may not be set")
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}", name):
            raise ToolError(Code.INVALID_ARGS, f"headers: {name[:100]!r} is no name of a header")
        if len(text) > 8192 or not re.fullmatch(r"[\t\x20-\x7e\x80-\xff]*", text):
            raise ToolError(
                Code.INVALID_ARGS, f"headers: the value of {name} holds a line end or control character, or is too long"
            )
        made[name] = text
    if len(made) > 64:
        raise ToolError(Code.INVALID_ARGS, "headers: at most 64")
    return made


Headers = Annotated[dict[str, str], Guard(_headers, accepts=dict[str, str | int | float])]
"""Headers of a request: well-formed, and none that frames the message or names its host."""
