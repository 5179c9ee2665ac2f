"""Authentication of a request, by its credentials and what is in memory.

A credential that is shown and bad is refused; it never falls through to another scheme or to being anonymous. Two
credentials in one request are refused too, because choosing one would be a guess (safety T5).

In the order of cost: an API key that was shown from this address before and a token with a cached result are answered
from memory. Any other credential is checked as long as its network has not failed too often (`verification`); a token
then waits in the verification queue and is verified (`jwt`). So a flood of bad credentials affects only its own
network.
"""

import hashlib
from collections.abc import Callable, Mapping

import msgspec

from gateway.a2a.card_rewriting import TokenIssuer
from gateway.a2a.fault import AuthInvalid, AuthMissing, RateLimited
from gateway.identity.api_key import ApiKeys
from gateway.identity.entitlement import Entitlement
from gateway.identity.jwks import KeySet
from gateway.identity.jwt import LONGEST, TokenVerifier
from gateway.identity.mtls import Certificates
from gateway.identity.settings import AuthSettings, VerificationSettings
from gateway.identity.verification import CredentialCache, FailureLimit, VerificationQueue
from gateway.principal import ANONYMOUS, Certificate, Principal

CHALLENGE = 'Bearer realm="a2a"'
"""`WWW-Authenticate` of a 401 (RFC 6750 §3); API keys are shown as bearer tokens too."""
CERTIFICATE_CHALLENGE = 'ClientCertificate realm="a2a"'
"""The challenge where only certificates are accepted: RFC 9110 §11.6.1 requires one; none is registered."""

_BEARER = b"bearer "


class Credentials(msgspec.Struct):
    """Every value of the headers that can prove the caller, as they came.

    Attributes:
        authorization: Values of `Authorization`.
        api_key: Values of `X-API-Key`.
        address: The client's address, behind trusted proxies.
        certificate: The certificate of the connection, or None.
        digest: SHA-256 of the one credential; empty until it was computed, once for all requests with this head.
    """

    authorization: tuple[bytes, ...] = ()
    api_key: tuple[bytes, ...] = ()
    address: str = ""
    certificate: Certificate | None = None
    digest: bytes = b""


