"""The client certificate of a TLS handshake."""

import msgspec


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
