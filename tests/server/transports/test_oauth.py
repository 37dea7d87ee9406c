"""Access tokens of an issuer that the test runs on loopback."""

import asyncio
import base64
import json
import time

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from toolbox_mcp.server.transports.http.bearer import digests
from toolbox_mcp.server.transports.http.oauth import FRESH, RETRY, TokenVerifier
from toolbox_mcp.server.transports.http.settings import HttpSettings, OAuthSettings, refusal

RESOURCE = "https://tools.example/mcp"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


class Issuer:
    """An authorization server that publishes keys, and nothing else."""

    def __init__(self) -> None:
        self.keys = {"rsa": RSA, "ec": EC, "ed": ED}
        self.asked: list[str] = []
        self.metadata: dict[str, str] = {}
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        self.asked.append(path)
        found = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.metadata},
            "/keys": {"keys": [{**published(key), "kid": kid, "use": "sig"} for kid, key in self.keys.items()]},
        }.get(path)
        body = json.dumps(found).encode()
        status = "200 OK" if found else "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


def published(key):
    """Return the JWK of a public key."""
    algorithm = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    kind = next(found for base, found in algorithm.items() if isinstance(key, base))
    return json.loads(kind.to_jwk(key.public_key()))


@pytest.fixture
async def issuer():
    made = Issuer()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made


def settings_of(issuer, scopes=("tools:read", "tools:write")):
    return OAuthSettings(issuer.url, RESOURCE, RESOURCE, scopes)


def token(issuer, key=RSA, kid="rsa", algorithm="RS256", headers=None, **claims):
    now = int(time.time())
    usual = {"iss": issuer.url, "aud": RESOURCE, "sub": "ann", "iat": now, "exp": now + 300, "scope": "tools:read"}
    payload = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    return jwt.encode(payload, key, algorithm, headers={"kid": kid, **(headers or {})})


def unsigned(issuer, algorithm):
    """Return a token that says which algorithm signed it, with a signature that anybody can make."""
    _, payload, _ = token(issuer).split(".")
    head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "rsa"}).encode()).rstrip(b"=").decode()
    return f"{head}.{payload}."


