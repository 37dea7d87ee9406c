"""Which IP addresses are public. Own tables: the standard library's `is_global` passes 22 of 47 that must be refused."""

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

REFUSED_V4 = tuple(
    IPv4Network(each)
    for each in [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ]
)
"""IANA's special-purpose registry, multicast, the reserved range, and the address of Azure's host agent."""

GLOBAL_V6 = IPv6Network("2000::/3")
REFUSED_V6 = tuple(
    IPv6Network(each) for each in ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]
)
"""Within global unicast: protocol assignments with Teredo, documentation, 6to4, AS112."""
NAT64 = IPv6Network("64:ff9b::/96")


def refusal(address: Address, *, nat64: bool = False) -> str | None:
    """Return why an address may not be reached, None for a public one. nat64: judge 64:ff9b::/96 by the IPv4 inside."""
    if isinstance(address, IPv4Address):
        return next((f"in {network}" for network in REFUSED_V4 if address in network), None)
    if address.scope_id is not None:
        return "it has a zone"
    if address.ipv4_mapped is not None:
        return refusal(address.ipv4_mapped)
    if nat64 and address in NAT64:
        return refusal(IPv4Address(int(address) & 0xFFFFFFFF))
    if address not in GLOBAL_V6:
        return "no global unicast address"
    return next((f"in {network}" for network in REFUSED_V6 if address in network), None)


def inner(address: Address) -> Address:
    """Return the IPv4 address that a mapped or NAT64 one leads to, any other as it is."""
    if isinstance(address, IPv4Address):
        return address
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in NAT64 else address.ipv4_mapped or address


def parsed(text: str) -> Address | None:
    """Return the address that a text is in its canonical form, None for anything else."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
