"""Listening sockets, and the servers that accept HTTP/1.1 connections on them."""

import asyncio
import errno
import logging
import os
import resource
import secrets
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any

from gateway.background import Background
from gateway.config.address import UNIX
from gateway.config.certificate import CertificateUnusable, ServerTls, server_context
from gateway.config.limit import Http
from gateway.listener.http1 import THIS_MACHINE, ClientConnection, ListenerState, ServerState
from gateway.listener.proxy_protocol import HeaderRefused, read_client
from gateway.proxy.client_address import Network, is_trusted

_BACKLOG = 2048
_LARGEST_PORT = 65535
_GLANCE = 0.01
_MOST_FILES = 1_048_576
# A call needs a connection to its agent beside that of its client, and the process some files of its own.
_FILES_FOR_CLIENTS = 0.9

logger = logging.getLogger("gateway.listener")


class ListenFailed(Exception):  # noqa: N818 - told to the operator as it is
    """The address cannot be listened on, or not with this certificate."""


def bind(address: str, mode: int = 0o660) -> socket.socket:
    """Return a listening socket at `host:port`, an IPv6 host in brackets, port 0 picked by the system; or `unix:PATH`.

    Args:
        mode: Permissions of a Unix socket.

    Raises:
        ListenFailed: the address is taken, not ours, or none.
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
    """Remove the socket of a program that is gone.

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
    """Remove the file of a listening Unix socket, so that a client finds none rather than one that nobody answers."""
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