def by_public_key(issuer):
    """Return a token signed by a shared secret, for which the public key is taken."""
    import hashlib
    import hmac

    def part(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    pem = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head = part(json.dumps({"alg": "HS256", "kid": "rsa"}).encode())
    signed = f"{head}.{token(issuer).split('.')[1]}"
    return f"{signed}.{part(hmac.new(pem, signed.encode(), hashlib.sha256).digest())}"


async def test_whom_a_token_stands_for(issuer):
    verifier = TokenVerifier(settings_of(issuer))
    now = int(time.time())
    table = {
        "rsa": (token(issuer), "tools:read"),
        "ec": (token(issuer, EC, "ec", "ES256"), "tools:read"),
        "ed": (token(issuer, ED, "ed", "EdDSA"), "tools:read"),
        "several scopes": (token(issuer, scope="tools:write other tools:read"), "tools:write"),
        "scp": (token(issuer, scope=None, scp=["tools:write"]), "tools:write"),
        "several audiences": (token(issuer, aud=["https://else.example", RESOURCE]), "tools:read"),
        "clock a little late": (token(issuer, exp=now - 5), "tools:read"),
        "no scope": (token(issuer, scope=None), None),
        "other scope": (token(issuer, scope="tools"), None),
    }
    got = {
        name: grant.scope if (grant := await verifier.grant(given)) else "refused" for name, (given, _) in table.items()
    }
    assert got == {name: scope for name, (_, scope) in table.items()}
    assert (await verifier.grant(token(issuer))).principal == "oauth:ann"


async def test_tokens_that_are_not_good(issuer):
    verifier = TokenVerifier(settings_of(issuer))
    now = int(time.time())
    good = token(issuer)
    table = {
        "expired": token(issuer, exp=now - 60),
        "not yet": token(issuer, nbf=now + 600),
        "other audience": token(issuer, aud="https://else.example/mcp"),
        "audience that begins alike": token(issuer, aud=f"{RESOURCE}/more"),
        "wrong issuer": token(issuer, iss="https://else.example"),
        "no expiry": token(issuer, exp=None),
        "no audience": token(issuer, aud=None),
        "no subject": token(issuer, sub=None),
        "subject with a line break": token(issuer, sub="a\nb"),
        "long subject": token(issuer, sub="a" * 129),
        "other key": token(issuer, OTHER),
        "key of another kind": token(issuer, EC, "rsa", "ES256"),
        "unknown key": token(issuer, OTHER, "other"),
        "critical extension": token(issuer, headers={"crit": ["exp"]}),
        "alg none": unsigned(issuer, "none"),
        "alg RS256 without a signature": unsigned(issuer, "RS256"),
        "secret made of the public key": by_public_key(issuer),
        "changed payload": ".".join([good.split(".")[0], token(issuer, sub="bob").split(".")[1], good.split(".")[2]]),
        "shortened": good[:-2],
        "long": good + "a" * 9000,
        "two parts": ".".join(good.split(".")[:2]),
        "rubbish": "a.b.c",
        "empty": "",
    }
    assert [name for name, given in table.items() if await verifier.grant(given)] == []
    assert await verifier.grant(good)


async def test_keys_are_asked_for_again_when_they_change_and_not_for_every_wrong_token(issuer):
    now = 0.0
    verifier = TokenVerifier(settings_of(issuer), clock=lambda: now)
    assert await verifier.grant(token(issuer))
    issuer.keys = {"new": OTHER}
    rotated = token(issuer, OTHER, "new")
    assert await verifier.grant(rotated) is None
    now = RETRY + 1
    assert await verifier.grant(rotated)
    assert await verifier.grant(token(issuer)) is None
    asked = len(issuer.asked)
    for _ in range(20):
        assert await verifier.grant(token(issuer, kid="none")) is None
    assert len(issuer.asked) == asked
    issuer.keys = {}
    now += FRESH + 1
    assert await verifier.grant(rotated) is None


async def test_an_issuer_that_is_down_or_lies_lets_nobody_in(issuer):
    table = [
        {"issuer": "https://else.example"},
        {"jwks_uri": "http://198.51.100.1/keys"},
        {"jwks_uri": f"{issuer.url}/none"},
        {"jwks_uri": "file:///etc/passwd"},
    ]
    for lie in table:
        issuer.metadata = lie
        assert await TokenVerifier(settings_of(issuer)).grant(token(issuer)) is None
    nobody = OAuthSettings("http://127.0.0.1:9", RESOURCE, RESOURCE, ("tools:read",))
    assert await TokenVerifier(nobody).grant(token(issuer)) is None


async def test_a_client_is_led_to_the_issuer(served, issuer):
    async with served(oauth=settings_of(issuer)) as site, httpx2.AsyncClient() as http:
        path = "/.well-known/oauth-protected-resource/mcp"
        refused = await http.post(site.url, json={})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (
            401,
            f'Bearer resource_metadata="https://tools.example{path}"',
        )
        base = site.url.removesuffix("/mcp")
        for place in (path, "/.well-known/oauth-protected-resource"):
            found = await http.get(base + place)
            assert found.json() == {
                "resource": RESOURCE,
                "authorization_servers": [issuer.url],
                "scopes_supported": ["tools:read", "tools:write"],
                "bearer_methods_supported": ["header"],
            }
        lacking = await http.post(site.url, json={}, headers={"authorization": f"Bearer {token(issuer, scope='x')}"})
        assert lacking.status_code == 403
        assert 'error="insufficient_scope", scope="tools:read"' in lacking.headers["www-authenticate"]
        elsewhere = await http.get(base + path, headers={"host": "else.example"})
        assert elsewhere.status_code == 421
        page = await http.get(base + path, headers={"origin": "https://else.example"})
        assert (page.status_code, "www-authenticate" in page.headers) == (403, False)


async def test_a_session_belongs_to_whom_its_token_stands_for(served, issuer):
    tokens = digests({"static": "s" * 32})
    async with served(oauth=settings_of(issuer), tokens=tokens) as site:
        site.token = token(issuer)
        session = await site.session()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        found = []
        for site.token in (token(issuer), token(issuer, sub="bob"), "s" * 32, token(issuer, exp=1)):
            found.append((await site.post(ping, mcp_session_id=session))[0])
        assert found == [200, 404, 404, 401]


def test_an_issuer_without_tls_elsewhere_stops_the_start():
    table = {"http://login.example": True, "https://login.example": False, "http://127.0.0.1:9": False}
    for url, stops in table.items():
        settings = HttpSettings(oauth=OAuthSettings(url, RESOURCE, RESOURCE, ("a",)))
        assert (refusal(settings) is not None) is stops, url
