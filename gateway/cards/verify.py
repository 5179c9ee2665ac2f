"""Verifies the signatures of an agent's card as it was received (A2A 1.0 §8.4), by configured keys only.

Of a signature's header only `alg` and `kid` are used, which select among those keys. `jku`, `jwk`, `x5u` and `x5c` are
never used, and a `crit` that PyJWT would have to understand is refused (safety B3, K1).

One valid signature is enough. Only the members that it covers are in the verified card, so that no other members can be
added.
"""

import asyncio
import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from json import JSONDecoder
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from jwt import PyJWTError
from jwt.api_jws import PyJWS

from gateway.a2a.fault import CardUntrusted
from gateway.a2a.json import Tree, TreeInvalid, parse_tree
from gateway.cards.canonical import received_forms
from gateway.identity.jwks import LONGEST_KID, Keys, KeySetInvalid, VerificationKey, parse_keys

ALGORITHMS: Final = frozenset(
    {"ES256", "ES384", "ES512", "EdDSA", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"}
)
"""Asymmetric algorithms only: with a shared secret every verifier could sign."""
MOST_SIGNATURES: Final = 16
"""Most signatures of one card that are checked; each may be verified over several forms."""
_LONGEST_HEADER: Final = 8 * 1024
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
_REFUSED: Final = frozenset({"crit", "b64", "zip"})
"""Members of a header that change how a signature is read (RFC 7515 §4.1.11, RFC 7797)."""
_JWS: Final = PyJWS(algorithms=sorted(ALGORITHMS))
_MESSAGE: Final = "this agent's card cannot be trusted"


class CardKeys(Protocol):
    """The keys that verify an agent's cards.

    Attributes:
        version: Changes with the keys.
        error: Why they could not be read last, or None.
    """

    version: int
    error: str | None

    def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """Return the only key that matches a header, or None."""

    async def wait_for(self, kid: str | None) -> bool:
        """Wait for a reading that may bring the key of a header."""

    async def refresh(self) -> bool:
        """Read the keys once."""


class FileKeys:
    """The keys of a file, which a reload reads again.

    Attributes:
        version: Always 0.
        error: Why there are none, or None.
    """

    def __init__(self, document: bytes) -> None:
        self.version = 0
        self.error: str | None = None
        self._keys = Keys()
        try:
            self._keys = parse_keys(document, ALGORITHMS)
        except KeySetInvalid as error:
            self.error = str(error)

    def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """Return the only key that matches a header, or None."""
        return self._keys.find(kid, algorithm)

    async def wait_for(self, kid: str | None) -> bool:  # noqa: ARG002 - as `CardKeys`
        """Return False: they do not change."""
        return False

    async def refresh(self) -> bool:
        """Return whether there are keys."""
        return self.error is None


class Verified(NamedTuple):
    """A card that may be used.

    Attributes:
        card: As JSON; if it is signed, only the members that its signature covers.
        kid: The key that signed it, or None if unsigned and no signature is required.
    """

    card: bytes
    kid: str | None


@dataclass(frozen=True, slots=True, eq=False)
class CardVerifier:
    """Verifies the cards of one agent.

    Attributes:
        keys: The keys that verify them.
        require: Whether a card without signatures is refused.
    """

    keys: CardKeys
    require: bool

    async def verified(self, raw: bytes, longest: int) -> Verified:
        """Return a card that may be used, and the key that has signed it.

        Args:
            raw: The card as it was received.
            longest: Bytes of the longest card.

        Raises:
            CardUntrusted: It has no good signature, though it has some, or needs one; `detail` says why.
        """
        try:
            card = await asyncio.to_thread(parse_tree, raw, max_bytes=longest)
        except TreeInvalid as error:
            raise _untrusted(str(error)) from error
        signatures = card.get("signatures")
        if signatures is None or signatures == []:
            if self.require:
                raise _untrusted("it is not signed")
            return Verified(raw, None)
        headers, why = _headers(signatures)
        keys: dict[int, tuple[str, str, VerificationKey]] = {}
        for number, (algorithm, kid) in headers.items():
            key = self.keys.find(kid, algorithm)
            if key is None and await self.keys.wait_for(kid):
                key = self.keys.find(kid, algorithm)
            if key is not None:
                keys[number] = algorithm, kid, key
        if not keys:
            if headers:
                why = f"no configured key fits a signature{'' if self.keys.error is None else ': ' + self.keys.error}"
            raise _untrusted(why)
        # The forms of a long card take a tenth of a second.
        return await asyncio.to_thread(_verify, raw, card, keys)


def _headers(signatures: object) -> tuple[dict[int, tuple[str, str]], str]:
    """Return algorithm and `kid` of each well-formed signature by its number, and the mistake in the last other."""
    if not isinstance(signatures, list) or len(signatures) > MOST_SIGNATURES:
        return {}, f"`signatures` is no list of at most {MOST_SIGNATURES}"
    headers, why = {}, ""
    for number, signature in enumerate(signatures):
        try:
            headers[number] = _header(signature)
        except ValueError as error:
            why = f"signature {number + 1}: {error}"
    return headers, why


def _header(signature: object) -> tuple[str, str]:
    """Return the algorithm and the `kid` of a signature.

    Raises:
        ValueError: It is malformed, or one that two readers could read differently.
    """
    if not isinstance(signature, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - a fact about a card
    protected, text, beside = signature.get("protected"), signature.get("signature"), signature.get("header")
    if not all(isinstance(each, str) and _BASE64URL.fullmatch(each) for each in (protected, text)):
        raise ValueError("`protected` or `signature` is no base64url")
    padded = str(protected) + "=" * (-len(str(protected)) % 4)
    header = parse_tree(base64.urlsafe_b64decode(padded), max_bytes=_LONGEST_HEADER)
    if not isinstance(beside, dict | None):
        raise ValueError("`header` is no object")  # noqa: TRY004 - a fact about a card
    # RFC 7515 §7.2.1: no name is in both headers, and the names that decide are protected.
    if (beside or {}).keys() & (header.keys() | _REFUSED | {"alg", "kid"}):
        raise ValueError("`header` has what only `protected` may have")
    if refused := _REFUSED & header.keys():
        raise ValueError(f"{min(refused)} in the header")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise ValueError("its algorithm is not accepted")
    if not isinstance(kid, str) or not 0 < len(kid) <= LONGEST_KID:
        raise ValueError("it names no key")
    return algorithm, kid


def _verify(raw: bytes, card: Tree, keys: Mapping[int, tuple[str, str, VerificationKey]]) -> Verified:
    """Return the members that the first valid signature covers.

    Raises:
        CardUntrusted: None is valid.
    """
    try:
        _EXACT_NUMBERS.decode(raw.decode())
        for payload, covered in received_forms(card):
            encoded = base64.urlsafe_b64encode(payload).rstrip(b"=")
            for number, (algorithm, kid, key) in keys.items():
                if _is_good(card["signatures"][number], encoded, algorithm, key):
                    return Verified(msgspec.json.encode(covered), kid)
    except (ValueError, RecursionError) as error:
        raise _untrusted(f"it has no canonical form: {error}") from error
    raise _untrusted("its signature is wrong")


def _is_good(signature: Mapping[str, Any], payload: bytes, algorithm: str, key: VerificationKey) -> bool:
    token = b".".join((signature["protected"].encode(), payload, signature["signature"].encode()))
    try:
        _JWS.decode(token, key.public, algorithms=[algorithm])
    except PyJWTError:
        return False
    return True


def _exact(digits: str) -> float:
    """Return a number, which must be the double that RFC 8785 signs: other readers could see another one.

    Raises:
        ValueError: It is not.
    """
    number = float(digits)
    if Decimal(digits) != Decimal(repr(number)):
        raise ValueError("a number that is no double")
    return number


_EXACT_NUMBERS = JSONDecoder(parse_int=_exact, parse_float=_exact)


def _untrusted(why: str) -> CardUntrusted:
    return CardUntrusted(_MESSAGE, detail=why)
