"""Finds out who calls, from the credentials of a request and what is in memory.

A credential that is offered and bad is refused; it never falls through to another scheme or to being anonymous. Two
credentials in one request are refused too: nobody shall have to guess which of them counts (safety T5).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.a2a.fault import AuthInvalid
from gateway.config.model import Auth
from gateway.identity.anonymous import ANONYMOUS
from gateway.identity.api_key import ApiKeys
from gateway.identity.jwks import KeySet, Pending
from gateway.identity.jws import LONGEST
from gateway.identity.jwt import Tokens
from gateway.principal import Principal

__all__ = ["CHALLENGE", "Credentials", "Identity", "Pending"]

CHALLENGE = 'Bearer realm="a2a"'
"""`WWW-Authenticate` of a 401 (RFC 6750 §3); API keys are shown as bearer tokens too."""

_BEARER = b"bearer "


@dataclass(frozen=True, slots=True)
class Credentials:
    """Every value of the headers that may prove who calls, as they came.

    Attributes:
        authorization: Values of `Authorization`.
        api_key: Values of `X-API-Key`.
    """

    authorization: tuple[bytes, ...] = ()
    api_key: tuple[bytes, ...] = ()


class Identity:
    """Who calls, as one configuration sees it.

    Args:
        auth: None for a gateway that asks nobody: all callers are anonymous, whatever they show.
        anonymous: Whether callers that show nothing are admitted.
        key_sets: By the names of `auth.issuers`.

    Attributes:
        challenge: The value of `WWW-Authenticate` for a 401.
        schemes: What a card says that callers may show: `bearer` (a token), `api_key` (in `X-API-Key`).
    """

    def __init__(self, auth: Auth | None, *, anonymous: bool, key_sets: Mapping[str, KeySet]) -> None:
        self.challenge = CHALLENGE
        self._open = auth is None
        auth = Auth() if auth is None else auth
        self._nobody = ANONYMOUS if anonymous else None
        self._api_keys = ApiKeys(auth.api_keys)
        self._tokens = Tokens(auth.issuers, key_sets)
        self.schemes: tuple[str, ...] = (
            *(("bearer",) if auth.issuers else ()),
            *(("api_key",) if auth.api_keys else ()),
        )

    def identify(self, headers: Credentials, now: float) -> Principal | None:
        """Who calls; None for a caller that shows nothing where anonymous callers are not admitted.

        Args:
            now: Wall-clock seconds.

        Raises:
            AuthInvalid: the credential proves nothing, or there are two.
            AuthExpired: the credential was good once.
            AuthUnavailable: the keys of the token's issuer have never been read.
            Pending: the issuer's keys are being read; await `settled`, then ask again.
        """
        if self._open:
            return ANONYMOUS
        shown = len(headers.authorization) + len(headers.api_key)
        if shown == 0:
            return self._nobody
        if shown > 1:
            raise AuthInvalid("show one credential", detail=f"{shown} credentials")
        if headers.api_key:
            return self._by_api_key(headers.api_key[0], now)
        value = headers.authorization[0]
        # RFC 9110 §11.1: the scheme in any case, then spaces.
        if value[: len(_BEARER)].lower() != _BEARER:
            raise AuthInvalid("authenticate with a bearer token or an API key", detail="another scheme")
        credential = value[len(_BEARER) :].strip(b" ")
        digest = _digest(credential)
        principal = self._api_keys.find(digest, now)
        return self._tokens.verify(credential, digest, now) if principal is None else principal

    def expiring_api_keys(self, now: float, within: float) -> Mapping[str, float]:
        """Names of API keys that end in less than `within` seconds, with the wall-clock seconds of their end."""
        return self._api_keys.expiring(now, within)

    def _by_api_key(self, credential: bytes, now: float) -> Principal:
        principal = self._api_keys.find(_digest(credential), now)
        if principal is None:
            raise AuthInvalid("the credential is not known", detail="no API key of the file")
        return principal


def _digest(credential: bytes) -> bytes:
    """SHA-256 of a credential.

    Raises:
        AuthInvalid: it is empty, or too long to be looked at.
    """
    if not credential or len(credential) > LONGEST:
        raise AuthInvalid("the credential is not known", detail=f"{len(credential)} bytes")
    return hashlib.sha256(credential).digest()
