"""Tokens of the configured issuers: which of them is good, and whose it is.

A token is judged in this order: is it strict (`jws`), whose is it (`iss` and `aud`, still unproven), may it be signed
like this, with which key, is the signature right; only then, what it says of time and tenant. So `AuthExpired` is said
of true tokens alone. A verdict is remembered: a good one for a minute but never past `exp`, a bad one for five seconds,
and neither past a change of the issuer's keys (safety K7). What was good once stays *familiar* after that: it is judged
anew, but as nobody's guess.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gateway.a2a.fault import AuthExpired, AuthInvalid, AuthUnavailable, TenantNotMapped
from gateway.a2a.tenant import RESERVED
from gateway.config.limit import Verification
from gateway.config.model import Issuer
from gateway.config.values import NAME
from gateway.identity.jwk import Key
from gateway.identity.jwks import KeySet
from gateway.identity.jws import Jws, parse
from gateway.identity.verdict import Refusal, Verdict, Verdicts
from gateway.principal import ANONYMOUS_TENANT, Principal
from gateway.token_claim import claim_at, single

_LONGEST_LEEWAY = 30.0
# The end of the year 9999. Times beyond are milliseconds taken for seconds, or an attempt at an overflow.
_LATEST = 253_402_300_799
_RETRY_AFTER = 5.0


@dataclass(frozen=True, slots=True)
class _Trust:
    """One configured issuer and its keys."""

    name: str
    issuer: Issuer
    audience: frozenset[str]
    key_set: KeySet

    @property
    def leeway(self) -> float:
        return min(self.issuer.leeway, _LONGEST_LEEWAY)


class Tokens:
    """Verifies tokens, and remembers which were good; a new configuration starts with a new, empty one.

    Args:
        issuers: By name, as the configuration has them.
        key_sets: By the same names; every issuer has one.
        bounds: How long and how many verdicts are remembered.
        tenants: The tenants that the file names; see `tenant_of`.
    """

    def __init__(
        self,
        issuers: Mapping[str, Issuer],
        key_sets: Mapping[str, KeySet],
        bounds: Verification,
        tenants: frozenset[str] = frozenset(),
    ) -> None:
        trusted: dict[str, list[_Trust]] = {}
        for name, issuer in issuers.items():
            trust = _Trust(name, issuer, frozenset(issuer.audience), key_sets[name])
            trusted.setdefault(issuer.issuer, []).append(trust)
        self._trusted = trusted
        self._tenants = tenants
        self._good_for = bounds.remember
        self._bad_for = bounds.remember_bad
        # Apart, so that whoever invents bad tokens cannot push out the good ones.
        self._good = Verdicts(bounds.entries)
        self._bad = Verdicts(bounds.entries)

    def recall(self, digest: bytes, now: float) -> Principal | None:
        """Whose token this is, if it was found good of late.

        Args:
            digest: SHA-256 of the token.
            now: Wall-clock seconds.

        Raises:
            AuthInvalid, AuthExpired: it was found bad of late.
        """
        verdict = self._good.get(digest, now)
        if verdict is None:
            verdict = self._bad.get(digest, now)
            if verdict is None:
                return None
        if isinstance(verdict.outcome, Principal):
            return verdict.outcome
        raise verdict.outcome.fault()

    def is_familiar(self, digest: bytes) -> bool:
        """Whether this token was good when it was judged last, so that it is nobody's guess."""
        return digest in self._good

    def judge(self, token: bytes, digest: bytes, now: float, *, patient: bool = True) -> Principal:
        """Whose token this is, found out anew.

        Args:
            digest: SHA-256 of the token.
            now: Wall-clock seconds.
            patient: Whether keys may be waited for; whoever has done so takes those that are here.

        Raises:
            AuthInvalid: it proves nothing.
            AuthExpired: it was good once.
            AuthUnavailable: the keys of its issuer have never been read.
            Pending: the keys are being read, and may then decide.
        """
        trust, version = None, 0
        try:
            jws = parse(token)
            trust = self._trust(jws.claims)
            version = trust.key_set.version
            _check_signature(jws, trust, patient=patient)
            expires = _check_times(jws.claims, trust, now)
            principal = _principal(jws.claims, trust, expires, self._tenants)
        except (AuthInvalid, AuthExpired) as fault:
            fault.issuer = fault.issuer if trust is None else trust.name
            refusal = Refusal(type(fault), fault.message, fault.detail, fault.issuer)
            key_set = None if trust is None else trust.key_set
            self._good.drop(digest)
            self._bad.put(digest, Verdict(refusal, now, now + self._bad_for, key_set, version))
            raise
        good = Verdict(principal, now, min(expires, now + self._good_for), trust.key_set, version)
        self._good.put(digest, good)
        return principal

    def _trust(self, claims: Mapping[str, object]) -> _Trust:
        """The issuer that the token says it is from and that takes its audience; nothing is proven by this."""
        issuer = claims.get("iss")
        trusted = self._trusted.get(issuer) if isinstance(issuer, str) else None
        if trusted is None:
            raise AuthInvalid("the token's issuer is not accepted here", detail="iss is no issuer of the file")
        name = trusted[0].name
        audience = _audience(claims, name)
        fitting = [trust for trust in trusted if not trust.audience.isdisjoint(audience)]
        if not fitting:
            raise AuthInvalid("the token's audience is not accepted here", detail=f"issuer {name}", issuer=name)
        # Two entries for one issuer may name different tenants: a token that fits both is nobody's.
        if len(fitting) > 1:
            names = ", ".join(trust.name for trust in fitting)
            raise AuthInvalid("the token's audience is ambiguous", detail=f"issuers {names}", issuer=name)
        return fitting[0]


