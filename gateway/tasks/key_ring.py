"""Signing keys that gateways make themselves: rings of ES256 keys in the store, rotated with an overlap.

Keys are numbered notes in the store, so all gateways that share a store use the same ones. A ring serves one purpose,
and its keys are used for no other. Consecutive keys of a ring overlap:

    published   a day before it signs; a minute before, where `a2a-gateway state rotate-key` made it
    signs       until the next key does: for thirty days, or until `rotate-key`
    overlap     a day longer, then it is deleted

`rotate-key --now` makes a key that signs at once and deletes all others of its ring, for a key that has leaked.
"""

import hashlib
import logging
import math
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import load_der_private_key
from jwt.algorithms import ECAlgorithm

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.store import Note, Store

ALGORITHM: Final = "ES256"
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
# Seconds after which cached keys expire if they are not read, because another gateway may have rotated them.
_USED: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Purpose:
    """The use of a ring.

    Attributes:
        signs: The kind of documents that its keys sign, for messages.
        group: The group of its notes.
        prefix: The beginning of their names.
        former: The name that its keys had in the last release: a key for each thirty days of the calendar, and a group
            of those that an operator had made since. None where there were none.
    """

    signs: str
    group: str
    prefix: str
    former: str | None = None


NOTIFICATIONS: Final = Purpose("notifications", "push-keys", "push-key", former="push-signing")
CARDS: Final = Purpose("cards", "card-keys", "card-key")

logger = logging.getLogger("gateway.keys")


class _Stored(msgspec.Struct, frozen=True):
    """A key as the store has it; `jwk` is the private one."""

    signs_from: float
    jwk: dict[str, str]


class SigningKey(NamedTuple):
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


class KeyRing:
    """The keys of one purpose; makes a key if there is none, or if the last one is old.

    Args:
        wall: Unix seconds.
    """

    def __init__(self, store: Store, purpose: Purpose, *, wall: Callable[[], float]) -> None:
        self._store = store
        self._purpose = purpose
        self._wall = wall
        self._known: Sequence[SigningKey] = ()
        self._read_at = -math.inf

    @property
    def expires(self) -> float | None:
        """Return when the last key stops signing, in Unix seconds; None if no key was used within an hour."""
        is_used = self._wall() - self._read_at < _USED
        return self._known[-1].signs_from + SIGNS_FOR if self._known and is_used else None

    async def published(self) -> list[SigningKey]:
        """Return the keys of the key set, the one that signs first.

        Raises:
            StateUnavailable: the store does not answer, and no key is known yet; or it has none that can be read.
        """
        now = self._wall()
        if not self._known or abs(now - self._read_at) >= REFRESH:
            try:
                self._known = await _current(self._store, self._purpose, now)
            except StateUnavailable:
                # Known keys go on signing while the store is away.
                if not self._known:
                    raise
            if not self._known:
                signs = self._purpose.signs
                fact = f"{self._store.label}: there is no key for {signs} that this gateway can read"
                raise StateUnavailable(f"{signs} cannot be signed now; try again soon", detail=fact)
            self._read_at = now
        return published(self._known, now)


def published(keys: Sequence[SigningKey], now: float) -> list[SigningKey]:
    """Return the keys of the key set, the one that signs first.

    Args:
        keys: At least one, by number.
        now: Unix seconds.
    """
    # The latest of the keys that have begun to sign.
    signing = next((key for key in reversed(keys) if key.signs_from <= now), keys[0])
    return [signing, *(key for key in keys if key is not signing and not _is_retired(key, keys, now))]


def _is_retired(key: SigningKey, keys: Sequence[SigningKey], now: float) -> bool:
    return any(other.number > key.number and other.signs_from + OVERLAP <= now for other in keys)


class Rotated(NamedTuple):
    """The key that `rotate` has made, and when it begins to sign, in Unix seconds."""

    kid: str
    at: float


async def rotate(store: Store, purpose: Purpose, now: float, *, drops: bool) -> Rotated:
    """Make another key.

    Args:
        now: Unix seconds.
        drops: Whether it signs at once, and all others of its purpose are deleted.

    Raises:
        StateUnavailable: the store does not answer.
        ValueError: there are as many keys as gateways read.
    """
    known = await _numbers(store, purpose)
    if len(known) >= MOST - 1 and not drops:
        raise ValueError(f"there are {len(known)} keys; wait a day until the first ones are deleted, or add --now")
    at = now if drops else now + ANNOUNCED
    key: SigningKey | None = None
    while key is None:
        # The new key is written first: a gateway that finds no key would make one itself.
        key = await _make(store, purpose, max(known, default=0) + 1, at)
        known = known if key is not None else await _numbers(store, purpose)
    if drops:
        await _delete(store, purpose, known)
    return Rotated(key.public["kid"], at)


