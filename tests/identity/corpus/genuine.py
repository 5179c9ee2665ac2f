"""The keys that the corpus's issuer publishes, and its good tokens; made anew, so that nothing in them ages.

It has three keys: `k1` (RSA) and `e1` (P-256), whose algorithms RS256 and ES256 are accepted, and `d1` (Ed25519), whose
algorithm is not.
"""

import json
from collections.abc import Iterator, Mapping

from tests.identity.issuance import ISSUER, compact, ec_key, ed_key, jwk, rsa_key, segment

ALGORITHMS = ("RS256", "ES256")
EVIL = 66
"""Serial of keys that are the attacker's own."""

Named = Iterator[tuple[str, bytes]]


def published() -> list[dict[str, object]]:
    """The issuer's key set."""
    return [jwk(rsa_key(), "k1"), jwk(ec_key(), "e1"), jwk(ed_key(), "d1")]


def said(now: float, **changes: object) -> dict[str, object]:
    """Return the claims of a good token at `now`; a member that is `...` is left out."""
    claims = {"iss": ISSUER, "aud": "agents", "exp": int(now) + 3600, "sub": "ada", "org": "acme", **changes}
    return {name: value for name, value in claims.items() if value is not ...}


def good(now: float, **changes: object) -> bytes:
    """A token without fault."""
    return compact({"alg": "RS256", "kid": "k1"}, said(now, **changes), rsa_key())


def signing_input(header: Mapping[str, object], claims: Mapping[str, object]) -> bytes:
    """Header and payload, as they are signed."""
    return segment(json.dumps(header).encode()) + b"." + segment(json.dumps(claims).encode())
