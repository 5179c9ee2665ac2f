"""Certificates, private keys and authorities in PEM files, and the TLS contexts of listeners."""

import hashlib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

_REMEDIES = {
    "cert": "name a PEM file with the certificate and, after it, those that sign it",
    "key": "name a PEM file with the private key of the certificate",
    "ca": "name a PEM file with the certificates of the authorities",
}
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Cipher suites for TLS 1.2, instead of the system's: RFC 9113 §9.2.2 refuses all others. Those of 1.3 stay."""
_ANOTHERS = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})
"""The last one: of another kind, such as RSA."""
_WEAK = frozenset({"EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"})


class CertificateUnusable(Exception):  # noqa: N818 - a fact about a file, told as it is
    """A file that is not a certificate, or not usable for TLS.

    Attributes:
        key: The key of the configuration that names the file.
        fact: The fault, as the rest of a sentence that starts with the file.
        remedy: The remedy.
    """

    def __init__(self, key: Literal["cert", "key", "ca"], fact: str, remedy: str = "") -> None:
        super().__init__(fact)
        self.key = key
        self.fact = fact
        self.remedy = remedy or _REMEDIES[key]


class ServerTls(ssl.SSLContext):
    """The TLS context of a listener.

    Attributes:
        authorities: The SHA-256 of the authorities of client certificates; empty if none are requested.
    """

    authorities: frozenset[bytes] = frozenset()


def server_context(chain: Path, key: Path, protocols: Sequence[str] = ("http/1.1",)) -> ServerTls:
    """Return the TLS context of a listener: TLS 1.2 or later.

    Args:
        chain: PEM file of the certificate and those that sign it.
        key: PEM file of its private key, without a passphrase.
        protocols: The protocols offered, by their ALPN names.

    Raises:
        CertificateUnusable: one of the two cannot be used, or not with the other.
    """
    context = ServerTls(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(protocols)
    context.set_ciphers(_CIPHERS)
    # RFC 9113 §9.2.1; renegotiation has no use elsewhere, and costs the server more than the client.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _certificates(chain, "cert")
    _readable(key, "key")
    try:
        # Without a callback OpenSSL would ask for a passphrase at the terminal, and wait for it.
        context.load_cert_chain(chain, key, _no_passphrase)
    except _UnderPassphrase as error:
        remedy = "store it without one, readable by the gateway alone"
        raise CertificateUnusable("key", "is under a passphrase", remedy) from error
    except ssl.SSLError as error:
        if error.reason in _ANOTHERS:
            raise CertificateUnusable("key", "is not the private key of the certificate") from error
        if error.reason in _WEAK:
            fact, remedy = "is too weak for TLS", "use a certificate with RSA 2048, P-256 or stronger, and SHA-256"
            raise CertificateUnusable("cert", fact, remedy) from error
        # The certificates were just read.
        raise CertificateUnusable("key", "has no private key") from error
    except OSError as error:
        raise CertificateUnusable("key", f"cannot be read: {error.strerror or error}") from error
    return context


def verifying_context(ca_file: str | Path | None = None) -> ssl.SSLContext:
    """Return a context that verifies servers by name, with TLS 1.2 or later. It costs milliseconds, so share it.

    Unlike `ssl.create_default_context` it ignores the environment: SSL_CERT_FILE, SSL_CERT_DIR, SSLKEYLOGFILE (safety
    K9).

    Args:
        ca_file: PEM file of the authorities to trust instead of the system's.

    Raises:
        OSError: The file cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
        return context
    system = ssl.get_default_verify_paths()
    cafile = system.openssl_cafile if Path(system.openssl_cafile).is_file() else None
    context.load_verify_locations(cafile=cafile, capath=system.openssl_capath)
    return context


def read_certificate(file: Path) -> x509.Certificate | None:
    """Return the first certificate of a PEM file; None where it cannot be read, which loading it for TLS reports."""
    try:
        return x509.load_pem_x509_certificate(file.read_bytes()) if file.is_file() else None
    except (OSError, ValueError, TypeError, x509.InvalidVersion, UserWarning):
        return None


def check_authorities(file: Path) -> None:
    """Check that a file has certificates of authorities.

    Raises:
        CertificateUnusable: it cannot be read, or has none.
    """
    _certificates(file, "ca")


def _certificates(file: Path, key: Literal["cert", "ca"]) -> None:
    _readable(file, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=file)
    except (OSError, ValueError) as error:
        raise CertificateUnusable(key, "has no certificate, or a broken one") from error
    if not context.cert_store_stats()["x509"]:
        raise CertificateUnusable(key, "has no certificate")


def _readable(file: Path, key: Literal["cert", "key", "ca"]) -> None:
    try:
        if file.is_dir():
            raise CertificateUnusable(key, "is a folder, not a file")
        if file.exists() and not file.is_file():
            # Reading a pipe would wait for a writer.
            raise CertificateUnusable(key, "is no ordinary file")
        with file.open("rb") as stream:
            empty = not stream.read(1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is malformed"
        remedy = "let the gateway's user read it" if isinstance(error, PermissionError) else ""
        raise CertificateUnusable(key, f"cannot be read: {reason}", remedy) from error
    if empty:
        raise CertificateUnusable(key, "is empty")


class _UnderPassphrase(Exception):  # noqa: N818 - as above
    pass


def _no_passphrase() -> str:
    raise _UnderPassphrase


# ---- authorities of clients ------------------------------------------------------------------------------------------

_MOST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Authorities:
    """The authorities of one file.

    Attributes:
        pem: All of them, without other text of the file.
        digests: The SHA-256 of each of them.
        ends: The name of each, and its last day in UTC.
    """

    pem: str
    digests: frozenset[bytes]
    ends: tuple[tuple[str, date], ...]


def read_authorities(file: Path) -> Authorities:
    """Return the authorities that a PEM file holds.

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
        # OpenSSL would read more from such a file than these digests cover.
        pem = b"".join(one.public_bytes(Encoding.PEM) for one in read).decode("ascii")
    except OSError as error:
        raise CertificateUnusable("ca", f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise CertificateUnusable("ca", "has a broken certificate") from error
    digests = frozenset(hashlib.sha256(one.public_bytes(Encoding.DER)).digest() for one in read)
    return Authorities(pem, digests, ends)


def ask(context: ServerTls, authorities: Authorities, *, required: bool) -> None:
    """Request client certificates of these authorities; any other, or an expired one, ends the handshake.

    Args:
        required: Whether a client without a certificate is refused.

    Raises:
        CertificateUnusable: they are not authorities.
    """
    try:
        context.load_verify_locations(cadata=authorities.pem)
    except ssl.SSLError as error:
        raise CertificateUnusable("ca", "has a broken certificate") from error
    # A file with an intermediate authority trusts that one only, and not its issuer.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    context.authorities = authorities.digests


def signing_key(pem: str) -> EllipticCurvePrivateKey:
    """Return a private key of P-256, with which ES256 signs.

    Raises:
        ValueError: It is not such a key; the text says why, without parts of the key.
    """
    try:
        key = load_pem_private_key(pem.encode(), None)
    except TypeError:
        raise ValueError("it is encrypted") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is no private key in PEM") from None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise ValueError("it is no key of P-256")  # noqa: TRY004 - a fact about a file
    return key
