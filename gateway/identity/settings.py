"""The settings of authentication: `auth` of the configuration, in plain values. Times are in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from gateway.identity.client_names import CertificateClient


@dataclass(frozen=True, slots=True)
class VerificationSettings:
    """Bounds on the cost of verifying credentials.

    Attributes:
        remember: Time for which a valid token is cached; never past its expiry.
        remember_bad: Time for which an invalid credential is cached.
        entries: Most cached credentials of each kind, and failing addresses.
        failures: Failed credentials of one address that are checked: count and period.
        keys_every: Interval at which an issuer's keys are fetched.
        keys_on_demand: The least time between two readings that unknown keys cause.
        keys_kept: Time for which keys stay valid while their issuer does not answer.
        keys_size: Bytes of the longest key set.
        keys_count: Most keys of a set.
    """

    remember: float
    remember_bad: float
    entries: int
    failures: tuple[float, float]
    keys_every: float
    keys_on_demand: float
    keys_kept: float
    keys_size: int
    keys_count: int


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """An issuer of tokens, and the claims that its tokens must have.

    Attributes:
        issuer: The exact `iss`.
        audience: One of these must be in `aud`.
        algorithms: Signature algorithms that are accepted.
        tenant_claim: The path to the claim that names the tenant.
        tenant_map: Tenants by the value of that claim; `*` is any other value.
        tenant: The tenant of every token, instead of a claim.
        principal_claim: The path to the claim that names the principal within the tenant.
        leeway: Clock difference that is tolerated.
    """

    issuer: str
    audience: tuple[str, ...]
    algorithms: tuple[str, ...]
    tenant_claim: str | None
    tenant_map: Mapping[str, str]
    tenant: str | None
    principal_claim: str
    leeway: float


@dataclass(frozen=True, slots=True)
class ApiKeySettings:
    """A key.

    Attributes:
        sha256: Its hashes, 64 hex digits each; empty ones are left out.
        agents: Upper bound of the agents that it reaches; None for all of the tenant.
        expires: The last day on which it is good (UTC).
    """

    sha256: tuple[str, ...]
    tenant: str
    agents: tuple[str, ...] | None
    expires: date | None


@dataclass(frozen=True, slots=True)
class MtlsSettings:
    """Callers with a certificate.

    Attributes:
        clients: By name; of two patterns that fit one name, one is the narrower.
        require: Whether every client must show a certificate.
        with_token: Whether a request may have a token or an API key beside it, which then identifies the caller.
    """

    clients: Mapping[str, CertificateClient]
    require: bool = False
    with_token: bool = False


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """The credentials that prove callers; issuers and keys are by name."""

    issuers: Mapping[str, IssuerSettings] = field(default_factory=dict)
    api_keys: Mapping[str, ApiKeySettings] = field(default_factory=dict)
    mtls: MtlsSettings | None = None
