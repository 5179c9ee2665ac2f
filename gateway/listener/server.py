"""Listening sockets, and the servers that accept HTTP/1.1 connections on them."""

import asyncio
import errno
import os
import resource
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any

from gateway.background import Background
from gateway.listener.handshake import Handshakes
from gateway.listener.http1 import ClientConnection, ListenerState
from gateway.listener.http_limits import HttpLimits
from gateway.network.address import UNIX
from gateway.network.certificate import CertificateUnusable, ServerTls, server_context
from gateway.proxy.client_address import Network

_BACKLOG = 2048
_LARGEST_PORT = 65535
_POLL = 0.01
_MOST_FILES = 1_048_576
# The process itself needs some open files.
_FILES_FOR_CLIENTS = 0.9


class ListenFailed(Exception):  # noqa: N818 - operators read the text
    """An address cannot be listened on, or a certificate cannot be used."""


def bind(address: str, mode: int = 0o660) -> socket.socket:
    """Return a listening socket at `host:port`, an IPv6 host in brackets, port 0 picked by the system; or `unix:PATH`.

    Args:
        mode: Permissions of a Unix socket.

    Raises:
        ListenFailed: the address is in use, belongs to another machine, or is invalid.
    """
    is_unix = address.startswith(UNIX)
    listener = _bound_unix(address, mode) if is_unix else _bound(address, socket.SO_REUSEADDR)
    try:
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ListenFailed(f"cannot listen on {address}: {error.strerror}") from error
    return listener


def reserve(address: str) -> socket.socket:
    """Return a socket that reserves a port and does not listen; grpc-core shares the port (SO_REUSEPORT).

    Raises:
        ListenFailed: as `bind`.
    """
    if not address.endswith(":0"):
        # Another program with SO_REUSEPORT on this port would get half of the calls.
        bind(address).close()
    return _bound(address, socket.SO_REUSEADDR, socket.SO_REUSEPORT)


def _bound(address: str, *options: int) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if port.isascii() and port.isdigit() and int(port) > _LARGEST_PORT:
        # getaddrinfo would take the port modulo 65536.
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


def _bound_unix(address: str, mode: int) -> socket.socket:
    path = address.removeprefix(UNIX)
    listener = socket.socket(socket.AF_UNIX)
    try:
        _remove_stale(path)
        # The socket has its permissions before anyone can connect.
        before = os.umask(0o777 & ~mode)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
    except OSError as error:
        listener.close()
        raise ListenFailed(f"cannot listen on {address}: {error.strerror or error}") from error
    return listener


