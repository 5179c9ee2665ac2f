"""The certificate that a client has shown in its TLS handshake, as far as anybody asks for it."""

import msgspec


class Certificate(msgspec.Struct, eq=False):
    """The fields of a certificate that an authority of the file has signed; each connection has one of its own.

    Attributes:
        digest: Its SHA-256.
        uris: Of the subject alternative name, in order.
        dns: Likewise, in lower case.
        common_names: Of the subject.
        subject, issuer: Distinguished names (RFC 4514).
        expires: Wall-clock seconds of its end.
        signs: Whether it may sign other certificates.
        void: Whether those that it was verified by are no longer trusted; the one thing here that changes.
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
