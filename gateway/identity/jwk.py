"""The keys in an issuer's key set document (RFC 7517), as far as they are fit to verify signatures.

A document is refused whole where it is no key set, has too many keys, or has none of use. A single key is left out
where it is symmetric, private, weak, malformed, meant for something else, or fits none of the issuer's algorithms
(safety K5). Of two different keys of one type under one `kid` the one that was known before stays; where none was, both
are left out: which one the issuer means cannot be told, and whoever managed to add the second must not be believed. The
same key written twice is one key.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    SECP521R1,
    EllipticCurve,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import Algorithm, get_default_algorithms
from msgspec import UNSET, UnsetType

from gateway.identity.jws import LONGEST_KID, unbase64url

MOST_KEYS = 100
"""Keys of a set, where the configuration does not say."""

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_WEAKEST_RSA = 2048
# Longer ones take milliseconds per signature, and so do long exponents.
_STRONGEST_RSA = 8192
_LONGEST_EXPONENT = 64

_CURVES: Final[Mapping[str, tuple[EllipticCurve, int, str]]] = MappingProxyType(
    {
        "P-256": (SECP256R1(), 32, "ES256"),
        "P-384": (SECP384R1(), 48, "ES384"),
        "P-521": (SECP521R1(), 66, "ES512"),
    }
)
_EDWARDS: Final[Mapping[str, type[Ed25519PublicKey | Ed448PublicKey]]] = MappingProxyType(
    {"Ed25519": Ed25519PublicKey, "Ed448": Ed448PublicKey}
)
_ASYMMETRIC = frozenset((*_RSA, "ES256", "ES384", "ES512", "EdDSA"))
_SIGNATURES: Final[Mapping[str, Algorithm]] = MappingProxyType(
    {name: algorithm for name, algorithm in get_default_algorithms().items() if name in _ASYMMETRIC}
)

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey | Ed448PublicKey


class KeySetInvalid(Exception):  # noqa: N818 - named after what went wrong, as faults are
    """A document that is no key set one can use; the message is for the log."""


@dataclass(frozen=True, slots=True)
class Key:
    """One public key.

    Attributes:
        algorithms: Those of the issuer that this key may verify: its type fits and it is not meant for another.
        material: The key in DER, to compare keys by.
    """

    kid: str | None
    algorithms: frozenset[str]
    public: PublicKey
    material: bytes

    def verifies(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Whether `signature` is this key's, by `algorithm`, over `signed`."""
        return algorithm in self.algorithms and _SIGNATURES[algorithm].verify(signed, self.public, signature)


class Keys:
    """The keys of one document.

    Attributes:
        ignored: How many keys of the document were left out.
        content: What the keys are, whatever their order; equal for key sets that verify the same tokens.
    """

    def __init__(self, keys: tuple[Key, ...], ignored: int) -> None:
        self.ignored = ignored
        self.content = frozenset((key.kid, key.algorithms, key.material) for key in keys)
        self._keys = keys
        by_kid: dict[str, tuple[Key, ...]] = {}
        for key in keys:
            if key.kid is not None:
                by_kid[key.kid] = (*by_kid.get(key.kid, ()), key)
        self._by_kid = by_kid

    def find(self, kid: str | None, algorithm: str) -> Key | None:
        """The one key that a token with this header means; None where there is none, or more than one."""
        candidates = self._keys if kid is None else self._by_kid.get(kid, ())
        fitting = [key for key in candidates if algorithm in key.algorithms]
        return fitting[0] if len(fitting) == 1 else None

    def has(self, key: Key, algorithm: str) -> bool:
        """Whether this very key is here, by the same name and for this algorithm."""
        known = self._by_kid.get(key.kid, ()) if key.kid is not None else ()
        return any(each.material == key.material and algorithm in each.algorithms for each in known)

    def knows(self, kid: str | None) -> bool:
        """Whether newer keys could not help a token with this `kid`: it names a key that is here, or none at all."""
        return kid is None or kid in self._by_kid


class _Document(msgspec.Struct):
    keys: list[msgspec.Raw]


class _Written(msgspec.Struct):
    """A key as the document has it; members that are not named here do not matter."""

    kty: str
    kid: str | UnsetType = UNSET
    use: str | UnsetType = UNSET
    key_ops: list[str] | UnsetType = UNSET
    alg: str | UnsetType = UNSET
    crv: str = ""
    n: str = ""
    e: str = ""
    x: str = ""
    y: str = ""
    d: msgspec.Raw | UnsetType = UNSET


