"""Signs notifications, and publishes the keys by which receivers verify them.

A signature is a JWT of ES256 (RFC 7519) that is good for five minutes, for one webhook's origin and one body:

    iss  the gateway's public URL          aud  the webhook's origin
    iat, exp, jti                          task_id
    request_body_sha256                    of the body's bytes, in hexadecimal

Receivers find the key by the token's `kid` in the gateway's key set (RFC 7517). Keys are numbered notes in the store,
so all gateways that share a store use the same ones. Consecutive keys overlap:

    published   a day before it signs; a minute before, where `a2a-gateway state rotate-key` made it
    signs       until the next key does: for thirty days, or until `rotate-key`
    overlap     a day longer, then it is deleted

`rotate-key --now` makes a key that signs at once and deletes all others, for a key that has leaked.
"""

import hashlib
import logging
import math
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import load_der_private_key
from jwt.algorithms import ECAlgorithm

from gateway.a2a.fault import StateUnavailable
from gateway.a2a.json import Tree
from gateway.tasks.store import Note, Store, StoreBroken

ALGORITHM: Final = "ES256"
LIFETIME: Final = 300
"""Seconds for which a signature is good."""
SIGNS_FOR: Final = 30 * 86_400
"""Seconds for which a key signs."""
OVERLAP: Final = 86_400
"""Seconds for which a key is published before it signs, and after the next one has begun to."""
ANNOUNCED: Final = 60
"""Seconds from publication to the first signature after `rotate-key`."""
REFRESH: Final = 1.0
"""Seconds after which the keys are read again."""
MOST: Final = 100
"""Keys that are published at most; only an operator makes more than two."""

_KIND: Final = "secret"
_GROUP: Final = "push-keys"
# Notes of the last release: a key for each thirty days of the calendar, and those that an operator had made since.
_FORMER: Final = "push-signing"

logger = logging.getLogger("gateway.push")


class _Stored(msgspec.Struct, frozen=True):
    """A key as the store has it; `jwk` is the private one."""

    signs_from: float
    jwk: dict[str, str]


class Key(NamedTuple):
    """A key that is in the store.

    Attributes:
        number: Later keys have greater ones.
        signs_from: Unix seconds.
        public: As receivers get it, with its `kid`.
    """

    number: int
    signs_from: float
    private: jwt.PyJWK
    public: dict[str, str]


class Signer:
    """Signs by the keys in the store; makes them where there are none, or the last one is old.

    Args:
        issuer: The gateway's public URL.
        wall: Unix seconds.
    """

    def __init__(self, store: Store, issuer: str, *, wall: Callable[[], float]) -> None:
        self._store = store
        self._issuer = issuer
        self._wall = wall
        self._known: Sequence[Key] = ()
        self._read_at = -math.inf

    async def jwks(self) -> Tree:
        """Return the key set that receivers verify by; the key that signs comes first.

        Raises:
            StateUnavailable: the store does not answer, and no key is known yet.
            StoreBroken: the store keeps no key.
        """
        return {"keys": [dict(key.public) for key in await self._published()]}

    async def sign(self, body: bytes, *, audience: str, task_id: str, id: str) -> str:  # noqa: A002 - the word
        """Return a signature of a body.

        Args:
            audience: The origin of the webhook.
            id: `jti`, which no other signature has.

        Raises:
            StateUnavailable, StoreBroken: as `jwks`.
        """
        key, *_ = await self._published()
        now = int(self._wall())
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": id,
            "task_id": task_id,
            "request_body_sha256": hashlib.sha256(body).hexdigest(),
        }
        return jwt.encode(claims, key.private, ALGORITHM, {"kid": key.public["kid"]})

    async def _published(self) -> list[Key]:
        now = self._wall()
        if not self._known or abs(now - self._read_at) >= REFRESH:
            try:
                self._known = await _current(self._store, now)
            except StateUnavailable:
                # Known keys go on signing while the store is away.
                if not self._known:
                    raise
            self._read_at = now
        return published(self._known, now)


def published(keys: Sequence[Key], now: float) -> list[Key]:
    """Return the keys of the key set, the one that signs first.

    Args:
        keys: At least one, by number.
        now: Unix seconds.
    """
    # The latest of those that have begun: one that was made later replaces one that was to begin later.
    signing = next((key for key in reversed(keys) if key.signs_from <= now), keys[0])
    return [signing, *(key for key in keys if key is not signing and not _is_retired(key, keys, now))]


def _is_retired(key: Key, keys: Sequence[Key], now: float) -> bool:
    return any(other.number > key.number and other.signs_from + OVERLAP <= now for other in keys)


