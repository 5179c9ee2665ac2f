"""JSON Web Tokens of the configured issuers, verified by PyJWT behind one strict check.

PyJWT 2.15 accepts duplicate names, padded base64, NaN and times written as text (safety K1 to K4). The check refuses
them first, and all other ambiguous tokens. `jwk`, `jku`, `x5u` and `x5c` of a header are never used: keys come from the
issuer's key set alone. `typ` is free, because issuers disagree about it.

A token is checked in this order: its form; its issuer and audience, still unproven; its algorithm, key and signature;
only then its times and its tenant. So `AuthExpired` is raised only for genuine tokens.

Results are cached: a good one for a minute but never past `exp`, a bad one for five seconds, and neither past a change
of the issuer's keys (K7). A token that was valid once stays *familiar* afterwards: it is verified again, but does not
count as a guess.
"""

import base64
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import jwt

from gateway.a2a.fault import AuthExpired, AuthInvalid, AuthMissing, AuthUnavailable, TenantNotMapped
from gateway.a2a.json import Tree, parse_tree
from gateway.a2a.paths import RESERVED, fits_path
from gateway.identity.jwks import LONGEST_KID, KeySet, VerificationKey
from gateway.identity.settings import IssuerSettings, VerificationSettings
from gateway.identity.verification import CredentialCache, VerificationQueue
from gateway.principal import ANONYMOUS_TENANT, Principal
from gateway.routing.token_claim import claim_at, single

LONGEST: Final = 8 * 1024
"""Bytes of the longest credential that is checked."""

_LONGEST_LEEWAY = 30.0
# The end of the year 9999. Later times are milliseconds instead of seconds, or an attempted overflow.
_LATEST = 253_402_300_799
_RETRY_AFTER = 5.0
_COMPACT = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
# RFC 7515 §4.1.11, RFC 7797: extensions that change how a token is read; none is supported.
_UNSUPPORTED = ("crit", "b64", "zip")
_TIMES = ("exp", "nbf", "iat")


@dataclass(frozen=True, slots=True)
class _Unverified:
    """A well-formed token that is not verified yet."""

    text: bytes
    algorithm: str
    kid: str | None
    claims: Tree


def _read(token: bytes) -> _Unverified:
    """Read a token in compact form.

    Raises:
        AuthInvalid: it is not a token, or is ambiguous.
    """
    segments = _COMPACT.fullmatch(token) if len(token) <= LONGEST else None
    if segments is None:
        raise AuthInvalid("the credential is not known", detail="neither an API key of the file nor a signed token")
    try:
        header, claims = (
            # This decoder accepts stray bits only; PyJWT refuses them.
            parse_tree(base64.urlsafe_b64decode(segment + b"=" * (-len(segment) % 4)), max_bytes=LONGEST)
            for segment in segments.groups()
        )
    except ValueError as error:
        raise _malformed(f"{type(error).__name__} in a segment") from None
    for name in _UNSUPPORTED:
        if name in header:
            raise _malformed(f"{name} in the header")
    algorithm, kid = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str):
        raise _malformed("alg is no string")
    if not isinstance(kid, str) or len(kid) > LONGEST_KID:
        raise _malformed("kid is no short string")
    for name in _TIMES:
        # `bool` is a subclass of `int`, so the exact types are compared. NaN compares false.
        if name in claims and not (type(claims[name]) in (int, float) and 0 <= claims[name] <= _LATEST):
            raise _malformed(f"{name} is no time")
    return _Unverified(token, algorithm, kid if "kid" in header else None, claims)


