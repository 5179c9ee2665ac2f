"""Where one gateway listens: for clients over HTTP and, where that is configured, over gRPC; and for its operators."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from gateway.background import Background
from gateway.config.certificate import ServerTls
from gateway.config.limit import Http
from gateway.config.model import Config
from gateway.config.yaml import Marks
from gateway.listener.admin import LONGEST_QUESTION, MOST_CONNECTIONS
from gateway.listener.asgi import AsgiListener
from gateway.listener.callback import Callbacks
from gateway.listener.edge import Edge
from gateway.listener.http import PublicListener
from gateway.listener.pages import PagesListener
from gateway.listener.server import HttpServer, PemTls, bind, client_limits, reserve
from gateway.opening import asked_of_clients, open_grpc_tls, open_tls
from gateway.proxy.pipeline import Pipeline

if TYPE_CHECKING:
    from gateway.listener.grpc import GrpcListener


@dataclass(frozen=True, slots=True)
class Certificates:
    """The TLS settings for HTTP and for gRPC clients; None without TLS."""

    public: ServerTls | None = None
    grpc: PemTls | None = None


class Listeners:
    """The listeners of one gateway: opened at its start, closed at its end, and other certificates in between.

    Args:
        sockets: Those that are bound already, by role (`public`, `admin`, `grpc`).
        pipeline: Serves whoever comes.
        ready: Whether new calls are taken.
        trouble: What else than draining keeps them from being taken; empty for nothing.
        shares: As `Edge.shares`.
        over_http: Whether clients are served over HTTP here; an ASGI server does otherwise (`asgi`), and the pages for
            operators are served only where the configuration says at which address.

    Attributes:
        servers: In the order of the roles; one that could not be opened is missing, and so are those after it.
        address: `host:port` of the public one, as a URL writes it; empty before it is open.
        admin_address: Of the one for operators.
        grpc_address: Of the one for clients of gRPC; empty where there is none.
        asgi: Serves what an ASGI server has read; None where clients are served over HTTP here.
    """

    def __init__(
        self,
        sockets: Mapping[str, socket.socket],
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
        self._names: list[str] = []
        self.asgi: AsgiListener | None = None
        self._public: HttpServer | None = None
        self._grpc: GrpcListener | None = None
        self.address = ""
        self.admin_address = ""
        self.grpc_address = ""

    async def open(self, config: Config, marks: Marks, pages: ASGIApp, callbacks: Callbacks) -> None:
        """Bind them all; nobody is accepted yet. What was bound before one that fails is left to `aclose`.

        Args:
            pages: For operators.
            callbacks: What strangers may ask of the public listener beside calls.

        Raises:
            ListenFailed: an address cannot be listened on, or not with this certificate.
        """
        written = config.gateway
        asked = asked_of_clients(config)
        tls = None if written.tls is None else await asyncio.to_thread(open_tls, written.tls, marks, asked)
        listener = PublicListener(self._pipeline, self._ready, callbacks, trouble=self._trouble)
        if self._over_http:
            limits = client_limits(written.http, beside=0 if written.listen_grpc is None else written.grpc.connections)
            edge = Edge(listener, limits, self._pipeline.unreadable, self._shares, self._pipeline.distrusted)
            self._public = HttpServer(self._listen("public", written.listen), edge, tls=tls)
            self._add("public", self._public)
            self.address = self._public.address
        else:
            prefix = urlsplit(written.public_url or "").path.rstrip("/")
            self.asgi = AsgiListener(listener, written.http, refused=self._pipeline.unreadable, prefix=lambda: prefix)
            self.address = written.listen
        if self._over_http or "admin" in written.model_fields_set:
            edge = Edge(PagesListener(pages, LONGEST_QUESTION), Http(connections=MOST_CONNECTIONS))
            admin = HttpServer(self._listen("admin", written.admin.listen), edge)
            self._add("admin", admin)
            self.admin_address = admin.address
        if written.listen_grpc is not None:
            # Only who serves gRPC pays for it.
            from gateway.listener.grpc import GrpcListener  # noqa: PLC0415 - see above

            pem = None if written.tls is None else await asyncio.to_thread(open_grpc_tls, written.tls, marks, asked)
            reserved = self._listen("grpc", written.listen_grpc)
            self._grpc = GrpcListener(reserved, written, self._pipeline, self._ready, pem)
            self.grpc_address = self._grpc.address

    def _listen(self, role: str, address: str) -> socket.socket:
        bound = self._sockets.get(role)
        if bound is not None:
            return bound
        # gRPC listens itself.
        return reserve(address) if role == "grpc" else bind(address)

    async def start(self, background: Background) -> None:
        """Accept connections from now on."""
        for server, name in zip(self.servers, self._names, strict=True):
            await server.start(background, name)
        if self._grpc is not None:
            await self._grpc.start()

    def _add(self, name: str, server: HttpServer) -> None:
        self.servers.append(server)
        self._names.append(name)

    def tell_health(self) -> None:
        """Have clients of gRPC that watch it know that the gateway became ready, or drains."""
        if self._grpc is not None:
            self._grpc.tell_health()

    def certificates(self, config: Config, marks: Marks) -> Certificates:
        """Read the certificates again: they are renewed under names that stay.

        Raises:
            ListenFailed: it cannot be used.
        """
        tls, asked = config.gateway.tls, asked_of_clients(config)
        if tls is None:
            return Certificates()
        pem = None if self._grpc is None else open_grpc_tls(tls, marks, asked)
        return Certificates(open_tls(tls, marks, asked), pem)

    async def renew(self, certificates: Certificates, config: Config) -> None:
        """Have clients served by other certificates and limits from now on."""
        if certificates.public is not None and self._public is not None:
            self._public.renew(certificates.public)
        if self._grpc is not None:
            await self._grpc.renew(certificates.grpc, config.gateway.body_limit)

    def press(self, short: bool) -> None:  # noqa: FBT001 - as `HttpServer.press`
        """Have connections of clients end with their next answer while open files are short."""
        if self._public is not None:
            self._public.press(short)

    def wind_down(self) -> None:
        """Go on accepting, but let connections of clients end with their next answer."""
        if self._public is not None:
            self._public.wind_down()

    def stop_accepting(self) -> None:
        """Accept no more clients; operators are served up to the end."""
        if self._public is not None:
            self._public.stop_accepting()
        if self._grpc is not None:
            self._grpc.stop_accepting()

    async def aclose(self) -> None:
        """Close all of them, with what is still in use."""
        for server in self.servers:
            await server.aclose()
        if self._grpc is not None:
            await self._grpc.aclose()