class Rotated(NamedTuple):
    """The key that `rotate` has made, and when it begins to sign, in Unix seconds."""

    kid: str
    at: float


async def rotate(store: Store, now: float, *, drops: bool) -> Rotated:
    """Make another key.

    Args:
        now: Unix seconds.
        drops: Whether it signs at once, and all others are deleted.

    Raises:
        StateUnavailable: the store does not answer.
        ValueError: there are as many keys as gateways read.
    """
    known = await _numbers(store)
    if len(known) >= MOST - 1 and not drops:
        raise ValueError(f"there are {len(known)} keys; wait a day until the first ones are deleted, or add --now")
    at = now if drops else now + ANNOUNCED
    key: Key | None = None
    while key is None:
        # The new one first: a gateway that found none would make one itself.
        key = await _make(store, max(known, default=0) + 1, at)
        known = known if key is not None else await _numbers(store)
    if drops:
        await _delete(store, known)
    return Rotated(key.public["kid"], at)


async def _current(store: Store, now: float) -> list[Key]:
    """Return the keys in the store, by number; make the next one where it is time, and delete those that are retired.

    Raises:
        StateUnavailable: the store does not answer.
        StoreBroken: there is none that this gateway can read.
    """
    keys = await _read(store)
    if not keys or keys[-1].signs_from + SIGNS_FOR - OVERLAP <= now:
        signs_from = max(keys[-1].signs_from + SIGNS_FOR, now + OVERLAP) if keys else now
        number = max(await _numbers(store), default=0) + 1
        # Several gateways may do so at a time: the first one's key is everybody's.
        await _make(store, number, signs_from, None if keys else await _former(store, now))
        keys = await _read(store)
    if not keys:
        raise StoreBroken(f"{store.label}: there is no key for notifications that this gateway can read")
    retired = [key.number for key in keys if _is_retired(key, keys, now)]
    await _delete(store, retired)
    return [key for key in keys if key.number not in retired]


async def _read(store: Store) -> list[Key]:
    found = []
    for name, value in await store.group(_KIND, _GROUP, MOST):
        try:
            found.append(_key(_number(name), msgspec.json.decode(value, type=_Stored)))
        except (msgspec.MsgspecError, jwt.PyJWTError, KeyError):
            # Damaged, or a newer gateway's.
            continue
    return found


async def _numbers(store: Store) -> list[int]:
    return [_number(name) for name, _ in await store.group(_KIND, _GROUP, MOST)]


async def _make(store: Store, number: int, signs_from: float, jwk: dict[str, str] | None = None) -> Key | None:
    """Write a key; None where another one has that number by now."""
    stored = _Stored(signs_from, jwk or _jwk(generate_private_key(SECP256R1())))
    note = Note(_KIND, _name(number), msgspec.json.encode(stored), group=_GROUP)
    if await store.settle(note) != note.value:
        return None
    key = _key(number, stored)
    logger.info("made the key %s, which signs notifications from %d on", key.public["kid"], signs_from)
    return key


async def _delete(store: Store, numbers: Iterable[int]) -> None:
    for number in numbers:
        await store.drop(_KIND, _name(number))


async def _former(store: Store, now: float) -> dict[str, str] | None:
    """Return the key that gateways of the last release sign with, so that an upgrade changes none.

    None where an operator had it replaced: it may have leaked.
    """
    if await store.group(_KIND, _FORMER, 1):
        return None
    private = await store.note(_KIND, f"{_FORMER}-{int(now // SIGNS_FOR)}")
    return None if private is None else _jwk(load_der_private_key(private, None))


def _name(number: int) -> str:
    # As wide as it takes for the order of the names to be that of the numbers.
    return f"push-key-{number:09d}"


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _jwk(private: Any) -> dict[str, str]:  # noqa: ANN401 - of P-256; PyJWT says no more
    return {name: str(value) for name, value in ECAlgorithm.to_jwk(private, as_dict=True).items()}


def _key(number: int, stored: _Stored) -> Key:
    """Return a key as it is used.

    Raises:
        jwt.PyJWTError, KeyError: it is none of P-256.
    """
    # In this order, and without spaces: `kid` is the thumbprint (RFC 7638).
    point = {name: stored.jwk[name] for name in ("crv", "kty", "x", "y")}
    thumbprint = urlsafe_b64encode(hashlib.sha256(msgspec.json.encode(point)).digest()).rstrip(b"=").decode("ascii")
    public = {**point, "kid": thumbprint, "alg": ALGORITHM, "use": "sig"}
    return Key(number, stored.signs_from, jwt.PyJWK(stored.jwk, ALGORITHM), public)
