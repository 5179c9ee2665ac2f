"""Tokens that are no good, each for one reason.

Wherever a signature can be true it is: then the one oddity is all there is against the token.
"""

from tests.identity.corpus import claim, header, signature, text


def tokens(now: float) -> dict[str, bytes]:
    """Every bad token by its name, which is "family: what is odd"."""
    found: dict[str, bytes] = {}
    families = (
        signature.unsigned, signature.confused, signature.foreign, signature.elliptic, signature.rsa, header.headers,
        text.forms, text.json_texts, claim.times, claim.claims, claim.tenants,
    )  # fmt: skip
    for family in families:
        for name, token in family(now):
            assert name not in found, name
            found[name] = token
    return found
