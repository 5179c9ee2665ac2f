"""Tokens of the configured issuers: which of them is good, and whose it is.

A token is judged in this order: is it strict (`jws`), whose is it (`iss` and `aud`, still unproven), may it be signed
like this, with which key, is the signature right; only then, what it says of time and tenant. So `AuthExpired` is said
of true tokens alone. A verdict is remembered: a good one for a minute but never past `exp`, a bad one for five seconds,
and neither past a change of the issuer's keys (safety K7).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.a2a.fault import AuthExpired, AuthInvalid, AuthUnavailable
from gateway.config.model import NAME, RESERVED, Issuer
from gateway.identity.jwk import Key
from gateway.identity.jwks import KeySet
from gateway.identity.jws import Jws, parse
from gateway.identity.verdict import Verdict, Verdicts
from gateway.principal import ANONYMOUS_TENANT, Principal

MOST_VERDICTS = 10_000
GOOD_FOR = 60.0
"""Seconds for which a good token is not verified again."""
BAD_FOR = 5.0
"""Seconds for which a bad token is not verified again."""

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
    """

    def __init__(self, issuers: Mapping[str, Issuer], key_sets: Mapping[str, KeySet]) -> None:
        trusted: dict[str, list[_Trust]] = {}
        for name, issuer in issuers.items():
            trust = _Trust(name, issuer, frozenset(issuer.audience), key_sets[name])
            trusted.setdefault(issuer.issuer, []).append(trust)
        self._trusted = trusted
        # Apart, so that whoever invents bad tokens cannot push out the good ones.
        self._good = Verdicts(MOST_VERDICTS)
        self._bad = Verdicts(MOST_VERDICTS)

    def verify(self, token: bytes, digest: bytes, now: float) -> Principal:
        """Whose token this is.

        Args:
            digest: SHA-256 of the token.
            now: Wall-clock seconds.

        Raises:
            AuthInvalid: it proves nothing.
            AuthExpired: it was good once.
            AuthUnavailable: the keys of its issuer have never been read.
            Pending: the keys are being read, and may then decide.
        """
        verdict = self._good.get(digest, now)
        if verdict is None:
            verdict = self._bad.get(digest, now)
        if verdict is None:
            verdict = self._judge(token, now)
            (self._good if isinstance(verdict.outcome, Principal) else self._bad).put(digest, verdict)
        if isinstance(verdict.outcome, Principal):
            return verdict.outcome
        fault, message, detail = verdict.outcome
        raise fault(message, detail=detail)

    def _judge(self, token: bytes, now: float) -> Verdict:
        """As `verify`, but a token that is bad, for good reason, is a verdict as well."""
        key_set = None
        version = 0
        try:
            jws = parse(token)
            trust = self._trust(jws.claims)
            key_set, version = trust.key_set, trust.key_set.version
            _check_signature(jws, trust)
            expires = _check_times(jws.claims, trust, now)
            principal = _principal(jws.claims, trust, expires)
        except (AuthInvalid, AuthExpired) as fault:
            return Verdict((type(fault), fault.message, fault.detail), now, now + BAD_FOR, key_set, version)
        return Verdict(principal, now, min(expires, now + GOOD_FOR), key_set, version)

    def _trust(self, claims: Mapping[str, object]) -> _Trust:
        """The issuer that the token says it is from and that takes its audience; nothing is proven by this."""
        issuer = claims.get("iss")
        trusted = self._trusted.get(issuer) if isinstance(issuer, str) else None
        if trusted is None:
            raise AuthInvalid("the token's issuer is not accepted here", detail="iss is no issuer of the file")
        audience = _audience(claims)
        fitting = [trust for trust in trusted if not trust.audience.isdisjoint(audience)]
        if not fitting:
            raise AuthInvalid("the token's audience is not accepted here", detail=f"issuer {trusted[0].name}")
        # Two entries for one issuer may name different tenants: a token that fits both is nobody's.
        if len(fitting) > 1:
            names = ", ".join(trust.name for trust in fitting)
            raise AuthInvalid("the token's audience is ambiguous", detail=f"issuers {names}")
        return fitting[0]


def _audience(claims: Mapping[str, object]) -> list[str]:
    """RFC 7519 §4.1.3: one string, or a list of strings."""
    value = claims.get("aud")
    members = value if isinstance(value, list) else [value]
    audience = [member for member in members if isinstance(member, str)]
    if len(audience) != len(members):
        raise AuthInvalid("the token is malformed", detail="aud is neither a string nor a list of strings")
    return audience


def _check_signature(jws: Jws, trust: _Trust) -> None:
    if not _key(jws, trust).verifies(jws.algorithm, jws.signed, jws.signature):
        raise AuthInvalid("the token's signature is wrong", detail=f"issuer {trust.name}")


def _key(jws: Jws, trust: _Trust) -> Key:
    if jws.algorithm not in trust.issuer.algorithms:
        raise AuthInvalid("the token's algorithm is not accepted here", detail=f"issuer {trust.name}")
    key = trust.key_set.find(jws.kid, jws.algorithm)
    if key is not None:
        return key
    pending = trust.key_set.pending(jws.kid)
    if pending is not None:
        raise pending
    if not trust.key_set.ready:
        raise AuthUnavailable(
            "tokens cannot be verified now; try again soon",
            detail=f"issuer {trust.name}: its keys were never read, or not for a day",
            retry_after=_RETRY_AFTER,
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


def _principal(claims: Mapping[str, object], trust: _Trust, expires: float) -> Principal:
    subject = claims.get("sub", "")
    # Control characters have no place in a name, and in a header they end it.
    if not isinstance(subject, str) or not (subject.isprintable() or subject == ""):
        raise AuthInvalid("the token is malformed", detail=f"issuer {trust.name}: sub is no printable string")
    return Principal(
        tenant=_tenant(claims, trust),
        subject=subject,
        method="jwt",
        issuer=trust.name,
        claims=claims,
        expires=expires,
    )


def _tenant(claims: Mapping[str, object], trust: _Trust) -> str:
    """The fixed tenant of the issuer, or the one that the token names (safety T13)."""
    if trust.issuer.tenant is not None:
        return trust.issuer.tenant
    claim = trust.issuer.tenant_claim
    value = None if claim is None else claims.get(claim)
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise AuthInvalid("the token names no tenant", detail=f"issuer {trust.name}: its tenant claim is no name")
    # Nobody may be called like a path segment, or like those who showed nothing.
    if value in RESERVED or value == ANONYMOUS_TENANT:
        raise AuthInvalid("the token names no tenant", detail=f"issuer {trust.name}: its tenant claim is reserved")
    return value
