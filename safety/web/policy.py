"""The operator's rules on URLs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WebPolicy:
    """The rules by the names of the settings. Hosts are lower case; private_allow holds host:port or host:*."""

    allowlist: tuple[str, ...] = ()
    denylist: tuple[str, ...] = ()
    ports: tuple[int, ...] = (80, 443, 8080, 8443)
    private_allow: tuple[str, ...] = ()
    nat64: bool = False
