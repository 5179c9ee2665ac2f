"""An identity provider's keys, key set documents, and tokens, good ones and any other bytes."""

import asyncio
import atexit
import base64
import hashlib
import json
from collections.abc import Coroutine, Mapping
from functools import cache
from typing import Any, TypeVar

import httpx
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm, get_default_algorithms

from gateway.config.limit import Verification
from gateway.config.model import ALGORITHMS, Auth
from gateway.identity.authenticator import Authenticator, Credentials
from gateway.identity.jwks import KeySet
from gateway.principal import Principal

ISSUER = "https://login.example.com"
NOW = 1_800_000_000.0
KEYS = "/keys"
DISCOVERY = "/.well-known/openid-configuration"

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey


@cache
def rsa_key(serial: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """One key per serial."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(serial: int = 0, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


@cache
def ed_key(serial: int = 0) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def private_for(algorithm: str) -> Private:
    if algorithm[:2] in {"RS", "PS"}:
        return rsa_key()
    curves: dict[str, type[ec.EllipticCurve]] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
    return ec_key(0, curves[algorithm]) if algorithm in curves else ed_key()


def jwk(key: Private, kid: str | None = "k1", **members: object) -> dict[str, object]:
    """The public half, as a key set has it."""
    public = key.public_key()
    written: dict[str, Any]
    if isinstance(public, rsa.RSAPublicKey):
        written = RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(public, ec.EllipticCurvePublicKey):
        written = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        written = OKPAlgorithm.to_jwk(public, as_dict=True)
    written.pop("key_ops", None)
    return {**written, **({} if kid is None else {"kid": kid}), **members}


def key_set_document(*keys: Mapping[str, object]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def segment(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def compact(header: bytes | Mapping[str, object], payload: bytes | Mapping[str, object], key: Any = None) -> bytes:
    """A token with exactly this header and payload, truly signed by `key` with the header's algorithm."""
    algorithm = "RS256" if isinstance(header, bytes) else str(header.get("alg"))
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, payload)]
    signed = segment(parts[0]) + b"." + segment(parts[1])
    signer = get_default_algorithms()[algorithm if algorithm in ALGORITHMS else "RS256"]
    return signed + b"." + segment(signer.sign(signed, rsa_key() if key is None else key))


def claims(**changes: object) -> dict[str, object]:
    """Return the claims of a good token; a member that is `...` is left out."""
    said = {"iss": ISSUER, "aud": "agents", "exp": NOW + 3600, "sub": "ada", "org": "acme", **changes}
    return {name: value for name, value in said.items() if value is not ...}


def token(key: Any = None, header: Mapping[str, object] | None = None, **changes: Any) -> bytes:
    return compact({"alg": "RS256", "kid": "k1", "typ": "JWT", **(header or {})}, claims(**changes), key)


def unchecked_auth(**issuer: object) -> Auth:
    """A configuration that the file format does not let pass."""
    good = auth().issuers["corp"]
    return Auth.model_construct(issuers={"corp": good.model_copy(update=issuer)}, api_keys={})


def auth(
    api_keys: Mapping[str, object] | None = None, verification: Mapping[str, object] | None = None, **issuer: Any
) -> Auth:
    settings = {"issuer": ISSUER, "audience": "agents", "tenant_claim": "org", **issuer}
    return Auth.model_validate(
        {"issuers": {"corp": settings}, "api_keys": api_keys or {}, "verification": verification or {}}
    )


BOUNDS = Verification().as_settings()
"""The default bounds."""


class Published:
    """The key set of an issuer, served without a socket.

    Attributes:
        documents: Served documents by path; an issuer that is down has none.
        headers: Of every answer.
        asked: The paths that were asked for.
        knocked: Set when one is.
        open: Cleared, every answer waits until it is set again.
        now: The monotonic clock, which stands still.
        results: Whether each reading was good.
        key_set: Reads when it is told to.
    """

    def __init__(self, *keys: Mapping[str, object], **settings: Any) -> None:
        self.documents: dict[str, bytes] = {KEYS: key_set_document(*keys)} if keys else {}
        self.headers: dict[str, str] = {}
        self.asked: list[str] = []
        self.knocked = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()
        self.now = 1000.0
        self.results: asyncio.Queue[bool] = asyncio.Queue()
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        asked = {
            "issuer_url": ISSUER,
            "jwks_url": ISSUER + KEYS,
            "algorithms": ALGORITHMS,
            "http": http,
            "bounds": BOUNDS,
        }
        hooks = {"clock": lambda: self.now, "on_result": lambda _, good: self.results.put_nowait(good)}
        self.key_set = KeySet("corp", **{**asked, **hooks, "wall": lambda: NOW, **settings})

    def publish(self, *keys: Mapping[str, object]) -> bool:
        """Serve other keys, and have them read."""
        self.documents[KEYS] = key_set_document(*keys)
        return self.read()

    def read(self) -> bool:
        """Have the keys read; whether that was good."""
        return run(self.key_set.refresh())

    async def exhaust(self) -> None:
        """Use up the one reading that unknown keys may cause for now."""
        waiting = asyncio.ensure_future(self.key_set.wait_for("nobody"))
        await asyncio.sleep(0)
        await self.key_set.refresh()
        await waiting

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        self.knocked.set()
        await self.open.wait()
        document = self.documents.get(request.url.path)
        if document is None:
            return httpx.Response(404)
        return httpx.Response(200, headers=self.headers, stream=httpx.ByteStream(document))


def published(*keys: Mapping[str, object], **settings: Any) -> Published:
    """Keys that have been read already, `k1` where none are given."""
    found = Published(*(keys or (jwk(rsa_key()),)), **settings)
    assert found.read()
    return found


def authenticator(
    keys: KeySet | None = None, settings: Auth | None = None, *, anonymous: bool = False, **more: Any
) -> Authenticator:
    used = auth() if settings is None else settings
    key_sets = {"corp": published().key_set if keys is None else keys} if used.issuers else {}
    bounds = used.verification.as_settings()
    return Authenticator(used.as_settings(), anonymous=anonymous, bounds=bounds, key_sets=key_sets, **more)


# Not a Runner: its close starts a thread, which Python 3.12 refuses while it ends.
_LOOP = asyncio.new_event_loop()
atexit.register(_LOOP.close)
_T = TypeVar("_T")


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine, for tests that have no loop of their own."""
    return _LOOP.run_until_complete(coroutine)


def identify(who: Authenticator, shown: Credentials, now: float = NOW, tick: float = 0.0) -> Principal | None:
    """The caller that a request is authenticated as."""
    return run(who.authenticate(shown, lambda: now, tick))


def bearer(credential: bytes) -> Credentials:
    return Credentials(authorization=(b"Bearer " + credential,))


def sha256(credential: bytes) -> str:
    return hashlib.sha256(credential).hexdigest()