class Authenticator:
    """Authentication by one configuration.

    Args:
        auth: None for a gateway without authentication: all callers are anonymous, with or without a credential.
        anonymous: Whether callers without a credential are admitted.
        bounds: Bounds on the cost of verifying credentials.
        key_sets: By the names of `auth.issuers`.
        tenants: The tenants that the file names; needed where an issuer has a `tenant_map`.
        queue: Spreads verifications over the turns of the event loop.

    Attributes:
        challenge: The value of `WWW-Authenticate` for a 401.
        schemes: The security schemes of cards: `bearer` (a token), `api_key` (in `X-API-Key`), `mtls` (a
            certificate).
        entitlement: Checks of earlier callers under this configuration.
    """

    def __init__(
        self,
        auth: AuthSettings | None,
        *,
        anonymous: bool,
        bounds: VerificationSettings,
        key_sets: Mapping[str, KeySet],
        tenants: frozenset[str] = frozenset(),
        queue: VerificationQueue | None = None,
    ) -> None:
        self._is_open = auth is None
        self._key_sets = tuple(key_sets.values())
        settings = AuthSettings() if auth is None else auth
        only_certificates = settings.mtls is not None and not settings.issuers and not settings.api_keys
        self.challenge = CERTIFICATE_CHALLENGE if only_certificates else CHALLENGE
        self._nobody = ANONYMOUS if anonymous else None
        self._api_keys = ApiKeys(settings.api_keys)
        self._queue = VerificationQueue() if queue is None else queue
        self._tokens = TokenVerifier(settings.issuers, key_sets, bounds, tenants, self._queue)
        self._certificates = None if settings.mtls is None else Certificates(settings.mtls, bounds.entries)
        self._failures = FailureLimit(bounds.failures, bounds.entries)
        self._unknown_keys = CredentialCache(bounds.entries)
        self._unknown_for = bounds.remember_bad
        clients = None if self._certificates is None else self._certificates.clients
        self.entitlement = Entitlement(auth, anonymous=anonymous, clients=clients, tenants=tenants)
        self.schemes: tuple[str, ...] = (
            *(("bearer",) if settings.issuers else ()),
            *(("api_key",) if settings.api_keys else ()),
            *(("mtls",) if settings.mtls is not None else ()),
        )

    @property
    def issuers(self) -> tuple[TokenIssuer, ...]:
        """Return the issuers whose discovery documents are known."""
        return tuple(keys.issuer for keys in self._key_sets if keys.issuer is not None)

    async def authenticate(self, shown: Credentials, wall: Callable[[], float], tick: float = 0.0) -> Principal | None:
        """Return the caller, or None if it has no credential and anonymous callers are not admitted.

        Waits only for the turn of a token that is not cached, and for keys that are being read.

        Args:
            wall: Wall-clock seconds, by which credentials begin and end.
            tick: Monotonic seconds, by which failures are forgiven.

        Raises:
            AuthMissing: a certificate is required, and there is none.
            AuthInvalid: the credential is invalid, or there are two.
            AuthExpired: the credential was valid once.
            AuthUnavailable: the keys of the token's issuer have never been read.
            RateLimited: the credential is unknown, and too many of this address failed.
        """
        if self._is_open:
            return ANONYMOUS
        count = len(shown.authorization) + len(shown.api_key)
        now = wall()
        if self._certificates is not None:
            principal = self._certificates.prove(shown.certificate, now, alone=count == 0)
            if principal is not None:
                return principal
        if count == 0:
            return self._nobody
        if count > 1:
            raise AuthInvalid("show one credential", detail=f"{count} credentials")
        digest = shown.digest or _digest(shown)
        known = self._api_keys.recall(digest, shown.address, now)
        if known is None and not shown.api_key:
            known = self._tokens.find(digest, now)
        if known is not None:
            return known
        principal = self._api_keys.find(digest, now)
        if principal is not None:
            # This address uses the key for the first time, which may be a guess.
            self._check_failures(shown.address, tick)
            self._api_keys.remember(digest, shown.address)
            return principal
        if shown.api_key:
            raise self._unknown_key(digest, shown.address, now, tick)
        return await self._verify(_credential(shown), digest, shown.address, wall, tick)

    async def _verify(
        self, token: bytes, digest: bytes, address: str, wall: Callable[[], float], tick: float
    ) -> Principal:
        """Return the principal of a token that is not cached."""
        self._check_token(digest, address, tick)
        await self._queue.take()
        # Meanwhile another request may have shown the same token, or this address may have failed too often.
        known = self._tokens.find(digest, wall())
        if known is not None:
            return known
        self._check_token(digest, address, tick)
        try:
            return await self._tokens.verify(token, digest, wall)
        except AuthMissing:
            self._failures.add(address, tick)
            raise

    def _unknown_key(self, digest: bytes, address: str, now: float, tick: float) -> AuthMissing:
        """Return the refusal of an API key that is not in the file; counts as one failure while it is cached.

        Raises:
            AuthInvalid: the same refusal, from the cache.
            RateLimited: as `authenticate`.
        """
        self._unknown_keys.find(digest, now)
        self._check_failures(address, tick)
        self._failures.add(address, tick)
        refusal = AuthInvalid("the credential is not known", detail="no API key of the file")
        self._unknown_keys.put(digest, refusal, since=now, until=now + self._unknown_for)
        return refusal

    def _check_token(self, digest: bytes, address: str, tick: float) -> None:
        if not self._tokens.is_familiar(digest):
            self._check_failures(address, tick)

    def _check_failures(self, address: str, tick: float) -> None:
        delay = self._failures.delay(address, tick)
        if delay > 0:
            raise RateLimited(
                "too many credentials from this address were refused; try again later",
                detail="failed credentials of this address",
                retry_after=delay,
            )


def _credential(shown: Credentials) -> bytes:
    """Return the one credential.

    Raises:
        AuthInvalid: it is of another scheme than a bearer token's.
    """
    if shown.api_key:
        return shown.api_key[0]
    value = shown.authorization[0]
    # RFC 9110 §11.1: the scheme in any case, then spaces.
    if value[: len(_BEARER)].lower() != _BEARER:
        raise AuthInvalid("authenticate with a bearer token or an API key", detail="another scheme")
    return value[len(_BEARER) :].strip(b" ")


def _digest(shown: Credentials) -> bytes:
    """Return the SHA-256 of the one credential, and keep it for the next request with the same head.

    Raises:
        AuthInvalid: it is empty, or too long to be looked at; or as `_credential`.
    """
    credential = _credential(shown)
    if not credential or len(credential) > LONGEST:
        raise AuthInvalid("the credential is not known", detail=f"{len(credential)} bytes")
    shown.digest = hashlib.sha256(credential).digest()
    return shown.digest
