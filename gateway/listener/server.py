"""Starts and stops uvicorn on a socket of ours, in a loop of ours, with no signal handling of its own."""

import asyncio
import logging
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import uvicorn

from gateway.background import Background
from gateway.config.certificate import CertificateUnusable, ServerTls, server_context
from gateway.config.limit import Http
from gateway.listener.edge import Accepted, Edge
from gateway.listener.handshake import Handshakes
from gateway.listener.protocol import ClientConnection

_BACKLOG = 2048
_LARGEST_PORT = 65535
_GLANCE = 0.01
_MOST_FILES = 1_048_576
# A call needs a connection to its agent beside that of its client, and the process some files of its own.
_FILES_FOR_CLIENTS = 0.9

logger = logging.getLogger("gateway.listener")


class ListenFailed(Exception):  # noqa: N818 - told to the operator as it is
    """The address cannot be listened on, or not with this certificate."""


def bind(address: str) -> socket.socket:
    """A listening socket at `host:port`; an IPv6 host stands in brackets, port 0 lets the system pick.

    Raises:
        ListenFailed: the address is taken, not ours, or none.
    """
    listener = _bound(address, socket.SO_REUSEADDR)
    try:
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ListenFailed(f"cannot listen on {address}: {error.strerror}") from error
    return listener


def reserve(address: str) -> socket.socket:
    """Return a socket that holds a port for grpc-core's own, which share it (SO_REUSEPORT), and does not listen.

    Raises:
        ListenFailed: as `bind`.
    """
    if not address.endswith(":0"):
        # Another program that shares its port, too, would get half of the calls.
        bind(address).close()
    return _bound(address, socket.SO_REUSEADDR, socket.SO_REUSEPORT)


def _bound(address: str, *options: int) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if port.isascii() and port.isdigit() and int(port) > _LARGEST_PORT:
        # getaddrinfo would take the rest of a division by 65536.
        raise ListenFailed(f"cannot listen on {address}: there is no such port")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, ValueError) as error:
        raise ListenFailed(f"cannot listen on {address}: {error}") from error
    try:
        for option in options:
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6 and host:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(place)
    except OSError as error:
        listener.close()
        raise ListenFailed(f"cannot listen on {address}: {error.strerror}") from error
    return listener


