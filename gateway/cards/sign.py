"""Signs the served cards (A2A 1.0 §8.4): detached JWS of ES256 over the canonical forms of a card.

The key is the operator's, or one that gateways make and keep in their store (`tasks/key_ring.py`). Both are published
in the gateway's key set, where the `jku` of a signature leads.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from jwt.api_jws import PyJWS

from gateway.a2a.fault import StateUnavailable
from gateway.a2a.json import Tree
from gateway.cards.canonical import served_forms
from gateway.tasks.key_ring import ALGORITHM, CARDS, Key, KeyRing, private_jwk, public_jwk
from gateway.tasks.store import Store, StoreBroken

KEY_SET_PATH: Final = "/.well-known/jwks.json"
_JWS: Final = PyJWS(algorithms=[ALGORITHM])


class SigningKeys(Protocol):
    """The keys of a signer."""

    @property
    def expires(self) -> float | None:
        """Return when the last key stops signing, in Unix seconds; None where that is unknown, or never."""

    async def published(self) -> Sequence[Key]:
        """Return the keys of the key set, the one that signs first.

        Raises:
            StateUnavailable: There is none yet.
        """


class MadeKeys:
    """Keys that gateways make and share by their store."""

    def __init__(self, store: Store, *, wall: Callable[[], float]) -> None:
        self._ring = KeyRing(store, CARDS, wall=wall)

    @property
    def expires(self) -> float | None:
        """Return when the last key stops signing, as `SigningKeys`."""
        return self._ring.expires

    async def published(self) -> Sequence[Key]:
        """Return the keys of the key set, as `SigningKeys`."""
        try:
            return await self._ring.published()
        except StoreBroken as error:
            raise StateUnavailable("cards cannot be signed now; try again soon", detail=str(error)) from error


class OwnKey:
    """The operator's key.

    Args:
        private: Of P-256.
        kid: Its name in the key set.

    Attributes:
        key: The key pair.
    """

    expires = None

    def __init__(self, private: EllipticCurvePrivateKey, kid: str) -> None:
        jwk = private_jwk(private)
        self.key = Key(0, 0.0, jwt.PyJWK(jwk, ALGORITHM), public_jwk(jwk, kid))

    async def published(self) -> Sequence[Key]:
        """Return the key."""
        return (self.key,)


def sign(body: bytes, key: Key, key_set_url: str) -> bytes:
    """Return a rebuilt card with its signatures, one for each form that readers verify.

    Args:
        body: The card as JSON, without signatures.
        key_set_url: The `jku` of the signatures.
    """
    card: Tree = msgspec.json.decode(body)
    header = {"alg": ALGORITHM, "typ": "JOSE", "kid": key.public["kid"], "jku": key_set_url}
    signatures = [_signature(form, key, header) for form in served_forms(card)]
    return msgspec.json.encode({**card, "signatures": signatures}) if signatures else body


def _signature(payload: bytes, key: Key, header: Mapping[str, str]) -> Tree:
    compact = _JWS.encode(payload, key.private, ALGORITHM, dict(header))
    protected, _, signature = compact.split(".")
    return {"protected": protected, "signature": signature}