def _remove_stale(path: str) -> None:
    """Remove the socket file of a program that has ended.

    Raises:
        OSError: Another program listens there, or the file is no socket.
    """
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise FileExistsError(errno.EEXIST, "there is a file that is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    Path(path).unlink()


def remove(listener: socket.socket) -> None:
    """Remove the file of a listening Unix socket, so that clients do not connect to a socket without a server."""
    if listener.family == socket.AF_UNIX and listener.fileno() >= 0:
        with suppress(OSError):
            Path(listener.getsockname()).unlink()


def address_of(listener: socket.socket) -> str:
    """Return `host:port` of a listening socket, as a URL writes it; `unix:PATH` of a Unix socket."""
    if listener.family == socket.AF_UNIX:
        return f"{UNIX}{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def server_tls(chain: Path, key: Path) -> ServerTls:
    """Return the TLS settings for HTTP clients: TLS 1.2 or later, and HTTP/1.1.

    Args:
        chain: PEM file of the certificate and those that sign it.
        key: PEM file of its private key, without a passphrase.

    Raises:
        ListenFailed: one of the two cannot be used.
    """
    try:
        return server_context(chain, key)
    except CertificateUnusable as error:
        named = chain if error.key == "cert" else key
        raise ListenFailed(f"cannot serve TLS with {chain} and {key}: {named.name} {error.fact}") from error


def allowed_connections(most: int, beside: int = 0) -> int:
    """Return the bound on connections, or less if the system grants fewer open files.

    Args:
        beside: Connections of the other listener for clients. With too few files for both, this one gets the rest, and
            at least half of them, so that clients of one cannot block the other.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        allowed = _MOST_FILES
    for_clients = int(allowed * _FILES_FOR_CLIENTS)
    return min(most, max(for_clients - beside, for_clients // 2))


def raise_file_limit() -> None:
    """Raise the limit on open files to the hard limit; the usual soft limit of 1,024 is too low for a server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _tune(listener: socket.socket, limits: HttpLimits) -> None:
    """Set the bounds of the system for unsent bytes; connections inherit them."""
    for name, value in (
        # With megabytes in the kernel, a client that does not read would be noticed after minutes.
        ("TCP_NOTSENT_LOWAT", limits.write_buffer),
        # For clients that vanish, and clients that do not read bytes in the kernel's buffers.
        ("TCP_USER_TIMEOUT", max(int(limits.write_stall * 1000), 1)),
        ("TCP_NODELAY", 1),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            with suppress(OSError):
                listener.setsockopt(socket.IPPROTO_TCP, option, value)


class HttpServer:
    """One listening socket, and its connections.

    Args:
        state: Its connections, and the state that they share.
        tls: From `server_tls`, or None for plain http.
        proxies: Networks whose connections begin with a PROXY header.
        owned: Whether this process removes the file of a Unix socket.
    """

    def __init__(
        self,
        listener: socket.socket,
        state: ListenerState,
        *,
        tls: ServerTls | None = None,
        proxies: Sequence[Network] = (),
        owned: bool = True,
    ) -> None:
        _tune(listener, state.limits)
        self._proxies = proxies
        self._owned = owned
        self._listener = listener
        self.state = state
        state.tls = tls
        self._server: asyncio.Server | None = None
        self._handshakes: Handshakes | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._winding_down = False
        self._stopped = False

    @property
    def port(self) -> int:
        """Return its TCP port."""
        return int(self._listener.getsockname()[1])

    @property
    def is_listening(self) -> bool:
        """Return whether it accepts connections, or will after `start`."""
        return self._listener.fileno() != -1

    @property
    def address(self) -> str:
        """Return `host:port`, as a URL has it; the socket must be open."""
        return address_of(self._listener)

    async def start(self, background: Background, name: str) -> None:
        """Accept connections from now on."""
        connection = partial(ClientConnection, self.state)
        if self.state.tls is None and not self._proxies:
            loop = asyncio.get_running_loop()
            if self._listener.family == socket.AF_UNIX:
                self._server = await loop.create_unix_server(connection, sock=self._listener, backlog=_BACKLOG)
            else:
                self._server = await loop.create_server(connection, sock=self._listener, backlog=_BACKLOG)
        else:
            self._handshakes = Handshakes(self._listener, self.state, connection, self._proxies)
            self._tasks.append(background.start(f"{name} handshakes", self._handshakes.run))
        self._tasks.append(background.start(f"{name} clock", self._update_date))

    async def _update_date(self) -> None:
        while True:
            self.state.set_date(formatdate(usegmt=True))
            await asyncio.sleep(1)

    def renew(self, tls: ServerTls) -> None:
        """Use another certificate and other authorities in new handshakes.

        Open connections stay, except those of clients that were verified by a removed authority, or that have no
        certificate and now need one. Such a connection closes after its current request.
        """
        if self._handshakes is not None:
            self.state.tls = tls
            for connection in list(self.state.connections):
                if not connection.tls_session.outlives(tls):
                    connection.shutdown()

    def close_after_answers(self) -> None:
        """Accept connections, but close them after their next answer, so that clients move to other instances."""
        self._winding_down = True
        self.state.closing = True

    def set_overloaded(self, short: bool) -> None:  # noqa: FBT001 - a callback with one argument
        """Close connections after their next answer while open files are short."""
        self.state.closing = short or self._winding_down

    def stop_accepting(self) -> None:
        """Close the socket and idle connections; the others close after their answer."""
        self._winding_down = self.state.closing = True
        if self._stopped:
            return
        self._stopped = True
        if self._owned:
            remove(self._listener)
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._handshakes is None:
            self._listener.close()
        else:
            # The loop must stop polling it first.
            self._tasks[0].add_done_callback(lambda _: self._listener.close())
        for connection in list(self.state.connections):
            connection.shutdown()

    async def aclose(self, timeout: float = 1.0) -> None:  # noqa: ASYNC109 - the last step before the process ends
        """Close all connections, those in use after `timeout` seconds."""
        self.stop_accepting()
        state = self.state
        async with _at_most(timeout):
            while state.tasks:
                await asyncio.wait(list(state.tasks))
        for task in list(state.tasks):
            task.cancel()
        for connection in list(state.connections):
            connection.end()
        # Written bytes are sent first; a client that does not read would keep the connection open.
        await self._emptied(timeout)
        for connection in list(state.connections):
            connection.abort()
        await self._emptied(timeout)

    async def _emptied(self, timeout: float) -> None:  # noqa: ASYNC109 - as above
        async with _at_most(timeout):
            while self.state.tasks or self.state.connections:  # noqa: ASYNC110 - there is no event for the end of one
                await asyncio.sleep(_POLL)


@asynccontextmanager
async def _at_most(seconds: float) -> AsyncIterator[None]:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            yield
