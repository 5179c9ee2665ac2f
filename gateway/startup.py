"""The listeners of one gateway, built from its configuration: for clients over HTTP and gRPC, and for operators."""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from gateway.background import Background
from gateway.config.limit import Http
from gateway.config.model import AdminTls, Config, Gateway, Tls
from gateway.config.yaml import Marks
from gateway.listener.admin import LONGEST_BODY, MOST_CONNECTIONS
from gateway.listener.asgi import AsgiListener, HostedApplication
from gateway.listener.callbacks import Callbacks, PublicListener
from gateway.listener.http1 import ConnectionLimit, ListenerState
from gateway.listener.http_limits import GrpcLimits, HttpLimits
from gateway.listener.server import HttpServer, ListenFailed, allowed_connections, bind, reserve, server_tls
from gateway.listener.tls import PemTls
from gateway.network.address import UNIX
from gateway.network.certificate import CertificateUnusable, ServerTls, ask, read_authorities
from gateway.proxy.client_address import Network
from gateway.proxy.pipeline import Pipeline

if TYPE_CHECKING:
    from gateway.listener.grpc import GrpcListener


Sockets: TypeAlias = Mapping[tuple[str, str], socket.socket]
"""Bound sockets by role (`public`, `admin`, `grpc`) and address."""

logger = logging.getLogger("gateway.listener")


@dataclass(frozen=True, slots=True)
class ListenerCertificates:
    """The TLS settings for HTTP clients, for gRPC clients and for operators; None without TLS."""

    public: ServerTls | None = None
    grpc: PemTls | None = None
    admin: ServerTls | None = None


def http_limits(written: Http) -> HttpLimits:
    """Return the bounds on the connections over HTTP."""
    return HttpLimits(**dict(written))


def grpc_limits(written: Gateway) -> GrpcLimits:
    """Return the bounds on the connections over gRPC."""
    connections = allowed_connections(written.grpc.connections, beside=written.http.connections)
    limits = dict(written.grpc) | {"connections": connections}
    return GrpcLimits(http_limits(written.http), written.body_limit, **limits)


ADMIN_LIMITS = http_limits(Http(connections=MOST_CONNECTIONS))
"""Bounds on the connections of operators."""


