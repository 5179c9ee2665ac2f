"""Reads a signed token in compact form, as strictly as its RFCs allow, and believes nothing of it yet.

Common libraries take members twice, padding, and segments that are no canonical base64url; each of them gives two
readers two tokens. What is refused here (safety K1-K4): anything but three segments of the base64url alphabet;
padding and stray bits (RFC 7515 §2); JSON that is not strict UTF-8, nests deeper than 64 levels, has a name twice at
any depth (RFC 7519 §4), a lone surrogate, NaN or a number beyond a float; `crit`, `b64` and `zip`, of which none is
supported (RFC 7515 §4.1.11, RFC 7797); a `kid` that is no short string. `jwk`, `jku`, `x5u` and `x5c` are never looked
at: keys come from the issuer's key set alone. `typ` is free, because issuers disagree about it.
"""

import base64
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json import JSONDecoder
from types import MappingProxyType

import msgspec

from gateway.a2a.fault import AuthInvalid

LONGEST = 8 * 1024
"""Bytes of the longest credential that is looked at."""
LONGEST_KID = 256
DEEPEST = 64
"""Levels of JSON that are read."""

_COMPACT = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
# Strings, closed or not, so that the brackets in them do not count; never tried twice at one place.
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_UNSUPPORTED = ("crit", "b64", "zip")


@dataclass(frozen=True, slots=True)
class Jws:
    """A token that is well-formed; whether it is true is not known.

    Attributes:
        signed: The bytes that the signature is over.
        claims: The payload, read-only.
    """

    algorithm: str
    kid: str | None
    claims: Mapping[str, object]
    signed: bytes
    signature: bytes


def parse(token: bytes) -> Jws:
    """Read a token.

    Raises:
        AuthInvalid: it is no token, or not a strict one.
    """
    found = _COMPACT.fullmatch(token) if len(token) <= LONGEST else None
    if found is None:
        raise AuthInvalid("the credential is not known", detail="neither an API key of the file nor a signed token")
    try:
        header = strict_object(unbase64url(found[1]))
        claims = strict_object(unbase64url(found[2]))
        signature = unbase64url(found[3])
    except (ValueError, msgspec.MsgspecError) as error:
        raise _malformed(f"{type(error).__name__} in a segment") from None
    algorithm = header.get("alg")
    if not isinstance(algorithm, str):
        raise _malformed("alg is no string")
    for name in _UNSUPPORTED:
        if name in header:
            raise _malformed(f"{name} in the header")
    kid = header.get("kid")
    if "kid" in header and not (isinstance(kid, str) and len(kid) <= LONGEST_KID):
        raise _malformed("kid is no short string")
    return Jws(
        algorithm=algorithm,
        kid=kid if isinstance(kid, str) else None,
        claims=MappingProxyType(claims),
        signed=token[: found.end(2)],
        signature=signature,
    )


def unbase64url(text: bytes) -> bytes:
    """Bytes of a base64url text without padding (RFC 7515 §2).

    Raises:
        ValueError: the text is not the one that encodes those bytes.
    """
    # binascii.Error, for a length that cannot be, is a ValueError.
    raw = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    # The decoder skips foreign letters and drops stray bits; only the canonical text comes back the same.
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != text:
        raise ValueError("not canonical base64url")
    return raw


def strict_object(raw: bytes) -> dict[str, object]:
    """A JSON object that every reader reads alike.

    Raises:
        ValueError: it is none: other bytes than UTF-8, too deep, a name twice, no finite number, no object.
        msgspec.MsgspecError: a second reader refuses it.
    """
    if _is_deep(raw):
        raise ValueError("too deep")
    value = _DECODER.decode(raw.decode("utf-8", "strict"))
    if not isinstance(value, dict):
        raise ValueError("no object")  # noqa: TRY004 - bad text, not a bad type in our own code
    # Half a surrogate pair makes a string that cannot be sent on; only an escape can write one in UTF-8.
    if b"\\u" in raw:
        msgspec.json.decode(raw)
    return value


def _is_deep(raw: bytes) -> bool:
    # Nearly every token has fewer brackets than that in all.
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    depth = 0
    for found in _BRACKETS.finditer(raw):
        if found[0] in (b"[", b"{"):
            depth += 1
            if depth > DEEPEST:
                return True
        elif found[0] in (b"]", b"}"):
            depth -= 1
    return False


def _distinct(members: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("a name stands twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is out of range")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


# The stdlib decoder, because msgspec keeps the last of two equal names and cannot be told to refuse.
_DECODER = JSONDecoder(object_pairs_hook=_distinct, parse_float=_finite, parse_constant=_no_constant)


def _malformed(detail: str) -> AuthInvalid:
    return AuthInvalid("the token is malformed", detail=detail)
