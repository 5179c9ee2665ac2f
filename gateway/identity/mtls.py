"""Client certificates (mTLS): the names on them, the principal they prove, and the callers that such clients name.

OpenSSL has verified a certificate in the handshake: its chain up to an authority of the file, the dates, and that it is
for clients (RFC 5280 §4.2.1.12). This module finds its principal, and checks that it has not expired since.

There is one bundle of authorities, each of which can vouch for any name, because a resumed TLS session has no chain
(decision 0005).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import NameOID

from gateway.a2a.call import Head
from gateway.a2a.fault import AuthExpired, AuthInvalid, AuthMissing, BadRequest, NotAdmitted
from gateway.a2a.headers import pass_on
from gateway.identity.client_names import ClientName, Clients, UnknownClient, is_spiffe
from gateway.identity.settings import MtlsSettings
from gateway.identity.verification import CredentialCache
from gateway.principal import Certificate, Principal

T = TypeVar("T", bound=x509.ExtensionType)

_FOR_EVER = float("inf")
_LONGEST_VALUE = 256
_UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    # The library only warns of some faults, such as a serial number of 0; with warnings as errors it raises.
    UserWarning,
)


def read_certificate(der: bytes) -> Certificate:
    """Return the fields of a certificate; an unreadable one has no names, and is not accepted."""
    digest = hashlib.sha256(der).digest()
    try:
        read = x509.load_der_x509_certificate(der)
        names = _extension(read, x509.SubjectAlternativeName)
        constraints, usage = _extension(read, x509.BasicConstraints), _extension(read, x509.KeyUsage)
        return Certificate(
            digest=digest,
            uris=() if names is None else tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
            dns=() if names is None else tuple(name.lower() for name in names.get_values_for_type(x509.DNSName)),
            common_names=tuple(str(each.value) for each in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)),
            subject=read.subject.rfc4514_string(),
            issuer=read.issuer.rfc4514_string(),
            expires=read.not_valid_after_utc.timestamp(),
            signs=(constraints is not None and constraints.ca)
            or (usage is not None and (usage.key_cert_sign or usage.crl_sign)),
        )
    except _UNREADABLE:
        return Certificate(digest, expires=_FOR_EVER)


def _extension(read: x509.Certificate, kind: type[T]) -> T | None:
    try:
        return read.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


class Certificates:
    """Principals of certificates, by one configuration.

    Args:
        mtls: `auth.mtls`.
        most: The number of cached results.

    Attributes:
        clients: The entries of `auth.mtls.clients`.
    """

    def __init__(self, mtls: MtlsSettings, most: int) -> None:
        self._gives_way = mtls.with_token
        self._is_required = mtls.require
        self.clients = Clients(mtls.clients)
        self._known = CredentialCache(most)

    def prove(self, certificate: Certificate | None, now: float, *, alone: bool) -> Principal | None:
        """Return the principal of a certificate, or None if another credential decides, or none is needed.

        Args:
            now: Wall-clock seconds.
            alone: Whether there is no other credential.

        Raises:
            AuthMissing: one is required, and none is shown.
            AuthInvalid: it proves nothing, or may not be shown beside another credential.
            AuthExpired: it has expired.
        """
        if self._is_required:
            # The handshake used the configuration of its time, and connections outlast certificates.
            if certificate is None:
                raise AuthMissing("connect again, and show a certificate", detail="one is required by now")
            _check_valid(certificate, now)
        if certificate is None:
            return None
        if alone:
            return self.find(certificate, now)
        if not self._gives_way:
            raise AuthInvalid("show one credential", detail="a certificate, and another credential beside it")
        return None

    def find(self, certificate: Certificate, now: float) -> Principal:
        """Return the principal of a connection whose client showed this.

        Args:
            now: Wall-clock seconds.

        Raises:
            AuthInvalid: it matches no client, or its authority is no longer trusted.
            AuthExpired: it has expired.
        """
        _check_valid(certificate, now)
        known = self._known.find(certificate.digest, now)
        if known is not None:
            return known
        try:
            principal = self._principal(certificate)
        except AuthInvalid as fault:
            self._known.put(certificate.digest, fault, since=now, until=certificate.expires)
            raise
        self._known.put(certificate.digest, principal, since=now, until=certificate.expires)
        return principal

    def _principal(self, certificate: Certificate) -> Principal:
        if certificate.signs and any(is_spiffe(uri) for uri in certificate.uris):
            # X509-SVID §5.2: a certificate that may sign others has no SPIFFE ID.
            raise _unknown("a SPIFFE ID on a certificate that may sign others")
        names = [
            *(ClientName("uri", text) for text in certificate.uris),
            *(ClientName("dns", text) for text in certificate.dns),
            *(ClientName("common_name", text) for text in certificate.common_names),
        ]
        try:
            whose = self.clients.find(names)
        except UnknownClient as error:
            raise _unknown(str(error)) from None
        claims = MappingProxyType(
            {
                "san": (*certificate.uris, *certificate.dns),
                "subject": certificate.subject,
                "issuer": certificate.issuer,
                "client": whose.client,
            }
        )
        return whose.principal(claims, certificate.expires)


def _unknown(detail: str) -> AuthInvalid:
    return AuthInvalid("the certificate is not known here", detail=detail)


def _check_valid(certificate: Certificate, now: float) -> None:
    if certificate.void:
        fact = "it was verified by other authorities"
        raise AuthInvalid("the certificate is no longer accepted; connect again", detail=fact)
    if now >= certificate.expires:
        raise AuthExpired("the certificate has expired", detail=certificate.subject)


# ---- Identity headers of trusted clients -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IdentityHeaderNames:
    """The headers by which a trusted client names its caller, in lower case."""

    tenant: bytes = b"x-a2a-tenant"
    subject: bytes = b"x-a2a-subject"
    session: bytes = b"x-a2a-session"


def caller_of(client: Principal, head: Head, names: IdentityHeaderNames) -> Principal:
    """Return the caller on whose behalf a trusted client calls, or the client itself if it names none.

    Only a client that was proven by its certificate alone is trusted (`auth.mtls.clients.X.trust_identity_headers`).

    | header | effect |
    |---|---|
    | tenant | may only repeat the tenant of the certificate; any other is refused |
    | subject | is sent to the agent; with `isolation: principal` it owns tasks |
    | session | is sent to the agent |

    Raises:
        BadRequest: a header is repeated, or its value is not a name.
        NotAdmitted: the client names another tenant than its own.
    """
    # Without those that have an underscore in their names or are named by `Connection`.
    headers = pass_on(head.headers, frozenset((names.tenant, names.subject, names.session)))
    tenant = _value(headers, names.tenant)
    if tenant and tenant != client.tenant:
        raise NotAdmitted("this certificate does not speak for that tenant", detail=f"{client.subject} says {tenant!r}")
    return replace(client, on_behalf_of=_value(headers, names.subject), session=_value(headers, names.session))


def _value(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> str:
    """Return the value of a header without its escapes; empty where there is none."""
    values = [value for each, value in headers if each == name]
    if not values:
        return ""
    try:
        [value] = values
        text = unquote(value.decode("ascii"), errors="strict")
    except ValueError as error:
        raise BadRequest(f"the header {name.decode()} does not name one caller") from error
    if not 0 < len(text) <= _LONGEST_VALUE or not text.isprintable():
        raise BadRequest(f"the header {name.decode()} is no name of 1 to {_LONGEST_VALUE} visible characters")
    return text
