"""The caller of a request, proven from its head alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec

ANONYMOUS_TENANT = "anonymous"
"""The tenant of callers without a credential, if the configuration admits them."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller and its restrictions.

    Attributes:
        tenant: The operator's customer or team; never the A2A `tenant` field.
        subject: The caller within the tenant: the `sub` claim, an API key's name, the name on a certificate, or empty.
        method: The kind of credential: `jwt`, `api_key`, `mtls` or `anonymous`.
        issuer: The configured name of the issuer, `mtls` for a certificate, or empty.
        key: The name of the API key, or None.
        claims: The verified claims of the token; of a certificate `san`, `subject`, `issuer` and `client`; else empty.
        narrowed: Agents that the API key or certificate is restricted to, or None for no restriction of its own.
        expires: Wall-clock seconds at which the credential stops being good; `math.inf` for never.
        digest: SHA-256 of the API key that was shown, in hexadecimal; empty for other methods.
        trusted: Whether identity headers of its requests are trusted.
        on_behalf_of: The person within the tenant that such a caller names, or empty.
        session: The session that it names; or empty.
    """

    tenant: str
    subject: str = ""
    method: str = "anonymous"
    issuer: str = ""
    key: str | None = None
    claims: Mapping[str, object] = field(default_factory=dict)
    narrowed: frozenset[str] | None = None
    expires: float = float("inf")
    digest: str = field(default="", compare=False, repr=False)
    trusted: bool = False
    on_behalf_of: str = ""
    session: str = ""

    @property
    def who(self) -> str:
        """Return the owner of tasks within the issuer: the subject, and behind a line end the one that it calls for.

        Neither can hold a line end, so different subjects stay different.
        """
        return f"{self.subject}\n{self.on_behalf_of}" if self.on_behalf_of else self.subject

    @property
    def shown(self) -> str:
        """Return `who` for people, in logs."""
        return f"{self.subject} for {self.on_behalf_of}" if self.on_behalf_of else self.subject


ANONYMOUS = Principal(tenant=ANONYMOUS_TENANT, claims=MappingProxyType({}))
"""The one principal of all callers without a credential, where the configuration admits them."""


class Certificate(msgspec.Struct, eq=False):
    """The fields of a verified client certificate; each connection has its own object.

    Attributes:
        digest: Its SHA-256.
        uris: The URIs of the subject alternative name, in order.
        dns: Its DNS names, in lower case.
        common_names: Of the subject.
        subject, issuer: Distinguished names (RFC 4514).
        expires: Wall-clock seconds of its end.
        signs: Whether it may sign other certificates.
        void: Whether its authorities are no longer trusted; the only field that changes.
    """

    digest: bytes
    uris: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    common_names: tuple[str, ...] = ()
    subject: str = ""
    issuer: str = ""
    expires: float = 0.0
    signs: bool = False
    void: bool = False
