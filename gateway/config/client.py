"""Clients that prove who they are by a certificate: `auth.mtls` in the format."""

from gateway.config.part import Part
from gateway.config.value import Flag, Name, Strings

KINDS = ("uri", "dns", "common_name")
"""The names on a certificate that clients are told by, as the keys of a client's entry."""


class Client(Part):
    """Certificates by a name on them, and whose they are.

    In each name `*` stands for one whole segment of a URI's path, or one whole label of a DNS name; `{tenant}` does as
    well, and is the tenant.
    """

    uri: Strings = ()
    """URIs of the subject alternative name, such as spiffe://mesh.example/ns/{tenant}/sa/*."""
    dns: Strings = ()
    """DNS names of the subject alternative name, such as batch.acme.example."""
    common_name: Strings = ()
    """Common names of the subject; of certificates without URI and DNS name only."""
    tenant: Name | None = None
    """The tenant of them all, where no name has {tenant}."""
    agents: Strings | None = None
    """Agents that they reach at most, whatever their tenant may."""
    trust_identity_headers: Flag = False
    """Whether their identity headers are believed: for whom within their tenant they call, and in which session."""


class Mtls(Part):
    """Callers that show a certificate in their TLS handshake; needs `gateway.tls`."""

    ca: str
    """PEM file with the authorities that sign clients' certificates, relative to this file. Each of them can make a
    certificate with any name, so with any tenant."""
    clients: dict[Name, Client] = {}
    """Whose a certificate is, by a name for messages and matches; the narrowest that fits counts."""
    require: Flag = False
    """Whether nobody is let in without a certificate, not even to public cards and `/-/ready`."""
    with_token: Flag = False
    """Whether a request may have a token or an API key beside the certificate: that alone then says who calls. Where it
    is false such a request is refused."""
