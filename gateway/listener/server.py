"""Starts and stops uvicorn on a socket of ours, in a loop of ours, with no signal handling of its own."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from gateway.background import Background
from gateway.listener.protocol import ClientConnection

KEEP_ALIVE = 30
"""Seconds for which a client's connection may rest between two requests."""
_BACKLOG = 2048
_LARGEST_PORT = 65535
_GLANCE = 0.01

logger = logging.getLogger("gateway.listener")


class ListenFailed(Exception):  # noqa: N818 - told to the operator as it is
    """The address cannot be listened on, or not with this certificate."""


def bind(address: str) -> socket.socket:
    """A listening socket at `host:port`; an IPv6 host stands in brackets, port 0 lets the system pick.

    Raises:
        ListenFailed: the address is taken, not ours, or none.
    """
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
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and host:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ListenFailed(f"cannot listen on {address}: {error.strerror}") from error
    return listener


def address_of(listener: socket.socket) -> str:
    """`host:port` of a listening socket, as a URL writes it."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def server_tls(chain: Path, key: Path) -> ssl.SSLContext:
    """How clients are served over TLS: 1.2 or later, HTTP/1.1.

    Args:
        chain: PEM file of the certificate and those that sign it.
        key: PEM file of its private key, without a passphrase.

    Raises:
        ListenFailed: the two cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # Without a callback OpenSSL would ask for a passphrase at the terminal, and wait for it.
        context.load_cert_chain(chain, key, _no_passphrase)
    except (OSError, ValueError) as error:
        raise ListenFailed(f"cannot serve TLS with {chain} and {key}: {_why(error)}") from error
    return context


def _no_passphrase() -> str:
    raise ValueError("the private key is under a passphrase; store it without one, readable by the gateway alone")


def _why(error: OSError | ValueError) -> str:
    if not isinstance(error, ssl.SSLError):
        return getattr(error, "strerror", None) or str(error)
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key is not that of the certificate"
    return "the first must be a certificate chain and the second its private key, both PEM"


class HttpServer:
    """One listening socket and the application behind it.

    Args:
        tls: From `server_tls`, or None for plain http.
    """

    def __init__(self, listener: socket.socket, app: Callable[..., Any], *, tls: ssl.SSLContext | None = None) -> None:
        config = uvicorn.Config(
            app,
            http=ClientConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        config.load()
        self._listener = listener
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._accepting = False

    @property
    def address(self) -> str:
        """`host:port`, as a URL writes it; not once it is closed."""
        return address_of(self._listener)

    async def start(self, background: Background, name: str) -> None:
        """Accept connections from now on."""
        await self._server.startup(sockets=[self._listener])
        self._accepting = True
        # Keeps the Date header right; it returns once `should_exit` is set.
        background.start(f"{name} clock", self._server.main_loop)

    def stop_accepting(self) -> None:
        """Close the socket and every idle connection; the others close after their answer."""
        if not self._accepting:
            self._listener.close()
            return
        self._accepting = False
        self._server.should_exit = True
        for server in self._server.servers:
            server.close()
        self._listener.close()
        for connection in list(self._server.server_state.connections):
            connection.shutdown()

    async def aclose(self, timeout: float = 1.0) -> None:  # noqa: ASYNC109 - the last step before the process ends
        """Close what is left, after `timeout` seconds also what is still in use."""
        self.stop_accepting()
        state = self._server.server_state
        async with _at_most(timeout):
            while state.tasks:
                await asyncio.wait(list(state.tasks))
        for task in list(state.tasks):
            task.cancel()
        for connection in list(state.connections):
            connection.transport.close()
        # What was written goes out first; a client that does not read would keep it for ever.
        await self._emptied(timeout)
        for connection in list(state.connections):
            # CPython 3.11.2 cannot abort a TLS transport that is gone.
            with suppress(AttributeError):
                connection.transport.abort()
        await self._emptied(timeout)

    async def _emptied(self, timeout: float) -> None:  # noqa: ASYNC109 - as above
        state = self._server.server_state
        async with _at_most(timeout):
            while state.tasks or state.connections:  # noqa: ASYNC110 - uvicorn tells nobody when one is gone
                await asyncio.sleep(_GLANCE)


@asynccontextmanager
async def _at_most(seconds: float) -> AsyncIterator[None]:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            yield
