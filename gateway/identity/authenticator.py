"""Finds out who calls, from the credentials of a request and what is in memory.

A credential that is offered and bad is refused; it never falls through to another scheme or to being anonymous. Two
credentials in one request are refused too: nobody shall have to guess which of them counts (safety T5).

In the order of what it costs: an API key that was shown from this address before, a token that was found good of late
and one that was found bad are answered from memory. Whatever else an address shows is looked at for as long as not too
many of its credentials have failed (`failure`); a token then waits for its turn (`turn`) and is verified (`jwt`). So a
flood of bad credentials costs its sender's address alone: those who are known to be good never meet it.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from gateway.a2a.fault import AuthInvalid, AuthMissing, RateLimited
from gateway.certificate import Certificate
from gateway.config.client import Clients
from gateway.config.model import Auth
from gateway.identity.anonymous import ANONYMOUS
from gateway.identity.api_key import ApiKeys
from gateway.identity.failure import Failures
from gateway.identity.jwks import KeySet
from gateway.identity.jws import LONGEST
from gateway.identity.jwt import Tokens
from gateway.identity.mtls import Certificates
from gateway.identity.pending import Pending
from gateway.identity.turn import Turns
from gateway.identity.verdict import Refusal, Verdict, Verdicts
from gateway.principal import Principal

CHALLENGE = 'Bearer realm="a2a"'
"""`WWW-Authenticate` of a 401 (RFC 6750 §3); API keys are shown as bearer tokens too."""
CERTIFICATE_CHALLENGE = 'ClientCertificate realm="a2a"'
"""The same where nothing but a certificate is taken. RFC 9110 §11.6.1 wants one, and none is registered for that."""

_BEARER = b"bearer "


class Credentials(msgspec.Struct, frozen=True):
    """Every value of the headers that may prove who calls, as they came.

    Attributes:
        authorization: Values of `Authorization`.
        api_key: Values of `X-API-Key`.
        address: From where they were shown: the client's, behind trusted proxies.
        certificate: What the connection began with, or None.
    """

    authorization: tuple[bytes, ...] = ()
    api_key: tuple[bytes, ...] = ()
    address: str = ""
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True)
class _Stage:
    """How far the judgement of a credential has come.

    Attributes:
        its_turn: Whether it has stood in line already.
        patient: Whether it may still wait for keys.
    """

    its_turn: bool = False
    patient: bool = True


_AT_ONCE = _Stage()


class Identity:
    """Who calls, as one configuration sees it.

    Args:
        auth: None for a gateway that asks nobody: all callers are anonymous, whatever they show.
        anonymous: Whether callers that show nothing are admitted.
        key_sets: By the names of `auth.issuers`.
        turns: Who may verify when; left out, as the running event loop turns.
        tenants: The tenants that the file names; asked for where an issuer has a `tenant_map`.

    Attributes:
        challenge: The value of `WWW-Authenticate` for a 401.
        schemes: What a card says that callers may show: `bearer` (a token), `api_key` (in `X-API-Key`), `mtls` (a
            certificate).
    """

    def __init__(
        self,
        auth: Auth | None,
        *,
        anonymous: bool,
        key_sets: Mapping[str, KeySet],
        turns: Turns | None = None,
        tenants: frozenset[str] = frozenset(),
    ) -> None:
        self._open = auth is None
        auth = Auth() if auth is None else auth
        certificates_only = auth.mtls is not None and not auth.issuers and not auth.api_keys
        self.challenge = CERTIFICATE_CHALLENGE if certificates_only else CHALLENGE
        bounds = auth.verification
        self._nobody = ANONYMOUS if anonymous else None
        self._api_keys = ApiKeys(auth.api_keys)
        self._tokens = Tokens(auth.issuers, key_sets, bounds, tenants)
        self._certificates = None if auth.mtls is None else Certificates(auth.mtls, bounds.entries)
        self._turns = Turns() if turns is None else turns
        self._failures = Failures(bounds.failures, bounds.entries)
        self._strange = Verdicts(bounds.entries)
        self._strange_for = bounds.remember_bad
        self.schemes: tuple[str, ...] = (
            *(("bearer",) if auth.issuers else ()),
            *(("api_key",) if auth.api_keys else ()),
            *(("mtls",) if auth.mtls is not None else ()),
        )

    def identify(
        self, shown: Credentials, now: float, tick: float = 0.0, *, stage: _Stage = _AT_ONCE
    ) -> Principal | None:
        """Who calls; None for a caller that shows nothing where anonymous callers are not admitted.

        Args:
            now: Wall-clock seconds, by which credentials begin and end.
            tick: Monotonic seconds, by which failures are forgiven.
            stage: For `prove`: what has been waited for already.

        Raises:
            AuthMissing: no certificate is shown, and one has to be.
            AuthInvalid: the credential proves nothing, or there are two.
            AuthExpired: the credential was good once.
            AuthUnavailable: the keys of the token's issuer have never been read.
            RateLimited: the credential is not known, and too many of this address failed.
            Pending: others come first, or keys are being read: `prove` waits for it.
        """
        if self._open:
            return ANONYMOUS
        count = len(shown.authorization) + len(shown.api_key)
        if self._certificates is not None and self._certificates.required:
            # The handshake has seen to it, by the file of then; and connections outlast certificates.
            self._certificates.check(shown.certificate, now)
        if shown.certificate is not None and self._certificates is not None:
            if count == 0:
                return self._certificates.find(shown.certificate, now)
            if not self._certificates.gives_way:
                raise AuthInvalid("show one credential", detail="a certificate, and another credential beside it")
        if count == 0:
            return self._nobody
        if count > 1:
            raise AuthInvalid("show one credential", detail=f"{count} credentials")
        credential = shown.api_key[0] if shown.api_key else _bearer(shown.authorization[0])
        digest = _digest(credential)
        principal = self._api_keys.recall(digest, shown.address, now)
        if principal is None and not shown.api_key:
            principal = self._tokens.recall(digest, now)
        if principal is None:
            principal = self._newcomer(credential, digest, shown, now=now, tick=tick, stage=stage)
        return principal

    async def prove(
        self, pending: Pending, shown: Credentials, wall: Callable[[], float], tick: float
    ) -> Principal | None:
        """Go on where `identify` raised `Pending`: wait for the token's turn, and once for its keys.

        Raises:
            AuthInvalid, AuthExpired, AuthUnavailable, RateLimited: as `identify`.
        """
        stage = _AT_ONCE
        while True:
            await pending.settled()
            # Those that waited for keys wake all at once, so each takes its turn again.
            stage = _Stage(its_turn=not pending.issuer, patient=stage.patient and not pending.issuer)
            try:
                return self.identify(shown, wall(), tick, stage=stage)
            except Pending as another:
                pending = another

    @property
    def clients(self) -> Clients | None:
        """Whose the names on certificates are; None where certificates prove nobody."""
        return None if self._certificates is None else self._certificates.clients

    def expiring_api_keys(self, now: float, within: float) -> Mapping[str, float]:
        """Names of API keys that end in less than `within` seconds, with the wall-clock seconds of their end."""
        return self._api_keys.expiring(now, within)

    def _newcomer(
        self, credential: bytes, digest: bytes, shown: Credentials, *, now: float, tick: float, stage: _Stage
    ) -> Principal:
        """Whose a credential is that is not known to be good.

        Raises:
            AuthInvalid, AuthExpired, AuthUnavailable, RateLimited, Pending: as `identify`.
        """
        principal = self._api_keys.find(digest, now)
        if principal is not None:
            self._check_failures(shown.address, tick)
            self._api_keys.settle(digest, shown.address)
            return principal
        if shown.api_key:
            raise self._stranger(digest, shown.address, now=now, tick=tick)
        if not self._tokens.is_familiar(digest):
            self._check_failures(shown.address, tick)
        if not stage.its_turn:
            self._turns.take()
        try:
            return self._tokens.judge(credential, digest, now, patient=stage.patient)
        except AuthMissing:
            self._failures.add(shown.address, tick)
            raise

    def _stranger(self, digest: bytes, address: str, *, now: float, tick: float) -> AuthMissing:
        """The refusal of an API key that is not in the file.

        Raises:
            RateLimited: as `identify`.
        """
        if self._strange.get(digest, now) is None:
            self._check_failures(address, tick)
            self._failures.add(address, tick)
            self._strange.put(digest, Verdict(_STRANGER, now, now + self._strange_for))
        return _STRANGER.fault()

    def _check_failures(self, address: str, tick: float) -> None:
        delay = self._failures.delay(address, tick)
        if delay > 0:
            raise RateLimited(
                "too many credentials from this address were refused; try again later",
                detail="failed credentials of this address",
                retry_after=delay,
            )


_STRANGER = Refusal(AuthInvalid, "the credential is not known", "no API key of the file")


def _bearer(value: bytes) -> bytes:
    """The credential in a value of `Authorization`.

    Raises:
        AuthInvalid: it is of another scheme.
    """
    # RFC 9110 §11.1: the scheme in any case, then spaces.
    if value[: len(_BEARER)].lower() != _BEARER:
        raise AuthInvalid("authenticate with a bearer token or an API key", detail="another scheme")
    return value[len(_BEARER) :].strip(b" ")


def _digest(credential: bytes) -> bytes:
    """SHA-256 of a credential.

    Raises:
        AuthInvalid: it is empty, or too long to be looked at.
    """
    if not credential or len(credential) > LONGEST:
        raise AuthInvalid("the credential is not known", detail=f"{len(credential)} bytes")
    return hashlib.sha256(credential).digest()
