"""Signs what the gateway posts to webhooks, so that a receiver can tell it from what anybody else posts there.

A signature is a JWT of ES256 (RFC 7519) that is good for five minutes, for one webhook's origin and one body:

    iss  the gateway's public URL          aud  the webhook's origin
    iat, exp, jti                          task_id
    request_body_sha256                    of the body's bytes, in hexadecimal

Receivers find the key by the token's `kid` in the gateway's key set (RFC 7517). Keys lie in the store, where every
gateway of the same store finds the same: one for each *term* of thirty days, made by whoever needs it first. A key is
in the set from a day before its term until a day after it, so that whoever keeps the set for a while has the next one
in time, clocks may differ, and what was signed last can still be verified. Then the store forgets it.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final, NamedTuple

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

from gateway.a2a.fault import StateUnavailable
from gateway.a2a.tree import Tree
from gateway.tasks.ledger import soon
from gateway.tasks.store import Note, Store, StoreBroken

LIFE: Final = 300
"""Seconds for which a signature is good."""
ALGORITHM: Final = "ES256"

TERM: Final = 30 * 86_400
"""Seconds for which a key signs."""
MARGIN: Final = 86_400
"""Seconds for which it is in the key set before and after."""

_KIND: Final = "secret"
_KEY: Final = "push-signing"
# A Redis that was started empty would give another key to the next gateway that asks.
_AGAIN: Final = 60


class _Key(NamedTuple):
    """The key of a term.

    Attributes:
        written: As the store has it.
        public: As receivers get it.
        read: When the store was asked for it last, in Unix seconds.
    """

    private: EllipticCurvePrivateKey
    written: bytes
    public: dict[str, str]
    read: float


class Signer:
    """Signs, with keys that are read from the store, or made, when they are first asked for.

    Args:
        issuer: The gateway's public URL.
        wall: Unix seconds.
    """

    def __init__(self, store: Store, issuer: str, *, wall: Callable[[], float]) -> None:
        self._store = store
        self._issuer = issuer
        self._wall = wall
        # By the numbers of their terms.
        self._keys: dict[int, _Key] = {}
        # Keys in whose place the store had others, and until when they are in the set.
        self._replaced: list[tuple[float, dict[str, str]]] = []

    async def open(self) -> None:
        """Read the key, or make it; later calls of the others do so by themselves.

        Raises:
            StateUnavailable: the store does not answer.
            StoreBroken: what it keeps is no key.
        """
        await self._key(_term(self._wall()))

    async def jwks(self) -> Tree:
        """The key set that receivers verify by: the key that signs first.

        Raises:
            StateUnavailable, StoreBroken: as `open`.
        """
        now = self._wall()
        current = _term(now)
        found = [await self._key(current)]
        if (following := _term(now + MARGIN)) != current:
            found.append(await self._key(following))
        if (before := _term(now - MARGIN)) != current and (ended := await self._ended(before)) is not None:
            found.append(ended)
        self._replaced = [each for each in self._replaced if each[0] > now]
        return {"keys": [dict(key.public) for key in found] + [dict(public) for _, public in self._replaced]}

    async def sign(self, body: bytes, *, audience: str, task_id: str, id: str) -> str:  # noqa: A002 - the word
        """A signature of a body.

        Args:
            audience: The origin of the webhook.
            id: `jti`, which no other signature has.

        Raises:
            StateUnavailable, StoreBroken: as `open`.
        """
        now = int(self._wall())
        key = await self._key(_term(now))
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "iat": now,
            "exp": now + LIFE,
            "jti": id,
            "task_id": task_id,
            "request_body_sha256": hashlib.sha256(body).hexdigest(),
        }
        return jwt.encode(claims, key.private, ALGORITHM, {"kid": key.public["kid"]})

    async def _key(self, term: int) -> _Key:
        """The key of a term that is, or begins soon."""
        now, known = self._wall(), self._keys.get(term)
        if known is not None and abs(now - known.read) < _AGAIN:
            return known
        # Of several gateways that make one at a time, one's is kept; one that the store has lost it gets back.
        written = _new() if known is None else known.written
        try:
            stands = await soon(self._store.settle(Note(_KIND, f"{_KEY}-{term}", written, until=_forgotten(term))))
        except StateUnavailable:
            if known is None:
                raise
            stands = written
        if known is not None and stands != known.written:
            self._replaced.append((now + MARGIN, known.public))
        key = known._replace(read=now) if known is not None and stands == known.written else self._loaded(stands, now)
        self._keys = {number: each for number, each in self._keys.items() if _forgotten(number) > now} | {term: key}
        return key

    async def _ended(self, term: int) -> _Key | None:
        """The key of a term that is over; None where nothing was signed in it."""
        if (known := self._keys.get(term)) is not None:
            return known
        written = await soon(self._store.note(_KIND, f"{_KEY}-{term}"))
        if written is None:
            return None
        key = self._keys[term] = self._loaded(written, self._wall())
        return key

    def _loaded(self, written: bytes, now: float) -> _Key:
        private = _loaded(written, self._store.label)
        return _Key(private, written, _public(private), now)


def _term(moment: float) -> int:
    """The number of the term that a moment lies in."""
    return int(moment // TERM)


def _forgotten(term: int) -> int:
    """When the key of a term is forgotten, in Unix seconds."""
    return (term + 1) * TERM + 2 * MARGIN


def _new() -> bytes:
    return generate_private_key(SECP256R1()).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


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
