"""Starts and stops uvicorn on a socket of ours, in a loop of ours, with no signal handling of its own."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

import uvicorn

from gateway.background import Background
from gateway.listener.protocol import ClientConnection

KEEP_ALIVE = 30
"""Seconds for which a client's connection may rest between two requests."""
_BACKLOG = 2048

logger = logging.getLogger("gateway.listener")


class ListenFailed(Exception):  # noqa: N818 - told to the operator as it is
    """The address cannot be listened on."""


def bind(address: str) -> socket.socket:
    """A listening socket at `host:port`; an IPv6 host stands in brackets, port 0 lets the system pick.

    Raises:
        ListenFailed: the address is taken, not ours, or none.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
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


class HttpServer:
    """One listening socket and the application behind it.

    Args:
        tls: Paths of the certificate chain and the private key, or None for plain http.
    """

    def __init__(self, listener: socket.socket, app: Callable[..., Any], *, tls: tuple[str, str] | None = None) -> None:
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
            ssl_certfile=None if tls is None else tls[0],
            ssl_keyfile=None if tls is None else tls[1],
        )
        config.load()
        if config.ssl is not None:
            config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
            config.ssl.set_alpn_protocols(["http/1.1"])
        self._listener = listener
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._accepting = False

    async def start(self, background: Background, name: str) -> None:
        """Accept connections from now on."""
        await self._server.startup(sockets=[self._listener])
        self._accepting = True
        # Keeps the Date header right; it returns once `should_exit` is set.
        background.start(f"{name} clock", self._server.main_loop)

    def stop_accepting(self) -> None:
        """Close the socket and every idle connection; the others close after their answer."""
        if not self._accepting:
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
        try:
            async with asyncio.timeout(timeout):
                while state.tasks:
                    await asyncio.wait(list(state.tasks))
        except TimeoutError:
            for task in list(state.tasks):
                task.cancel()
        for connection in list(state.connections):
            connection.transport.close()