class Listeners:
    """Opens, updates and closes the listeners of one gateway.

    Args:
        sockets: Sockets that are bound already; their owner closes them.
        pipeline: Serves the requests.
        ready: Returns whether new calls are accepted.
        trouble: Returns why they are not accepted, beside draining; empty for none.
        shares: As `ListenerState.shares`.
        over_http: Whether this process listens for HTTP clients; false behind an ASGI server (`asgi`), where the admin
            listener is opened only if the configuration has its address.

    Attributes:
        servers: The open HTTP servers, in the order of the roles.
        address: `host:port` of the first public listener, as a URL has it; empty before it is open.
        admin_address: The same of the admin listener.
        grpc_address: The same of the gRPC listener; empty if there is none.
        asgi: The listener behind an ASGI server; None with `over_http`.
    """

    def __init__(
        self,
        sockets: Sockets,
        pipeline: Pipeline,
        *,
        ready: Callable[[], bool],
        trouble: Callable[[], str],
        shares: Callable[[str], bool],
        over_http: bool = True,
    ) -> None:
        self._sockets = sockets
        self._pipeline = pipeline
        self._ready = ready
        self._trouble = trouble
        self._shares = shares
        self._over_http = over_http
        self.servers: list[HttpServer] = []
        self.asgi: AsgiListener | None = None
        self._public: list[HttpServer] = []
        self._admin: HttpServer | None = None
        self._grpc: GrpcListener | None = None
        self.address = ""
        self.admin_address = ""
        self.grpc_address = ""

    async def open(self, config: Config, marks: Marks, pages: ASGIApp, callbacks: Callbacks) -> None:
        """Bind all listeners without accepting; after a failure `aclose` closes those that are bound.

        Args:
            pages: The pages of the admin listener.
            callbacks: Serves the callback URLs of webhooks.

        Raises:
            ListenFailed: An address or a certificate cannot be used.
        """
        written = config.gateway
        tls = await asyncio.to_thread(self.certificates, config, marks)
        listener = PublicListener(self._pipeline, self._ready, callbacks, trouble=self._trouble)
        if self._over_http:
            beside = 0 if written.listen_grpc is None else written.grpc.connections
            connections = allowed_connections(written.http.connections, beside)
            limits = replace(http_limits(written.http), connections=connections)
            proxies = tuple(ipaddress.ip_network(network) for network in written.proxy_protocol)
            connection_limit: ConnectionLimit | None = None  # of all addresses together
            for address in written.listen:
                state = ListenerState(
                    listener, limits, self._pipeline.unreadable, self._shares, self._pipeline.distrusted
                )
                connection_limit = state.connection_limit = connection_limit or state.connection_limit
                server = self._server("public", address, written.socket_mode, state, tls=tls.public, proxies=proxies)
                self._public.append(server)
            addresses = [server.address for server in self._public]
            self.address = next((each for each in addresses if not each.startswith(UNIX)), addresses[0])
            if len(addresses) > 1:
                logger.info("listening on %s", ", ".join(addresses))
        else:
            prefix = urlsplit(written.public_url or "").path.rstrip("/")
            self.asgi = AsgiListener(
                listener, http_limits(written.http), refused=self._pipeline.unreadable, prefix=prefix
            )
            self.address = written.listen[0]
        if self._has_admin(config):
            state = ListenerState(HostedApplication(pages, LONGEST_BODY), ADMIN_LIMITS)
            self._admin = self._server("admin", written.admin.listen, written.socket_mode, state, tls=tls.admin)
            self.admin_address = self._admin.address
        if written.listen_grpc is not None:
            from gateway.listener.grpc import GrpcListener  # noqa: PLC0415 - grpcio is loaded only if it is used

            # grpc-core opens the socket itself.
            reserved = self._sockets.get(("grpc", written.listen_grpc)) or reserve(written.listen_grpc)
            self._grpc = GrpcListener(reserved, grpc_limits(written), self._pipeline, self._ready, tls.grpc)
            self.grpc_address = self._grpc.address

    def _server(
        self,
        role: str,
        address: str,
        mode: int,
        listener_state: ListenerState,
        *,
        tls: ServerTls | None = None,
        proxies: Sequence[Network] = (),
    ) -> HttpServer:
        bound = self._sockets.get((role, address))
        # The supervisor removes the file of a Unix socket that it has bound.
        server = HttpServer(bound or bind(address, mode), listener_state, tls=tls, proxies=proxies, owned=bound is None)
        self.servers.append(server)
        return server

    async def start(self, background: Background) -> None:
        """Accept connections from now on."""
        for server in self.servers:
            await server.start(background, "admin" if server is self._admin else "public")
        if self._grpc is not None:
            await self._grpc.start()

    def update_health(self) -> None:
        """Update the gRPC health service after readiness has changed."""
        if self._grpc is not None:
            self._grpc.update_health()

    def certificates(self, config: Config, marks: Marks) -> ListenerCertificates:
        """Read the certificates, whose files may have been replaced.

        Raises:
            ListenFailed: A certificate cannot be used.
        """
        written, mtls = config.gateway, None if config.auth is None else config.auth.mtls
        admin = None
        if self._has_admin(config) and (own := written.admin.tls) is not None:
            # A handshake needs no certificate, because probes have none.
            folder = marks.folder(("gateway", "admin", "tls"))
            admin = open_tls(own, folder, None if own.client_ca is None else folder / own.client_ca)
        if written.tls is None:
            return ListenerCertificates(admin=admin)
        folder, ca = (
            marks.folder(("gateway", "tls")),
            None if mtls is None else marks.folder(("auth", "mtls")) / mtls.ca,
        )
        public = open_tls(written.tls, folder, ca, required=mtls is not None and mtls.require)
        grpc = None if written.listen_grpc is None else open_grpc_tls(written.tls, folder, ca, public)
        return ListenerCertificates(public, grpc, admin)

    def _has_admin(self, config: Config) -> bool:
        return self._over_http or "admin" in config.gateway.model_fields_set

    async def renew(self, certificates: ListenerCertificates, config: Config) -> None:
        """Use other certificates and limits for new connections."""
        if certificates.public is not None:
            for server in self._public:
                server.renew(certificates.public)
        if certificates.admin is not None and self._admin is not None:
            self._admin.renew(certificates.admin)
        if self._grpc is not None:
            await self._grpc.renew(certificates.grpc, config.gateway.body_limit)

    def set_overloaded(self, short: bool) -> None:  # noqa: FBT001 - as `HttpServer.set_overloaded`
        """Close client connections after their next answer while open files are short."""
        for server in self._public:
            server.set_overloaded(short)

    def close_after_answers(self) -> None:
        """Accept connections, but close them after their next answer."""
        for server in self._public:
            server.close_after_answers()

    def stop_accepting(self) -> None:
        """Stop accepting clients; the admin listener stays open until `aclose`."""
        for server in self._public:
            server.stop_accepting()
        if self._grpc is not None:
            self._grpc.stop_accepting()

    async def aclose(self) -> None:
        """Close all listeners and their connections."""
        for server in self.servers:
            await server.aclose()
        if self._grpc is not None:
            await self._grpc.aclose()


def open_tls(written: Tls | AdminTls, folder: Path, ca: Path | None = None, *, required: bool = False) -> ServerTls:
    """Return the TLS settings for HTTP: the certificate, and the verification of clients.

    Args:
        folder: The folder of relative paths.
        ca: The authorities of clients; None if no client certificate is requested.
        required: Whether a client without a certificate is refused.

    Raises:
        ListenFailed: The certificate or the authorities cannot be used.
    """
    context = server_tls(folder / written.cert, folder / written.key)
    if ca is not None:
        try:
            ask(context, read_authorities(ca), required=required)
        except CertificateUnusable as error:
            raise ListenFailed(f"cannot verify clients by {ca}: it {error.fact}") from error
    return context


def open_grpc_tls(written: Tls, folder: Path, ca: Path | None, public: ServerTls) -> PemTls:
    """Return the TLS settings for gRPC, in the form that grpc-core reads.

    Args:
        public: The same for HTTP.

    Raises:
        ListenFailed: As `open_tls`.
    """
    try:
        chain, key = (folder / written.cert).read_bytes(), (folder / written.key).read_bytes()
        if ca is None:
            return PemTls(chain, key)
        return PemTls(chain, key, read_authorities(ca).pem.encode("ascii"), public.authorities)
    except (OSError, CertificateUnusable) as error:
        raise ListenFailed(f"cannot read certificates: {error}") from error
