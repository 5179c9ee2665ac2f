"""API keys, known by their SHA-256 only."""

import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from types import MappingProxyType

from gateway.a2a.fault import AuthExpired
from gateway.identity.settings import ApiKeySettings
from gateway.principal import Principal

MOST_PLACES = 64
"""Addresses of one key that are remembered."""

_DIGEST_SIZE = 32


@dataclass(frozen=True, slots=True)
class _Known:
    """One hash of the file, its principal, and the addresses from where it was shown."""

    digest: bytes
    principal: Principal
    places: dict[str, None]


class ApiKeys:
    """The keys of the file by their digests.

    A look-up by digest takes the same time for a nearly right guess, because its digest is unrelated (safety H14).

    Args:
        keys: By name, as the configuration has them; a key may have two hashes while it is being replaced, and an
            empty hash is left out.

    Raises:
        ValueError: a hash is not 64 hex digits, or two keys have the same one.
    """

    def __init__(self, keys: Mapping[str, ApiKeySettings]) -> None:
        known: dict[bytes, _Known] = {}
        for name, key in keys.items():
            principal = principal_of(name, key)
            for written in filter(None, (text.strip() for text in key.sha256)):
                digest = bytes.fromhex(written)
                if len(digest) != _DIGEST_SIZE:
                    raise ValueError(f"API key {name}: sha256 has 64 hex digits")
                if digest in known and known[digest].principal.key != name:
                    raise ValueError(f"API keys {known[digest].principal.key} and {name} have the same sha256")
                known[digest] = _Known(digest, replace(principal, digest=digest.hex()), {})
        self._known = known

    def find(self, digest: bytes, now: float) -> Principal | None:
        """Return the principal of the key with this SHA-256, or None.

        Args:
            now: Wall-clock seconds.

        Raises:
            AuthExpired: the last day of the key is over.
        """
        known = self._known.get(digest)
        if known is None or not hmac.compare_digest(known.digest, digest):
            return None
        if now >= known.principal.expires:
            raise AuthExpired("the API key has expired", detail=f"API key {known.principal.key}")
        return known.principal

    def recall(self, digest: bytes, address: str, now: float) -> Principal | None:
        """Return the same for a key that was used from this address before, so that it is not a guess; else None."""
        known = self._known.get(digest)
        if known is None or address not in known.places or not hmac.compare_digest(known.digest, digest):
            return None
        return known.principal if now < known.principal.expires else self.find(digest, now)

    def remember(self, digest: bytes, address: str) -> None:
        """Remember that this address used the key with this SHA-256; the oldest address is evicted."""
        places = self._known[digest].places
        if len(places) >= MOST_PLACES:
            del places[next(iter(places))]
        places[address] = None


def principal_of(name: str, key: ApiKeySettings) -> Principal:
    """Return the principal that a key proves."""
    expires = math.inf
    # `expires` is the last good day, whole, in UTC; the last day there is has no next one.
    if key.expires is not None and key.expires != date.max:
        expires = datetime.combine(key.expires + timedelta(days=1), time.min, UTC).timestamp()
    return Principal(
        tenant=key.tenant,
        subject=name,
        method="api_key",
        key=name,
        claims=MappingProxyType({}),
        narrowed=None if key.agents is None else frozenset(key.agents),
        expires=expires,
    )
