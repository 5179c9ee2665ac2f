"""Callers that a certificate proves: what is on it is read once for each connection, whose it is once for each file.

OpenSSL has verified it in the handshake: its chain up to an authority of the file, the dates, and that it may be shown
by clients (RFC 5280 §4.2.1.12). What is left is whose it is, and whether it is over by now: connections last.

Decision (2026-11-22): one bundle of authorities, each of which can vouch for any name. To tell them apart one would
need the chain that a certificate was verified by, and a TLS session that is resumed has none.
"""

import hashlib
from types import MappingProxyType

from cryptography import x509
from cryptography.x509.oid import NameOID

from gateway.a2a.fault import AuthExpired, AuthInvalid, AuthMissing
from gateway.certificate import Certificate
from gateway.config.client import ClientName, Clients, Mtls, NobodyKnown, is_spiffe
from gateway.identity.verdict import Refusal, Verdict, Verdicts
from gateway.principal import Principal

_FOR_EVER = float("inf")
_UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    # What the library only warns of, such as a serial number of 0; an error where warnings are.
    UserWarning,
)


def read_certificate(der: bytes) -> Certificate:
    """What is on a certificate; one that cannot be read has no name, and so is nobody's."""
    digest = hashlib.sha256(der).digest()
    try:
        read = x509.load_der_x509_certificate(der)
        uris, dns = _alternative_names(read)
        return Certificate(
            digest=digest,
            uris=uris,
            dns=dns,
            common_names=tuple(str(each.value) for each in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)),
            subject=read.subject.rfc4514_string(),
            issuer=read.issuer.rfc4514_string(),
            expires=read.not_valid_after_utc.timestamp(),
            signs=_signs(read),
        )
    except _UNREADABLE:
        return Certificate(digest, expires=_FOR_EVER)


def _alternative_names(read: x509.Certificate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (), ()
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    dns = names.get_values_for_type(x509.DNSName)
    return tuple(uris), tuple(name.lower() for name in dns)


def _signs(read: x509.Certificate) -> bool:
    try:
        if read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return True
    except x509.ExtensionNotFound:
        pass
    try:
        usage = read.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return False
    return usage.key_cert_sign or usage.crl_sign


class Certificates:
    """Whose certificates are, by one configuration.

    Args:
        mtls: What the file says of them.
        most: How many are remembered.

    Attributes:
        gives_way: Whether a token beside a certificate counts instead of it.
        required: Whether nobody is let in without one, whatever else is shown.
        clients: Whose which names are.
    """

    def __init__(self, mtls: Mtls, most: int) -> None:
        self.gives_way = mtls.with_token
        self.required = mtls.require
        self.clients = Clients(mtls.clients)
        self._known = Verdicts(most)

    def check(self, certificate: Certificate | None, now: float) -> None:
        """See that there is a certificate which is good still, whosever it is.

        Args:
            now: Wall-clock seconds.

        Raises:
            AuthMissing: there is none.
            AuthInvalid: who has signed it is no longer trusted.
            AuthExpired: it is over by now.
        """
        if certificate is None:
            raise AuthMissing("connect again, and show a certificate", detail="one is required by now")
        if certificate.void:
            raise _distrusted()
        if now >= certificate.expires:
            raise _expired(certificate).fault()

    def find(self, certificate: Certificate, now: float) -> Principal:
        """Who calls over a connection where this was shown.

        Args:
            now: Wall-clock seconds.

        Raises:
            AuthInvalid: it is nobody's, or who has signed it is no longer trusted.
            AuthExpired: it is over by now.
        """
        if certificate.void:
            raise _distrusted()
        verdict = self._known.get(certificate.digest, now)
        if verdict is None:
            verdict = self._judge(certificate, now)
            self._known.put(certificate.digest, verdict)
        if isinstance(verdict.outcome, Refusal):
            raise verdict.outcome.fault()
        return verdict.outcome

    def _judge(self, certificate: Certificate, now: float) -> Verdict:
        if now >= certificate.expires:
            return Verdict(_expired(certificate), now, _FOR_EVER)
        if certificate.signs and any(is_spiffe(uri) for uri in certificate.uris):
            # X509-SVID §5.2: whoever may sign others is none that a SPIFFE ID is of.
            detail = "a SPIFFE ID on a certificate that may sign others"
            return Verdict(Refusal(AuthInvalid, "the certificate is not known here", detail), now, certificate.expires)
        names = [
            *(ClientName("uri", text) for text in certificate.uris),
            *(ClientName("dns", text) for text in certificate.dns),
            *(ClientName("common_name", text) for text in certificate.common_names),
        ]
        try:
            whose = self.clients.find(names)
        except NobodyKnown as error:
            refusal = Refusal(AuthInvalid, "the certificate is not known here", str(error))
            return Verdict(refusal, now, certificate.expires)
        claims = MappingProxyType(
            {
                "san": (*certificate.uris, *certificate.dns),
                "subject": certificate.subject,
                "issuer": certificate.issuer,
                "client": whose.client,
            }
        )
        return Verdict(whose.principal(claims, certificate.expires), now, certificate.expires)


def _distrusted() -> AuthInvalid:
    return AuthInvalid(
        "the certificate is no longer accepted; connect again", detail="it was verified by other authorities"
    )


def _expired(certificate: Certificate) -> Refusal:
    return Refusal(AuthExpired, "the certificate has expired", certificate.subject)