def address_of(listener: socket.socket) -> str:
    """`host:port` of a listening socket, as a URL writes it."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def server_tls(chain: Path, key: Path) -> ServerTls:
    """The TLS settings for HTTP clients: 1.2 or later, and HTTP/1.1.

    Args:
        chain: PEM file of the certificate and those that sign it.
        key: PEM file of its private key, without a passphrase.

    Raises:
        ListenFailed: the two cannot be used.
    """
    try:
        return server_context(chain, key)
    except CertificateUnusable as error:
        named = chain if error.key == "cert" else key
        raise ListenFailed(f"cannot serve TLS with {chain} and {key}: {named.name} {error.fact}") from error


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


def client_limits(written: Http, beside: int = 0) -> Http:
    """The bounds that a configuration writes; fewer connections where the system grants fewer open files.

    Args:
        beside: How many another listener for clients may have. Where there are not enough files for both, this one
            gets what that one leaves, and half of them in any case: who fills one shuts nobody out of the other.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        allowed = _MOST_FILES
    for_clients = int(allowed * _FILES_FOR_CLIENTS)
    connections = min(written.connections, max(for_clients - beside, for_clients // 2))
    return written.model_copy(update={"connections": connections})


def raise_file_limit() -> None:
    """Take as many open files as the system grants without asking; the usual 1,024 are for other times."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _tune(listener: socket.socket, limits: Http) -> None:
    """Have the system keep the same bounds for what it has taken to send; connections inherit them."""
    for name, value in (
        # A kernel that takes megabytes would not say for minutes whether a slow reader reads at all.
        ("TCP_NOTSENT_LOWAT", limits.write_buffer),
        # A client that is gone without a word, and one that reads nothing of the little that fits into the kernel.
        ("TCP_USER_TIMEOUT", max(int(limits.write_stall * 1000), 1)),
        ("TCP_NODELAY", 1),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            with suppress(OSError):
                listener.setsockopt(socket.IPPROTO_TCP, option, value)


class _Server(uvicorn.Server):
    """uvicorn's server, for what it leaves out."""

    protocol: Callable[..., asyncio.Protocol]
    tls: ServerTls | None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections on these sockets; over TLS `Handshakes` does."""
        factory = partial(self.protocol, server_state=self.server_state)
        loop = asyncio.get_running_loop()
        self.servers = []
        if self.tls is None:
            self.servers = [
                await loop.create_server(factory, sock=each, backlog=self.config.backlog) for each in sockets or ()
            ]
        self.started = True


class HttpServer:
    """One listening socket and what answers behind it.

    Args:
        edge: What its connections share.
        tls: From `server_tls`, or None for plain http.
    """

    def __init__(
        self,
        listener: socket.socket,
        edge: Edge,
        *,
        tls: ServerTls | None = None,
    ) -> None:
        config = uvicorn.Config(
            _nothing,
            http=ClientConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
        )
        config.load()
        _tune(listener, edge.limits)
        self._listener = listener
        self._edge = edge
        edge.tls = self._tls = tls
        self._server = _Server(config)
        self._server.protocol = partial(ClientConnection, edge)
        self._server.tls = tls
        self._server.lifespan = config.lifespan_class(config)
        self._accepting = False
        self._winding_down = False
        self._shaking: asyncio.Task[None] | None = None
        self._handshakes: Handshakes | None = None

    @property
    def address(self) -> str:
        """`host:port`, as a URL writes it; not once it is closed."""
        return address_of(self._listener)

    async def start(self, background: Background, name: str) -> None:
        """Accept connections from now on."""
        server = self._server
        await server.startup(sockets=[self._listener])
        self._accepting = True
        if self._tls is not None:
            made = partial(server.protocol, server_state=server.server_state)

            def connection(peer: str) -> Accepted:
                return cast("Accepted", made(peer=peer))  # it is both

            self._handshakes = Handshakes(self._listener, self._tls, self._edge, connection)
            self._shaking = background.start(f"{name} handshakes", self._handshakes.run)
        # Keeps the Date header right; it returns once `should_exit` is set.
        background.start(f"{name} clock", server.main_loop)

    def renew(self, tls: ServerTls) -> None:
        """Show another certificate from now on, and verify clients' by other authorities, in new handshakes.

        Those that were made stand, but where a client was verified by an authority that is no longer there, or showed
        nothing and now has to: it may end what it has begun.
        """
        if self._handshakes is not None:
            self._edge.tls = self._tls = self._handshakes.tls = tls
            for connection in self._connections:
                if not connection.introduction.outlives(tls):
                    connection.shutdown()

    def wind_down(self) -> None:
        """Go on accepting, but let connections end with their next answer: clients go elsewhere of their own accord."""
        self._winding_down = True
        self._edge.closing = True

    def press(self, short: bool) -> None:  # noqa: FBT001 - of which there is one
        """Have connections end with their next answer while open files are short."""
        self._edge.closing = short or self._winding_down

    def stop_accepting(self) -> None:
        """Close the socket and every idle connection; the others close after their answer."""
        self._winding_down = self._edge.closing = True
        if not self._accepting:
            self._listener.close()
            return
        self._accepting = False
        self._server.should_exit = True
        for server in self._server.servers:
            server.close()
        if self._shaking is None:
            self._listener.close()
        else:
            # The loop has to let go of it first.
            self._shaking.add_done_callback(lambda _: self._listener.close())
            self._shaking.cancel()
        for connection in self._connections:
            connection.shutdown()

    @property
    def _connections(self) -> list[Accepted]:
        return cast("list[Accepted]", list(self._server.server_state.connections))  # it knows no others

    async def aclose(self, timeout: float = 1.0) -> None:  # noqa: ASYNC109 - the last step before the process ends
        """Close what is left, after `timeout` seconds also what is still in use."""
        self.stop_accepting()
        state = self._server.server_state
        async with _at_most(timeout):
            while state.tasks:
                await asyncio.wait(list(state.tasks))
        for task in list(state.tasks):
            task.cancel()
        for connection in self._connections:
            connection.end()
        # What was written goes out first; a client that does not read would keep it for ever.
        await self._emptied(timeout)
        for connection in self._connections:
            connection.abort()
        await self._emptied(timeout)

    async def _emptied(self, timeout: float) -> None:  # noqa: ASYNC109 - as above
        state = self._server.server_state
        async with _at_most(timeout):
            while state.tasks or state.connections:  # noqa: ASYNC110 - uvicorn tells nobody when one is gone
                await asyncio.sleep(_GLANCE)


async def _nothing(_scope: object, _receive: object, _send: object) -> None:
    """Where uvicorn would look for an application; connections of ours ask their edge."""


@asynccontextmanager
async def _at_most(seconds: float) -> AsyncIterator[None]:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            yield
