"""Access tokens of an external authorization server: JWTs, checked by its published keys (RFC 9068, RFC 9728)."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt
from jwt.algorithms import has_crypto

from .settings import OAuthSettings, is_trustworthy

log = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a public key alone: a secret that a key set could publish signs nothing."""

LEEWAY = 30.0
"""Seconds that clocks may differ by; a guess."""
FRESH, RETRY = 600.0, 60.0
"""Seconds for which keys are taken for current, and between two requests for those that are not known."""
FETCH_SECONDS = 5.0
MAX_DOCUMENT = 1 << 20
"""Bytes of the issuer's documents."""
MAX_TOKEN = 8192
"""Bytes of a token."""

_DOCUMENTS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_SUBJECT = re.compile(r"[!-~]{1,128}")


@dataclass(frozen=True)
class Grant:
    """Whom a token stands for, and the scope by which it is served; None where it has none that lets somebody in."""

    principal: str
    scope: str | None


@dataclass
class TokenVerifier:
    """Checks tokens of one issuer. Its keys are asked for when they are first needed, and when they are old or do not suffice."""

    settings: OAuthSettings
    clock: Callable[[], float] = time.monotonic
    _keys: Mapping[str, jwt.PyJWK] = field(default_factory=dict)
    _asked: float = float("-inf")
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        """Raise ValueError where no signature can be checked."""
        if not has_crypto:
            raise ValueError("oauth_issuer: install the extra oauth, as in pip install 'toolbox-mcp[oauth]'")

    async def grant(self, token: str) -> Grant | None:
        """Return whom a token stands for, None for a token that is not good."""
        if len(token) > MAX_TOKEN:
            return None
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS or "crit" in header:
                return None
            key = await self._key(header.get("kid"))
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=[header["alg"]],
                audience=self.settings.audience,
                issuer=self.settings.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        subject = claims["sub"]
        if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
            return None
        held = _scopes(claims)
        found = [scope for scope in self.settings.scopes if scope in held]
        return Grant(f"oauth:{subject}", found[-1] if found else None)

    async def _key(self, kid: object) -> jwt.PyJWK | None:
        """Return the key of an id, or without one the only key there is."""
        async with self._asking:
            since = self.clock() - self._asked
            if since > FRESH or (self._find(kid) is None and since > RETRY):
                self._asked = self.clock()
                try:
                    self._keys = await _published(self.settings.issuer)
                except (httpx.HTTPError, OSError, ValueError, TypeError, LookupError, jwt.PyJWTError) as failure:
                    log.warning("the keys of %s cannot be had: %s", self.settings.issuer, type(failure).__name__)
            return self._find(kid)

    def _find(self, kid: object) -> jwt.PyJWK | None:
        if isinstance(kid, str):
            return self._keys.get(kid)
        return next(iter(self._keys.values())) if kid is None and len(self._keys) == 1 else None


def _scopes(claims: Mapping[str, Any]) -> set[str]:
    """Return the scopes of a token: `scope` of RFC 9068, or the `scp` that some issuers have for it."""
    given = claims.get("scope", claims.get("scp", ""))
    return set(given.split()) if isinstance(given, str) else {each for each in given if isinstance(each, str)}


async def _published(issuer: str) -> Mapping[str, jwt.PyJWK]:
    """Return the signing keys that an issuer publishes, by id."""
    async with httpx.AsyncClient(trust_env=False, timeout=FETCH_SECONDS) as client, asyncio.timeout(3 * FETCH_SECONDS):
        about = await _metadata(client, issuer)
        if about.get("issuer") != issuer:
            raise ValueError("the metadata is of another issuer")
        uri = str(about["jwks_uri"])
        if not is_trustworthy(uri):
            raise ValueError("the keys are not served over TLS")
        found = {}
        for number, entry in enumerate((await _document(client, uri))["keys"]):
            if entry.get("use", "sig") == "sig":
                try:
                    found[str(entry.get("kid", number))] = jwt.PyJWK(entry)
                except jwt.PyJWTError:
                    # A kind of key that is not known here; others may do.
                    continue
        return found


async def _metadata(client: httpx.AsyncClient, issuer: str) -> Mapping[str, Any]:
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    origin = f"{parts.scheme}://{parts.netloc}"
    # RFC 8414 puts the well-known part before the path, OpenID Connect behind it.
    places = [f"{origin}{_DOCUMENTS[0]}{path}", f"{origin}{_DOCUMENTS[1]}{path}", f"{origin}{path}{_DOCUMENTS[1]}"]
    for place in dict.fromkeys(places):
        try:
            return await _document(client, place)
        except (httpx.HTTPStatusError, ValueError, TypeError):
            continue
    raise ValueError("it publishes no metadata")


async def _document(client: httpx.AsyncClient, url: str) -> Mapping[str, Any]:
    body = bytearray()
    async with client.stream("GET", url, headers={"accept": "application/json"}) as answer:
        answer.raise_for_status()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > MAX_DOCUMENT:
                raise ValueError("the document is too long")
    found = json.loads(body)
    if not isinstance(found, dict):
        raise TypeError("the document is no object")
    return found
