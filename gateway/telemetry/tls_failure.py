"""TLS failures as a closed list of words that logs and operators' pages may show.

The text of OpenSSL may contain bytes of the peer; its codes do not: `X509_V_ERR_…` if the verification failed, else
`SSL_R_…`. Both are read from the error, or from its causes.
"""

import ssl
from collections.abc import Iterator
from enum import StrEnum

_DEEPEST = 8


class TlsFailure(StrEnum):
    """The reason of a TLS failure."""

    WRONG_NAME = "wrong name"
    """The certificate is for another name or address."""
    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    SELF_SIGNED = "self-signed"
    UNKNOWN_AUTHORITY = "unknown authority"
    """No trusted authority has signed it, or an intermediate certificate is missing."""
    REVOKED = "revoked"
    WRONG_PURPOSE = "wrong purpose"
    """The certificate, or an authority's, is not for this use."""
    TOO_WEAK = "too weak"
    """A key or a signature is too weak."""
    BAD_CERTIFICATE = "bad certificate"
    """Verification failed for another reason."""
    NO_TLS = "no TLS"
    """The server does not speak TLS."""
    VERSION = "no common TLS version"
    UNKNOWN_NAME = "name not served"
    """The peer has no certificate for the requested name."""
    CLIENT_CERTIFICATE = "client certificate required or refused"
    """The peer requires a certificate, or rejects the one it got."""
    ENDED = "ended by the peer"
    """The peer closed the connection."""
    HANDSHAKE = "handshake failure"
    """Any other step of the handshake failed."""


def tls_failure(error: BaseException, *, connecting: bool = False) -> TlsFailure | None:
    """Return the reason of a TLS failure, from an error or its causes; None for any other error.

    Args:
        connecting: Whether the error came while connecting, so that a reset is part of the handshake: a port without
            a listener refuses.
    """
    for each in _causes(error):
        if isinstance(each, ssl.SSLCertVerificationError):
            return _VERIFY_CODES.get(each.verify_code, TlsFailure.BAD_CERTIFICATE)
        if isinstance(each, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            # Which of the two it is depends on the version of Python, and the second has no reason.
            return TlsFailure.ENDED
        if isinstance(each, ssl.SSLError):
            return of_reason(each.reason or "")
        if connecting and isinstance(each, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
            return TlsFailure.ENDED
    return None


def of_reason(reason: str) -> TlsFailure:
    """Return the meaning of a reason of OpenSSL or BoringSSL, such as `WRONG_VERSION_NUMBER`."""
    return _REASONS.get(reason.removeprefix("SSLV3_").removeprefix("TLSV1_").removeprefix("TLSV13_"), _OTHER)


def kind(error: BaseException, *, connecting: bool = False) -> str:
    """Describe an error by its kind and the TLS failure, never by its text: `ConnectError (TLS: expired)`.

    Args:
        connecting: As `tls_failure`.
    """
    name = type(error).__name__
    failure = tls_failure(error, connecting=connecting)
    return name if failure is None else f"{name} (TLS: {failure})"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_DEEPEST):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


_VERIFY_CODES = {
    2: TlsFailure.UNKNOWN_AUTHORITY,  # unable to get issuer certificate
    9: TlsFailure.NOT_YET_VALID,
    10: TlsFailure.EXPIRED,
    18: TlsFailure.SELF_SIGNED,
    19: TlsFailure.UNKNOWN_AUTHORITY,  # self-signed certificate in chain: an authority that is not trusted
    20: TlsFailure.UNKNOWN_AUTHORITY,  # unable to get local issuer certificate
    21: TlsFailure.UNKNOWN_AUTHORITY,  # unable to verify the first certificate
    23: TlsFailure.REVOKED,
    24: TlsFailure.WRONG_PURPOSE,  # no authority's certificate, and 79 in OpenSSL 3
    26: TlsFailure.WRONG_PURPOSE,
    27: TlsFailure.UNKNOWN_AUTHORITY,  # certificate not trusted
    62: TlsFailure.WRONG_NAME,
    64: TlsFailure.WRONG_NAME,
    66: TlsFailure.TOO_WEAK,
    67: TlsFailure.TOO_WEAK,
    68: TlsFailure.TOO_WEAK,
    79: TlsFailure.WRONG_PURPOSE,
}
"""By `X509_V_ERR_…` (openssl/x509_vfy.h)."""

_OTHER = TlsFailure.HANDSHAKE
_REASONS = {
    "WRONG_VERSION_NUMBER": TlsFailure.NO_TLS,
    "HTTP_REQUEST": TlsFailure.NO_TLS,
    "HTTPS_PROXY_REQUEST": TlsFailure.NO_TLS,
    "PACKET_LENGTH_TOO_LONG": TlsFailure.NO_TLS,
    "RECORD_LAYER_FAILURE": TlsFailure.NO_TLS,
    "BAD_RECORD_TYPE": TlsFailure.NO_TLS,
    "UNKNOWN_PROTOCOL": TlsFailure.NO_TLS,
    "UNSUPPORTED_PROTOCOL": TlsFailure.VERSION,
    "ALERT_PROTOCOL_VERSION": TlsFailure.VERSION,
    "NO_PROTOCOLS_AVAILABLE": TlsFailure.VERSION,
    "VERSION_TOO_LOW": TlsFailure.VERSION,
    "UNRECOGNIZED_NAME": TlsFailure.UNKNOWN_NAME,
    "ALERT_UNRECOGNIZED_NAME": TlsFailure.UNKNOWN_NAME,
    "ALERT_CERTIFICATE_REQUIRED": TlsFailure.CLIENT_CERTIFICATE,
    "ALERT_BAD_CERTIFICATE": TlsFailure.CLIENT_CERTIFICATE,
    "ALERT_UNSUPPORTED_CERTIFICATE": TlsFailure.CLIENT_CERTIFICATE,
    "ALERT_CERTIFICATE_REVOKED": TlsFailure.CLIENT_CERTIFICATE,
    "ALERT_CERTIFICATE_EXPIRED": TlsFailure.CLIENT_CERTIFICATE,
    "ALERT_CERTIFICATE_UNKNOWN": TlsFailure.CLIENT_CERTIFICATE,
    "ALERT_UNKNOWN_CA": TlsFailure.CLIENT_CERTIFICATE,
    "ALERT_ACCESS_DENIED": TlsFailure.CLIENT_CERTIFICATE,
    "DH_KEY_TOO_SMALL": TlsFailure.TOO_WEAK,
    "UNEXPECTED_EOF_WHILE_READING": TlsFailure.ENDED,
}
"""By `SSL_R_…` (openssl/sslerr.h), without the version of TLS that an alert's name begins with."""
