"""Signs what the gateway posts to webhooks, so that a receiver can tell it from what anybody else posts there.

A signature is a JWT of ES256 (RFC 7519) that is good for five minutes, for one webhook's origin and one body:

    iss  the gateway's public URL          aud  the webhook's origin
    iat, exp, jti                          task_id
    request_body_sha256                    of the body's bytes, in hexadecimal

Receivers find the key by the token's `kid` in the gateway's key set (RFC 7517). The key is made once and lies in the
store, where every gateway of the same store finds the same.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from jwt.algorithms import ECAlgorithm

from gateway.a2a.tree import Tree
from gateway.tasks.ledger import soon
from gateway.tasks.store import Note, Store, StoreBroken

LIFE: Final = 300
"""Seconds for which a signature is good."""
ALGORITHM: Final = "ES256"

_KIND: Final = "secret"
_KEY: Final = "push-signing"


class Signer:
    """Signs, with a key that is read from the store, or made, when it is first asked for.

    Args:
        issuer: The gateway's public URL.
        wall: Unix seconds.
    """

    def __init__(self, store: Store, issuer: str, *, wall: Callable[[], float]) -> None:
        self._store = store
        self._issuer = issuer
        self._wall = wall
        self._key: EllipticCurvePrivateKey | None = None
        self._public: dict[str, str] = {}

    async def open(self) -> None:
        """Read the key, or make it; later calls of the others do so by themselves.

        Raises:
            StateUnavailable: the store does not answer.
            StoreBroken: what it keeps is no key.
        """
        await self._opened()

    async def jwks(self) -> Tree:
        """The key set that receivers verify by.

        Raises:
            StateUnavailable, StoreBroken: as `open`.
        """
        await self._opened()
        return {"keys": [dict(self._public)]}

    async def sign(self, body: bytes, *, audience: str, task_id: str, id: str) -> str:  # noqa: A002 - the word
        """A signature of a body.

        Args:
            audience: The origin of the webhook.
            id: `jti`, which no other signature has.

        Raises:
            StateUnavailable, StoreBroken: as `open`.
        """
        key = await self._opened()
        now = int(self._wall())
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "iat": now,
            "exp": now + LIFE,
            "jti": id,
            "task_id": task_id,
            "request_body_sha256": hashlib.sha256(body).hexdigest(),
        }
        return jwt.encode(claims, key, ALGORITHM, {"kid": self._public["kid"]})

    async def _opened(self) -> EllipticCurvePrivateKey:
        if self._key is None:
            made = generate_private_key(SECP256R1())
            written = made.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
            # Of several gateways that make one at a time, one's is kept.
            stands = await soon(self._store.settle(Note(_KIND, _KEY, written)))
            key = made if stands == written else _loaded(stands, self._store.label)
            self._public = _public(key)
            self._key = key
        return self._key


def _loaded(written: bytes, label: str) -> EllipticCurvePrivateKey:
    try:
        key = load_der_private_key(written, None)
    except ValueError as error:
        raise StoreBroken(f"{label}: the key that notifications are signed with is no key") from error
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise StoreBroken(f"{label}: the key that notifications are signed with is not of P-256")
    return key


def _public(key: EllipticCurvePrivateKey) -> dict[str, str]:
    """The key as receivers get it, named by its thumbprint (RFC 7638)."""
    found = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    # In this order, and without spaces.
    point = {name: str(found[name]) for name in ("crv", "kty", "x", "y")}
    thumbprint = urlsafe_b64encode(hashlib.sha256(msgspec.json.encode(point)).digest()).rstrip(b"=").decode("ascii")
    return {**point, "kid": thumbprint, "alg": ALGORITHM, "use": "sig"}
