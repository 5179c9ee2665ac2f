"""TLS of a connection: the result of its handshake, read once, and the settings of the gRPC listener."""

import asyncio
import ssl
from dataclasses import dataclass

from gateway.identity.mtls import read_certificate
from gateway.network.certificate import ServerTls
from gateway.principal import Certificate


@dataclass(frozen=True, slots=True)
class TlsSession:
    """The result of the TLS handshake of a connection.

    Attributes:
        scheme: `http`, or `https` over TLS.
        certificate: The certificate of the client; None if it has none, or none was requested.
        tls: The context of its handshake; None without TLS.
        protocol: The protocol that was negotiated (ALPN), or None.
    """

    scheme: str = "http"
    certificate: Certificate | None = None
    tls: ssl.SSLContext | None = None
    protocol: str | None = None

    def outlives(self, tls: ServerTls) -> bool:
        """Return whether the connection may stay open after a change of the TLS settings.

        It may not if clients now need a certificate and this one has none, or if an authority of its handshake is no
        longer trusted. In the second case its certificate becomes void, because a request may be in progress.
        """
        if self.tls is None or self.tls is tls:
            return True
        if self.certificate is None:
            return tls.verify_mode is not ssl.CERT_REQUIRED
        trusted = self.tls.authorities if isinstance(self.tls, ServerTls) else frozenset()
        self.certificate.void = not trusted <= tls.authorities
        return not self.certificate.void


NO_TLS = TlsSession()
"""The value before the connection is made, and without TLS."""


def read_tls_session(transport: asyncio.BaseTransport, tls: ServerTls | None) -> TlsSession:
    """Return the handshake of a transport's connection.

    Args:
        tls: The context for new handshakes; it may differ from that of this one.
    """
    tls_object = transport.get_extra_info("ssl_object")
    if tls_object is None:
        return NO_TLS
    der = tls_object.getpeercert(binary_form=True)
    certificate = None if der is None else read_certificate(der)
    session = TlsSession("https", certificate, tls_object.context, tls_object.selected_alpn_protocol())
    if tls is not None:
        session.outlives(tls)
    return session


@dataclass(frozen=True, slots=True)
class PemTls:
    """The TLS settings of the gRPC listener, as grpc-core reads them.

    Attributes:
        chain: The certificate and those that sign it, PEM.
        key: The private key, PEM.
        authorities: The authorities of client certificates, PEM; None if none are requested.
        trusted: The SHA-256 of each of them.
    """

    chain: bytes
    key: bytes
    authorities: bytes | None = None
    trusted: frozenset[bytes] = frozenset()
