"""Clients that are authenticated by certificate: `auth.mtls`."""

from gateway.config.values import Flag, Name, Part, Strings
from gateway.identity import client_names, settings
from gateway.identity.client_names import KINDS, ClientPattern


class Client(Part):
    """The certificates of a client, by a name on them.

    In a name, `*` stands for one segment of a URI's path or one label of a DNS name; `{tenant}` does as well, and
    names the tenant.
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
    """Upper bound of the agents that they reach; the tenant's own list applies as well."""
    trust_identity_headers: Flag = False
    """Whether their identity headers are trusted, which name the principal within their tenant and the session."""

    def as_settings(self) -> client_names.Client:
        """Return it as `identity` takes it.

        Raises:
            ValueError: as `ClientPattern.parse`.
        """
        patterns = tuple(ClientPattern.parse(kind, text) for kind in KINDS for text in getattr(self, kind))
        agents = None if self.agents is None else frozenset(self.agents)
        return client_names.Client(patterns, self.tenant, agents, self.trust_identity_headers)


class Mtls(Part):
    """Callers that show a certificate in their TLS handshake; needs `gateway.tls`."""

    ca: str
    """PEM file with the authorities that sign clients' certificates, relative to this file. Each of them can make a
    certificate with any name, so with any tenant."""
    clients: dict[Name, Client] = {}
    """Clients by name; the narrowest pattern that fits a certificate counts."""
    require: Flag = False
    """Whether every client must show a certificate, also for public cards and `/-/ready`."""
    with_token: Flag = False
    """Whether a request may have a token or an API key beside the certificate. That credential alone then identifies
    the caller. If false, such a request is refused."""

    def as_settings(self) -> settings.Mtls:
        """Return it as `identity` takes it.

        Raises:
            ValueError: as `ClientPattern.parse`.
        """
        clients = {name: client.as_settings() for name, client in self.clients.items()}
        return settings.Mtls(clients, require=self.require, with_token=self.with_token)