@dataclass(frozen=True, slots=True)
class _TrustedIssuer:
    """One configured issuer and its keys."""

    name: str
    settings: IssuerSettings
    audience: frozenset[str]
    key_set: KeySet

    async def wait_for_key(self, token: _Unverified) -> bool:
        """Return whether there was a wait for the key that the token names.

        Raises:
            AuthInvalid: the issuer does not use the token's algorithm.
        """
        if token.algorithm not in self.settings.algorithms:
            raise AuthInvalid("the token's algorithm is not accepted here", detail=f"issuer {self.name}")
        return self.key_set.find(token.kid, token.algorithm) is None and await self.key_set.wait_for(token.kid)

    def verify(self, token: _Unverified, now: float, tenants: frozenset[str]) -> Principal:
        """Return the principal of a token.

        Raises:
            AuthInvalid: it is invalid.
            AuthExpired: it was valid once.
            AuthUnavailable: the keys have never been read.
        """
        claims = MappingProxyType(self._verified_claims(token, self._key(token)))
        leeway = min(self.settings.leeway, _LONGEST_LEEWAY)
        for name in ("nbf", "iat"):
            if claims.get(name, 0) > now + leeway:
                raise AuthInvalid("the token is not valid yet", detail=f"issuer {self.name}: {name}")
        expires = float(claims["exp"]) + leeway
        if now >= expires:
            raise AuthExpired("the token has expired", detail=f"issuer {self.name}")
        try:
            tenant, subject = tenant_of(self.settings, claims, tenants), subject_of(self.settings, claims)
        except AuthInvalid as fault:
            fault.detail = f"issuer {self.name}: {fault.detail}"
            raise
        return Principal(tenant=tenant, subject=subject, method="jwt", issuer=self.name, claims=claims, expires=expires)

    def _key(self, token: _Unverified) -> VerificationKey:
        key = self.key_set.find(token.kid, token.algorithm)
        if key is not None:
            return key
        if not self.key_set.ready:
            raise AuthUnavailable(
                "tokens cannot be verified now; try again soon",
                detail=f"issuer {self.name}: its keys were never read, or not for long",
                retry_after=_RETRY_AFTER,
                issuer=self.name,
            )
        raise AuthInvalid("the token names no key of its issuer", detail=f"issuer {self.name}")

    def _verified_claims(self, token: _Unverified, key: VerificationKey) -> Tree:
        try:
            return jwt.decode(
                token.text,
                key.public,
                algorithms=[token.algorithm],
                audience=self.audience,
                issuer=self.settings.issuer,
                options={
                    "require": ["exp", "iss", "aud"],
                    # Times are compared with the clock that is passed in; the subject may be another claim.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_sub": False,
                    "verify_jti": False,
                },
            )
        except jwt.InvalidSignatureError:
            raise AuthInvalid("the token's signature is wrong", detail=f"issuer {self.name}") from None
        except jwt.MissingRequiredClaimError as error:
            raise AuthInvalid("the token has no expiry", detail=f"issuer {self.name}: {error.claim}") from None
        except jwt.PyJWTError as error:
            raise _malformed(f"issuer {self.name}: {type(error).__name__}") from None


class TokenVerifier:
    """Verifies tokens and caches the results; a new configuration starts with a new one, whose cache is empty.

    Args:
        issuers: By name, as the configuration has them.
        key_sets: By the same names; every issuer has one.
        bounds: Lifetime and number of cached results.
        tenants: The tenants that the file names; see `tenant_of`.
        queue: Spreads verifications over the turns of the event loop.
    """

    def __init__(
        self,
        issuers: Mapping[str, IssuerSettings],
        key_sets: Mapping[str, KeySet],
        bounds: VerificationSettings,
        tenants: frozenset[str],
        queue: VerificationQueue,
    ) -> None:
        self._issuers: dict[str, list[_TrustedIssuer]] = {}
        for name, settings in issuers.items():
            issuer = _TrustedIssuer(name, settings, frozenset(settings.audience), key_sets[name])
            self._issuers.setdefault(settings.issuer, []).append(issuer)
        self._tenants = tenants
        self._queue = queue
        self._good_for = bounds.remember
        self._bad_for = bounds.remember_bad
        # Apart, so that invented tokens cannot evict good ones.
        self._good = CredentialCache(bounds.entries)
        self._bad = CredentialCache(bounds.entries)

    def find(self, digest: bytes, now: float) -> Principal | None:
        """Return the principal of a token from the cache, or None.

        Args:
            digest: SHA-256 of the token.
            now: Wall-clock seconds.

        Raises:
            AuthInvalid, AuthExpired: the token was refused lately.
        """
        return self._good.find(digest, now) or self._bad.find(digest, now)

    def is_familiar(self, digest: bytes) -> bool:
        """Return whether this token was valid when it was verified last, so that it is not a guess."""
        return digest in self._good

    async def verify(self, token: bytes, digest: bytes, wall: Callable[[], float]) -> Principal:
        """Verify a token anew and return its principal; waits once, where the token names an unknown key.

        Args:
            digest: SHA-256 of the token.
            wall: Wall-clock seconds.

        Raises:
            AuthInvalid: it proves nothing.
            AuthExpired: it was good once.
            AuthUnavailable: the keys of its issuer have never been read.
        """
        issuer = None
        try:
            unverified = _read(token)
            issuer = self._issuer(unverified.claims)
            if await issuer.wait_for_key(unverified):
                # All waiting requests continue at once, some of them with the same token.
                await self._queue.take()
                known = self.find(digest, wall())
                if known is not None:
                    return known
            principal = issuer.verify(unverified, wall(), self._tenants)
        except AuthMissing as fault:
            fault.issuer = fault.issuer if issuer is None else issuer.name
            now = wall()
            self._good.drop(digest)
            self._bad.put(
                digest, fault, since=now, until=now + self._bad_for, key_set=None if issuer is None else issuer.key_set
            )
            raise
        now = wall()
        until = min(principal.expires, now + self._good_for)
        self._good.put(digest, principal, since=now, until=until, key_set=issuer.key_set)
        return principal

    def _issuer(self, claims: Mapping[str, object]) -> _TrustedIssuer:
        """Return the issuer that the token names and that accepts its audience; the token is still unverified."""
        issuer = claims.get("iss")
        trusted = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if trusted is None:
            raise AuthInvalid("the token's issuer is not accepted here", detail="iss is no issuer of the file")
        name = trusted[0].name
        # RFC 7519 §4.1.3: one string, or a list of strings.
        value = claims.get("aud")
        members = value if isinstance(value, list) else [value]
        audience = [member for member in members if isinstance(member, str)]
        if len(audience) != len(members):
            fact = f"issuer {name}: aud is neither a string nor a list of strings"
            raise AuthInvalid("the token is malformed", detail=fact, issuer=name)
        fitting = [each for each in trusted if not each.audience.isdisjoint(audience)]
        if not fitting:
            raise AuthInvalid("the token's audience is not accepted here", detail=f"issuer {name}", issuer=name)
        # Two entries for one issuer may name different tenants: a token that fits both is refused.
        if len(fitting) > 1:
            names = ", ".join(each.name for each in fitting)
            raise AuthInvalid("the token's audience is ambiguous", detail=f"issuers {names}", issuer=name)
        return fitting[0]


