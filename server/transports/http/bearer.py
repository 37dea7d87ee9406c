"""Bearer tokens: who the Authorization header of a request stands for."""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping

_BEARER = re.compile(rb"bearer +([\x21-\x7e]+) *", re.IGNORECASE)

Tokens = tuple[tuple[str, bytes], ...]
"""Principals, each with the SHA-256 of a token. A name with two tokens is one principal."""


def digests(tokens: Mapping[str, str]) -> Tokens:
    """Return the tokens of the configuration, by principal, as the gate compares them."""
    return tuple((name, hashlib.sha256(token.encode()).digest()) for name, token in tokens.items())


def principal_of(authorization: Iterable[bytes], tokens: Tokens) -> str | None:
    """Return whose token the Authorization headers of a request carry, None without exactly one good one.

    Takes the same time whichever token matches.
    """
    given = bearer(authorization)
    digest = hashlib.sha256((given or "").encode("ascii")).digest()
    found: str | None = None
    for name, known in tokens:
        if hmac.compare_digest(digest, known):
            found = name
    return found if given else None


def bearer(authorization: Iterable[bytes]) -> str | None:
    """Return the token of the Authorization headers of a request, None without exactly one that holds one."""
    headers = list(authorization)
    match = _BEARER.fullmatch(headers[0]) if len(headers) == 1 else None
    return match[1].decode("ascii") if match else None
