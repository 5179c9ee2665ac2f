"""Authorities that sign clients' certificates: the file that names them, and how clients are asked for one."""

import hashlib
import ssl
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.config.certificate import CertificateUnusable, ServerTls, check_authorities

_MOST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Authorities:
    """The authorities of one file.

    Attributes:
        pem: All of them, and nothing else that the file says.
        digests: The SHA-256 of each of them.
        ends: The name of each, and its last day in UTC.
    """

    pem: str
    digests: frozenset[bytes]
    ends: tuple[tuple[str, date], ...]


def read_authorities(file: Path) -> Authorities:
    """The authorities that a PEM file holds.

    Raises:
        CertificateUnusable: it cannot be read, or holds none.
    """
    check_authorities(file)
    try:
        data = file.read_bytes()
        if len(data) > _MOST:
            raise CertificateUnusable("ca", f"is larger than {_MOST // 1024 // 1024} MiB")
        read = x509.load_pem_x509_certificates(data)
        ends = tuple((one.subject.rfc4514_string(), one.not_valid_after_utc.date()) for one in read)
        # OpenSSL reads more from such a file than is known by a digest then.
        pem = b"".join(one.public_bytes(Encoding.PEM) for one in read).decode("ascii")
    except OSError as error:
        raise CertificateUnusable("ca", f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise CertificateUnusable("ca", "has a broken certificate") from error
    digests = frozenset(hashlib.sha256(one.public_bytes(Encoding.DER)).digest() for one in read)
    return Authorities(pem, digests, ends)


def ask(context: ServerTls, authorities: Authorities, *, required: bool) -> None:
    """Have clients be asked for a certificate of these authorities; one of others, or over, ends the handshake.

    Args:
        required: Whether a client that has none gets no connection.

    Raises:
        CertificateUnusable: they are none.
    """
    try:
        context.load_verify_locations(cadata=authorities.pem)
    except ssl.SSLError as error:
        raise CertificateUnusable("ca", "has a broken certificate") from error
    # Whoever names an authority that another one has signed means that one, and not all of the other's.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    context.authorities = authorities.digests