async def _current(store: Store, purpose: Purpose, now: float) -> list[SigningKey]:
    """Return the keys that can be read, by number; make the next one where it is time, and delete the retired ones.

    Raises:
        StateUnavailable: the store does not answer.
    """
    keys = await _read(store, purpose)
    if not keys or keys[-1].signs_from + SIGNS_FOR - OVERLAP <= now:
        signs_from = max(keys[-1].signs_from + SIGNS_FOR, now + OVERLAP) if keys else now
        number = max(await _numbers(store, purpose), default=0) + 1
        # Several gateways may do so at the same time: all use the key of the first.
        await _make(store, purpose, number, signs_from, None if keys else await _former(store, purpose, now))
        keys = await _read(store, purpose)
    retired = [key.number for key in keys if _is_retired(key, keys, now)]
    await _delete(store, purpose, retired)
    return [key for key in keys if key.number not in retired]


async def _read(store: Store, purpose: Purpose) -> list[SigningKey]:
    keys = []
    for name, value in await store.group(_KIND, purpose.group, MOST):
        try:
            keys.append(_key(_number(name), msgspec.json.decode(value, type=_Stored)))
        except (msgspec.MsgspecError, jwt.PyJWTError, KeyError):
            # Damaged, or written by a newer gateway.
            continue
    return keys


async def _numbers(store: Store, purpose: Purpose) -> list[int]:
    return [_number(name) for name, _ in await store.group(_KIND, purpose.group, MOST)]


async def _make(
    store: Store, purpose: Purpose, number: int, signs_from: float, jwk: dict[str, str] | None = None
) -> SigningKey | None:
    """Write a key; return None if another key has that number by now."""
    stored = _Stored(signs_from, jwk or private_jwk(generate_private_key(SECP256R1())))
    note = Note(_KIND, _name(purpose, number), msgspec.json.encode(stored), group=purpose.group)
    if await store.settle(note) != note.value:
        return None
    key = _key(number, stored)
    logger.info("made the key %s, which signs %s from %d on", key.public["kid"], purpose.signs, signs_from)
    return key


async def _delete(store: Store, purpose: Purpose, numbers: Iterable[int]) -> None:
    for number in numbers:
        await store.drop(_KIND, _name(purpose, number))


async def _former(store: Store, purpose: Purpose, now: float) -> dict[str, str] | None:
    """Return the key that gateways of the last release sign with, so that an upgrade changes none.

    None where an operator had it replaced: it may have leaked.
    """
    if purpose.former is None or await store.group(_KIND, purpose.former, 1):
        return None
    private = await store.note(_KIND, f"{purpose.former}-{int(now // SIGNS_FOR)}")
    return None if private is None else private_jwk(load_der_private_key(private, None))


def _name(purpose: Purpose, number: int) -> str:
    # Wide enough that the names sort like the numbers.
    return f"{purpose.prefix}-{number:09d}"


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def private_jwk(private: Any) -> dict[str, str]:  # noqa: ANN401 - of P-256; PyJWT says no more
    """Return a private key of P-256 as a JWK."""
    return {name: str(value) for name, value in ECAlgorithm.to_jwk(private, as_dict=True).items()}


def public_jwk(jwk: dict[str, str], kid: str | None = None) -> dict[str, str]:
    """Return the public half of a JWK of P-256, as a key set has it.

    Args:
        kid: None for the thumbprint of the key (RFC 7638).

    Raises:
        KeyError: It is not such a key.
    """
    # In this order, and without spaces: so the thumbprint is made.
    point = {name: jwk[name] for name in ("crv", "kty", "x", "y")}
    digest = hashlib.sha256(msgspec.json.encode(point)).digest()
    thumbprint = urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
    return {**point, "kid": thumbprint if kid is None else kid, "alg": ALGORITHM, "use": "sig"}


def _key(number: int, stored: _Stored) -> SigningKey:
    """Return a key as it is used.

    Raises:
        jwt.PyJWTError, KeyError: it is not a key of P-256.
    """
    public = public_jwk(stored.jwk)
    return SigningKey(number, stored.signs_from, jwt.PyJWK(stored.jwk, ALGORITHM), public)
