"""Signs the served cards (A2A 1.0 §8.4): detached JWS of ES256 over the canonical forms of a card.

The key is the operator's, or one that gateways make and keep in their store (`tasks/key_ring.py`). Both are published
in the gateway's key set, where the `jku` of a signature leads.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from jwt.api_jws import PyJWS

from gateway.a2a.json import Tree
from gateway.cards.canonical import served_forms
from gateway.tasks.key_ring import ALGORITHM, SigningKey, private_jwk, public_jwk

KEY_SET_PATH: Final = "/.well-known/jwks.json"
_JWS: Final = PyJWS(algorithms=[ALGORITHM])


class SigningKeys(Protocol):
    """The keys of a signer: `KeyRing`, whose keys gateways make and share by their store, or `OwnKey`."""

    @property
    def expires(self) -> float | None:
        """Return when the last key stops signing, in Unix seconds; None where that is unknown, or never."""

    async def published(self) -> Sequence[SigningKey]:
        """Return the keys of the key set, the one that signs first.

        Raises:
            StateUnavailable: There is none yet.
        """


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
        self.key = SigningKey(0, 0.0, jwt.PyJWK(jwk, ALGORITHM), public_jwk(jwk, kid))

    async def published(self) -> Sequence[SigningKey]:
        """Return the key."""
        return (self.key,)


def sign(body: bytes, key: SigningKey, key_set_url: str) -> bytes:
    """Return a rebuilt card with its signatures, one for each form that readers verify.

    Args:
        body: The card as JSON, without signatures.
        key_set_url: The `jku` of the signatures.
    """
    # The gateway's own JSON: the agent's card was read strictly before it was rebuilt.
    card: Tree = msgspec.json.decode(body)
    header = {"alg": ALGORITHM, "typ": "JOSE", "kid": key.public["kid"], "jku": key_set_url}
    compact = (_JWS.encode(form, key.private, ALGORITHM, dict(header)).split(".") for form in served_forms(card))
    signatures = [{"protected": protected, "signature": signature} for protected, _, signature in compact]
    return msgspec.json.encode({**card, "signatures": signatures}) if signatures else body