def parse_keys(
    document: bytes, algorithms: frozenset[str], *, most: int = MOST_KEYS, before: Keys | None = None
) -> Keys:
    """Read a key set.

    Args:
        algorithms: Those that the issuer may use.
        most: Keys that the set may have.
        before: Those of the set that was read last.

    Raises:
        KeySetInvalid: the document is refused whole.
    """
    try:
        written = msgspec.json.decode(document, type=_Document).keys
    except (msgspec.MsgspecError, RecursionError):
        raise KeySetInvalid("the answer is no key set") from None
    if len(written) > most:
        raise KeySetInvalid(f"the key set has over {most} keys")
    keys = _unambiguous([key for key in (_key(raw, algorithms) for raw in written) if key is not None], before)
    if not keys:
        raise KeySetInvalid("the key set has no key of use")
    return Keys(keys, len(written) - len(keys))


def _key(raw: msgspec.Raw, algorithms: frozenset[str]) -> Key | None:
    """The key that is written, or None where it is of no use."""
    try:
        written = msgspec.json.decode(raw, type=_Written)
        # A private half that is published belongs to everybody.
        if written.d is not UNSET or not _for_signatures(written):
            return None
        public, fitting = _public(written)
        material = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (msgspec.MsgspecError, RecursionError, ValueError, UnsupportedAlgorithm):
        return None
    usable = algorithms.intersection(fitting if written.alg is UNSET else {written.alg}.intersection(fitting))
    kid = None if written.kid is UNSET else written.kid
    if not usable or (kid is not None and len(kid) > LONGEST_KID):
        return None
    return Key(kid, usable, public, material)


def _for_signatures(written: _Written) -> bool:
    # RFC 7517 §4.2, §4.3: each says what the key is for where it is there.
    return written.use in (UNSET, "sig") and (written.key_ops is UNSET or "verify" in written.key_ops)


def _public(written: _Written) -> tuple[PublicKey, tuple[str, ...]]:
    """The key and the algorithms that its type fits (RFC 7518 §3.1, RFC 8037).

    Raises:
        ValueError: the key is malformed, weak, or of a type that verifies nothing (`oct`).
    """
    if written.kty == "RSA":
        modulus, exponent = _integer(written.n), _integer(written.e)
        if not _WEAKEST_RSA <= modulus.bit_length() <= _STRONGEST_RSA or exponent.bit_length() > _LONGEST_EXPONENT:
            raise ValueError("RSA key of a bad size")
        # No product of two odd primes; OpenSSL takes it, and fails only when it verifies.
        if modulus % 2 == 0:
            raise ValueError("RSA key of an even modulus")
        return RSAPublicNumbers(exponent, modulus).public_key(), _RSA
    if written.kty == "EC" and written.crv in _CURVES:
        curve, size, algorithm = _CURVES[written.crv]
        x, y = unbase64url(written.x.encode()), unbase64url(written.y.encode())
        if len(x) != size or len(y) != size:
            raise ValueError("coordinates of a bad size")
        # Refuses a point that is not on the curve.
        return EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), curve).public_key(), (algorithm,)
    if written.kty == "OKP" and written.crv in _EDWARDS:
        return _EDWARDS[written.crv].from_public_bytes(unbase64url(written.x.encode())), ("EdDSA",)
    raise ValueError("a key type that verifies nothing")


def _integer(text: str) -> int:
    return int.from_bytes(unbase64url(text.encode()))


def _unambiguous(keys: list[Key], before: Keys | None) -> tuple[Key, ...]:
    """The keys without those that share a `kid` and an algorithm with another; equal keys are merged."""
    merged: dict[tuple[str | None, bytes], Key] = {}
    for key in keys:
        place = (key.kid, key.material)
        algorithms = key.algorithms | merged[place].algorithms if place in merged else key.algorithms
        merged[place] = Key(key.kid, algorithms, key.public, key.material)
    claims = Counter((key.kid, algorithm) for key in merged.values() for algorithm in key.algorithms)

    def may(key: Key, algorithm: str) -> bool:
        # Two keys cannot both have been known: the set before was unambiguous, too.
        return claims[key.kid, algorithm] == 1 or (before is not None and before.has(key, algorithm))

    # Keys without a name are told apart by trying whether just one fits, in `Keys.find`.
    return tuple(
        key for key in merged.values() if key.kid is None or all(may(key, algorithm) for algorithm in key.algorithms)
    )
