"""Signs what the gateway posts to webhooks, so that a receiver can tell it from what anybody else posts there.

A signature is a JWT of ES256 (RFC 7519) that is good for five minutes, for one webhook's origin and one body:

    iss  the gateway's public URL          aud  the webhook's origin
    iat, exp, jti                          task_id
    request_body_sha256                    of the body's bytes, in hexadecimal

Receivers find the key by the token's `kid` in the gateway's key set (RFC 7517). Keys lie in the store, where every
gateway of the same store finds the same: one for each *term* of thirty days, made by whoever needs it first. A key is
in the set from a day before its term until a day after it, so that whoever keeps the set for a while has the next one
in time, clocks may differ, and what was signed last can still be verified. Then the store forgets it. Within a term an
operator may have another key take its place (`rotation.py`), which every gateway looks for once a second.
"""

import hashlib
import math
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
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
from gateway.push.rotation import LEAD, MOST, Rotation, chain, note, rotation, rotations
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
LOOK: Final = 1.0
"""Seconds after which what the store has of rotations is read again."""

# A Redis that was started empty would give another key to the next gateway that asks.
_AGAIN: Final = 60
_MOST_LOADED: Final = 100


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
        # Keys that operators had take the place of others, and when they were read; keys by the store's words.
        self._rotations: list[Rotation] = []
        self._looked = -math.inf
        self._loads: dict[bytes, _Key] = {}

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
        found = await self._chain(current)
        if (following := _term(now + MARGIN)) != current:
            found += await self._chain(following)
        dropped = max((one.made for one in self._rotations if one.drops), default=-math.inf)
        before = _term(now - MARGIN)
        if before != current and dropped < current * TERM and (ended := await self._ended(before)) is not None:
            found += self._in_force(ended, before, now)
        self._replaced = [each for each in self._replaced if each[0] > now and each[0] > dropped + MARGIN]
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
        key = (await self._chain(_term(now)))[0]
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

    async def _chain(self, term: int) -> list[_Key]:
        """The keys of a term that is, or begins soon, as they are in the key set; the one that signs first."""
        now = self._wall()
        own = await self._key(term)
        if abs(now - self._looked) >= LOOK:
            # Who cannot look goes on with what it knows.
            with suppress(StateUnavailable):
                self._rotations = await rotations(self._store, _KIND)
                self._looked = now
        return self._in_force(own, term, max(now, term * TERM))

    def _in_force(self, own: _Key, term: int, now: float) -> list[_Key]:
        since = [one for one in self._rotations if one.term == term]
        if not since:
            return [own]
        found = []
        for written in chain(own.written, since, now):
            key = own if written == own.written else self._loads.get(written)
            if key is None:
                if len(self._loads) >= _MOST_LOADED:
                    self._loads.clear()
                key = self._loads[written] = self._loaded(written, now)
            found.append(key)
        return found

    async def _key(self, term: int) -> _Key:
        """The key of a term that is, or begins soon."""
        now, known = self._wall(), self._keys.get(term)
        if known is not None and abs(now - known.read) < _AGAIN:
            return known
        # Of several gateways that make one at a time, one's is kept; one that the store has lost it gets back.
        written = _new() if known is None else known.written
        try:
            stands = await self._store.settle(Note(_KIND, f"{_KEY}-{term}", written, until=_forgotten(term)))
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
        written = await self._store.note(_KIND, f"{_KEY}-{term}")
        if written is None:
            return None
        key = self._keys[term] = self._loaded(written, self._wall())
        return key

    def _loaded(self, written: bytes, now: float) -> _Key:
        private = _loaded(written, self._store.label)
        return _Key(private, written, _public(private), now)


class Rotated(NamedTuple):
    """What `rotate` has done.

    Attributes:
        kid: Of the key that signs from then on.
        at: When that is, in Unix seconds.
    """

    kid: str
    at: float


async def rotate(store: Store, now: float, *, drops: bool) -> Rotated:
    """Have another key sign, soon, or where the one before is worth nothing any more, as soon as gateways look.

    Args:
        now: Unix seconds.
        drops: Whether none of the keys that there are may be worth anything from now on.

    Raises:
        StateUnavailable: the store does not answer.
        ValueError: that was done so often within two terms that no gateway would look at one more.
    """
    if len(await rotations(store, _KIND)) > MOST - 2:
        raise ValueError(f"that was done {MOST} times within {2 * TERM // 86_400} days; no gateway looks at more")
    at = now if drops else now + LEAD
    terms = [_term(at)]
    if drops and await store.note(_KIND, f"{_KEY}-{terms[0] + 1}") is not None:
        # Who has the one may have the other, which is there a day before its time.
        terms.append(terms[0] + 1)
    new = _new()
    for term, written in zip(terms, (new, _new()), strict=False):
        one = rotation(term, now, at, written, drops=drops)
        await store.keep(note(one, _KIND, _forgotten(term)))
    return Rotated(_public(_loaded(new, store.label))["kid"], at)


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