def _malformed(detail: str) -> AuthInvalid:
    return AuthInvalid("the token is malformed", detail=detail)


def subject_of(issuer: IssuerSettings, claims: Mapping[str, object]) -> str:
    """Return the subject of a token, by the claim that the issuer is configured with; empty where there is none.

    Raises:
        AuthInvalid: the claim is not a printable text.
    """
    subject = claim_at(claims, issuer.principal_claim, "")
    # Control characters have no place in a name, and in a header they end it.
    if not isinstance(subject, str) or not (subject.isprintable() or subject == ""):
        fact = f"{issuer.principal_claim} is no printable string"
        raise AuthInvalid("the token is malformed", detail=fact)
    return subject


def tenant_of(issuer: IssuerSettings, claims: Mapping[str, object], tenants: Collection[str]) -> str:
    """Return the fixed tenant of the issuer, or the one that the token names (safety T13).

    With a `tenant_map` the claim is a key of it. Any other value is a tenant of that name with the access of
    `tenants."*"`; it is never a tenant that the file names, because only the map assigns claims to these.

    Args:
        tenants: Those that the file names.

    Raises:
        AuthInvalid: the claim is missing, names several tenants, or is not a valid tenant.
        TenantNotMapped: the map does not have it, and it is not a tenant by itself.
    """
    if issuer.tenant is not None:
        return issuer.tenant
    value = None if issuer.tenant_claim is None else single(claims, issuer.tenant_claim)
    if value is None:
        raise AuthInvalid("the token names no tenant", detail="its tenant claim is not one text")
    if issuer.tenant_map:
        mapped = issuer.tenant_map.get(value, issuer.tenant_map.get("*"))
        if mapped is not None:
            return mapped
        if value in tenants or not _can_be_tenant(value):
            raise TenantNotMapped("this tenant is not admitted", detail="its tenant claim is not in `tenant_map`")
        return value
    if not fits_path(value) and value not in RESERVED:
        raise AuthInvalid("the token names no tenant", detail="its tenant claim is no name")
    if not _can_be_tenant(value):
        raise AuthInvalid("the token names no tenant", detail="its tenant claim is reserved")
    return value


def _can_be_tenant(value: str) -> bool:
    # A tenant must be a valid path segment, and not the anonymous tenant's name.
    return fits_path(value) and value != ANONYMOUS_TENANT