def _audience(claims: Mapping[str, object], name: str) -> list[str]:
    """RFC 7519 §4.1.3: one string, or a list of strings."""
    value = claims.get("aud")
    members = value if isinstance(value, list) else [value]
    audience = [member for member in members if isinstance(member, str)]
    if len(audience) != len(members):
        fact = f"issuer {name}: aud is neither a string nor a list of strings"
        raise AuthInvalid("the token is malformed", detail=fact, issuer=name)
    return audience


def _check_signature(jws: Jws, trust: _Trust, *, patient: bool) -> None:
    if not _key(jws, trust, patient=patient).verifies(jws.algorithm, jws.signed, jws.signature):
        raise AuthInvalid("the token's signature is wrong", detail=f"issuer {trust.name}")


def _key(jws: Jws, trust: _Trust, *, patient: bool) -> Key:
    if jws.algorithm not in trust.issuer.algorithms:
        raise AuthInvalid("the token's algorithm is not accepted here", detail=f"issuer {trust.name}")
    key = trust.key_set.find(jws.kid, jws.algorithm)
    if key is not None:
        return key
    pending = trust.key_set.pending(jws.kid) if patient else None
    if pending is not None:
        raise pending
    if not trust.key_set.ready:
        raise AuthUnavailable(
            "tokens cannot be verified now; try again soon",
            detail=f"issuer {trust.name}: its keys were never read, or not for long",
            retry_after=_RETRY_AFTER,
            issuer=trust.name,
        )
    raise AuthInvalid("the token names no key of its issuer", detail=f"issuer {trust.name}")


def _check_times(claims: Mapping[str, object], trust: _Trust, now: float) -> float:
    """When the token stops being good, in wall-clock seconds (RFC 7519 §4.1.4 to §4.1.6)."""
    expires = _time(claims, "exp")
    if expires is None:
        raise AuthInvalid("the token has no expiry", detail=f"issuer {trust.name}")
    for name in ("nbf", "iat"):
        begins = _time(claims, name)
        if begins is not None and begins > now + trust.leeway:
            raise AuthInvalid("the token is not valid yet", detail=f"issuer {trust.name}: {name}")
    if now >= expires + trust.leeway:
        raise AuthExpired("the token has expired", detail=f"issuer {trust.name}")
    return expires + trust.leeway


def _time(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    # `bool` is an `int`: only the types themselves will do. Compared before it is converted, which could overflow.
    if not (type(value) is int or type(value) is float) or not 0 <= value <= _LATEST or not math.isfinite(value):
        raise AuthInvalid("the token is malformed", detail=f"{name} is no time")
    return float(value)


def _principal(claims: Mapping[str, object], trust: _Trust, expires: float, tenants: frozenset[str]) -> Principal:
    try:
        tenant, subject = tenant_of(trust.issuer, claims, tenants), subject_of(trust.issuer, claims)
    except AuthInvalid as fault:
        fault.detail = f"issuer {trust.name}: {fault.detail}"
        raise
    return Principal(
        tenant=tenant,
        subject=subject,
        method="jwt",
        issuer=trust.name,
        claims=claims,
        expires=expires,
    )


def subject_of(issuer: Issuer, claims: Mapping[str, object]) -> str:
    """Return who calls within the tenant, as the issuer's tokens say it; empty where they do not.

    Raises:
        AuthInvalid: the claim is no printable text.
    """
    subject = claim_at(claims, issuer.principal_claim, "")
    # Control characters have no place in a name, and in a header they end it.
    if not isinstance(subject, str) or not (subject.isprintable() or subject == ""):
        fact = f"{issuer.principal_claim} is no printable string"
        raise AuthInvalid("the token is malformed", detail=fact)
    return subject


def tenant_of(issuer: Issuer, claims: Mapping[str, object], tenants: Collection[str]) -> str:
    """Return the fixed tenant of the issuer, or the one that the token names (safety T13).

    With a `tenant_map` the claim is a key of it. Any other value is a tenant of that very name, which has what
    `tenants."*"` has; it is never one that the file names, for only the map says which claim is whose.

    Args:
        tenants: Those that the file names.

    Raises:
        AuthInvalid: the claim is missing, names several tenants, or can be no tenant's name.
        TenantNotMapped: the map does not have it, and it can be no tenant by itself.
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
    if NAME.fullmatch(value) is None:
        raise AuthInvalid("the token names no tenant", detail="its tenant claim is no name")
    if not _can_be_tenant(value):
        raise AuthInvalid("the token names no tenant", detail="its tenant claim is reserved")
    return value


def _can_be_tenant(value: str) -> bool:
    # Nobody may be called like a path segment, or like those who showed nothing.
    return NAME.fullmatch(value) is not None and value not in RESERVED and value != ANONYMOUS_TENANT