def client_limits(written: Http, beside: int = 0) -> Http:
    """The bounds that a configuration writes; fewer connections where the system grants fewer open files.

    Args:
        beside: The connections that another listener for clients may have. With too few files for both, this one gets
            the rest, and at least half of them: filling one shuts no client out of the other.
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


class HttpServer:
    """One listening socket and what answers behind it.

    Args:
        listener_state: State that its connections share.
        tls: From `server_tls`, or None for plain http.
        proxies: Networks whose connections begin with a PROXY header.
        owned: Whether this process removes the file of a Unix socket.

    Attributes:
        state: The connections and tasks of uvicorn.
    """

    def __init__(
        self,
        listener: socket.socket,
        listener_state: ListenerState,
        *,
        tls: ServerTls | None = None,
        proxies: Sequence[Network] = (),
        owned: bool = True,
    ) -> None:
        _tune(listener, listener_state.limits)
        self._proxies = proxies
        self._owned = owned
        self._listener = listener
        self.listener_state = listener_state
        listener_state.tls = self._tls = tls
        self.state = ServerState()
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
        """Return whether it accepts connections, or will."""
        return self._listener.fileno() != -1

    @property
    def address(self) -> str:
        """`host:port`, as a URL writes it; not once it is closed."""
        return address_of(self._listener)

    async def start(self, background: Background, name: str) -> None:
        """Accept connections from now on."""
        connection = partial(ClientConnection, self.listener_state, server_state=self.state)
        if self._tls is None and not self._proxies:
            loop = asyncio.get_running_loop()
            if self._listener.family == socket.AF_UNIX:
                self._server = await loop.create_unix_server(connection, sock=self._listener, backlog=_BACKLOG)
            else:
                self._server = await loop.create_server(connection, sock=self._listener, backlog=_BACKLOG)
        else:
            self._handshakes = Handshakes(
                self._listener, self._tls, self.listener_state, lambda peer: connection(peer=peer), self._proxies
            )
            self._tasks.append(background.start(f"{name} handshakes", self._handshakes.run))
        self._tasks.append(background.start(f"{name} clock", self._tell_time))

    async def _tell_time(self) -> None:
        while True:
            self.state.default_headers = [(b"date", formatdate(usegmt=True).encode("ascii"))]
            await asyncio.sleep(1)

    def renew(self, tls: ServerTls) -> None:
        """Show another certificate from now on, and verify clients' by other authorities, in new handshakes.

        Those that were made stand, but where a client was verified by an authority that is no longer there, or showed
        nothing and now has to: it may end what it has begun.
        """
        if self._handshakes is not None:
            self.listener_state.tls = self._tls = self._handshakes.tls = tls
            for connection in list(self.state.connections):
                if not connection.tls_session.outlives(tls):
                    connection.shutdown()

    def close_after_answers(self) -> None:
        """Go on accepting, but let connections end with their next answer: clients go elsewhere of their own accord."""
        self._winding_down = True
        self.listener_state.closing = True

    def set_overloaded(self, short: bool) -> None:  # noqa: FBT001 - of which there is one
        """Have connections end with their next answer while open files are short."""
        self.listener_state.closing = short or self._winding_down

    def stop_accepting(self) -> None:
        """Close the socket and every idle connection; the others close after their answer."""
        self._winding_down = self.listener_state.closing = True
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
            # The loop has to let go of it first.
            self._tasks[0].add_done_callback(lambda _: self._listener.close())
        for connection in list(self.state.connections):
            connection.shutdown()

    async def aclose(self, timeout: float = 1.0) -> None:  # noqa: ASYNC109 - the last step before the process ends
        """Close what is left, after `timeout` seconds also what is still in use."""
        self.stop_accepting()
        state = self.state
        async with _at_most(timeout):
            while state.tasks:
                await asyncio.wait(list(state.tasks))
        for task in list(state.tasks):
            task.cancel()
        for connection in list(state.connections):
            connection.end()
        # Written bytes go out first; a client that does not read would keep it open for ever.
        await self._emptied(timeout)
        for connection in list(state.connections):
            connection.abort()
        await self._emptied(timeout)

    async def _emptied(self, timeout: float) -> None:  # noqa: ASYNC109 - as above
        async with _at_most(timeout):
            while self.state.tasks or self.state.connections:  # noqa: ASYNC110 - there is no event when one is gone
                await asyncio.sleep(_GLANCE)


@asynccontextmanager
async def _at_most(seconds: float) -> AsyncIterator[None]:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            yield


_PAUSE = 0.25
"""Seconds until the next try where the system has no open file left."""

logger = logging.getLogger("gateway.listener")


class Handshakes:
    """The way in to one listening socket, for connections that begin with TLS or with a PROXY header.

    Args:
        connection: Makes the connection of the client at this address.
        proxies: Networks whose connections begin with a PROXY header.

    Attributes:
        tls: The TLS context for the next ones, None for plain http; a new certificate is another context.
    """

    def __init__(
        self,
        listener: socket.socket,
        tls: ServerTls | None,
        listener_state: ListenerState,
        connection: Callable[[str], ClientConnection],
        proxies: Sequence[Network] = (),
    ) -> None:
        self._proxies = proxies
        self._listener = listener
        self.tls = tls
        self.listener_state = listener_state
        self._connection = connection
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Accept connections until cancelled; then those that have not shaken hands are dropped."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    client, address = await loop.sock_accept(self._listener)
                except ConnectionError:
                    continue
                except OSError as error:
                    logger.warning("no connection can be accepted: %s", error.strerror)
                    await asyncio.sleep(_PAUSE)
                    continue
                self._welcome(client, str(address[0]) if isinstance(address, tuple) else THIS_MACHINE)
        finally:
            for task in tuple(self._tasks):
                task.cancel()

    def _welcome(self, client: socket.socket, peer: str) -> None:
        listener_state = self.listener_state
        if not listener_state.connection_limit.enter(peer):
            listener_state.connection_limit.leave(peer)
            client.close()
            # There is no way to tell a client before it has shaken hands.
            listener_state.refused(peer, secrets.token_hex(8), 503, "there are too many connections")
            return
        task = asyncio.get_running_loop().create_task(self._shake(client, peer))
        self._tasks.add(task)
        task.add_done_callback(self._shaken)

    async def _shake(self, client: socket.socket, peer: str) -> None:
        limits, counted = self.listener_state.limits, peer
        connection: ClientConnection | None = None
        over_tls = {"ssl_handshake_timeout": limits.tls_handshake, "ssl_shutdown_timeout": limits.write_stall}
        try:
            if self._proxies and is_trusted(peer, self._proxies):
                peer = await read_client(client, limits.header_timeout) or peer
                self.listener_state.connection_limit.leave(counted)
                counted, fits = peer, self.listener_state.connection_limit.enter(peer)
                if not fits:
                    self.listener_state.refused(peer, secrets.token_hex(8), 503, "there are too many connections")
                    return
            connection = made = self._connection(peer)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: made, client, ssl=self.tls, **({} if self.tls is None else over_tls)
            )
            if made.made and self.tls is not None and not made.tls_session.outlives(self.tls):
                # Others are trusted by now than were when it began.
                made.shutdown()
        except HeaderRefused as refused:
            self.listener_state.refused(peer, secrets.token_hex(8), 400, str(refused))
        except OSError as error:
            logger.debug("no TLS with %s: %s", peer, error)
            why = _distrust(error)
            if why:
                self.listener_state.distrusted(peer, secrets.token_hex(8), why)
        finally:
            if connection is None or not connection.made:
                self.listener_state.connection_limit.leave(counted)
                client.close()

    def _shaken(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a TLS handshake failed unexpectedly", exc_info=error)


def _distrust(error: OSError) -> str:
    """Return why the client's certificate failed the handshake; empty if the handshake failed for another reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    without = isinstance(error, ssl.SSLError) and error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    return "the client has shown no certificate" if without else ""
