"""TLS: what a client showed in its handshake, found out once per connection, and the settings of gRPC clients."""

import asyncio
import ssl
from dataclasses import dataclass

from gateway.config.certificate import ServerTls
from gateway.identity.mtls import read_certificate
from gateway.principal import Certificate


@dataclass(frozen=True, slots=True)
class TlsSession:
    """The handshake of a connection, as far as anybody asks for it.

    Attributes:
        scheme: `http`, or `https` over TLS.
        certificate: The certificate of the client; None if it was not asked or has none.
        tls: The context of its handshake; None without TLS.
        protocol: The protocol that was negotiated (ALPN), or None.
    """

    scheme: str = "http"
    certificate: Certificate | None = None
    tls: ssl.SSLContext | None = None
    protocol: str | None = None

    def outlives(self, tls: ServerTls) -> bool:
        """Whether the connection may go on where handshakes are made like this from now on.

        What is asked for now and was not then, and those who were believed then and are not now, end it. Then its
        certificate is void, for a request may be on its way.
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
    shaken = transport.get_extra_info("ssl_object")
    if shaken is None:
        return NO_TLS
    der = shaken.getpeercert(binary_form=True)
    certificate = None if der is None else read_certificate(der)
    met = TlsSession("https", certificate, shaken.context, shaken.selected_alpn_protocol())
    if tls is not None:
        met.outlives(tls)
    return met


@dataclass(frozen=True, slots=True)
class PemTls:
    """The TLS settings for gRPC clients, as grpc-core reads them.

    Attributes:
        chain: The certificate and those that sign it, PEM.
        key: The private key, PEM.
        authorities: Those that clients' certificates are verified by, PEM; None where none is asked for.
        trusted: The SHA-256 of each of them.
    """

    chain: bytes
    key: bytes
    authorities: bytes | None = None
    trusted: frozenset[bytes] = frozenset()
