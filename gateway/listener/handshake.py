"""The start of a connection, before HTTP: the PROXY header of a load balancer, and the TLS handshake.

A PROXY header, version 2, has the address of a client whose connection a load balancer passes on. Version 1, which is
text, is refused. Specification: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.2.
"""

import asyncio
import ipaddress
import logging
import secrets
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from gateway.listener.http1 import THIS_MACHINE, ClientConnection, ListenerState
from gateway.proxy.client_address import Network, is_trusted

_PAUSE = 0.25
"""Seconds until the next accept after the process ran out of open files."""
_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED = 16
_LONGEST = 4096
"""Bytes of addresses and extensions (TLVs); the longest, the names of a client certificate, take some hundred."""
_LOCAL, _PROXY = 0x20, 0x21
_WITHOUT_ADDRESS = frozenset({0x00, 0x31})
"""UNSPEC, and streams over a Unix socket: the connection counts as one of the load balancer."""
_ADDRESSES = {0x11: (4, 12), 0x21: (16, 36)}
"""TCP over IPv4 and IPv6: bytes of an address, and of both addresses with both ports."""

logger = logging.getLogger("gateway.listener")


class Handshakes:
    """Accepts connections that begin with TLS or with a PROXY header, on one listening socket.

    Args:
        state: It has the TLS context for the next handshakes; a new certificate is another context.
        connection: Returns the connection of the client at an address.
        proxies: Networks whose connections begin with a PROXY header.
    """

    def __init__(
        self,
        listener: socket.socket,
        state: ListenerState,
        connection: Callable[[str], ClientConnection],
        proxies: Sequence[Network] = (),
    ) -> None:
        self._proxies = proxies
        self._listener = listener
        self._state = state
        self._connection = connection
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Accept connections until cancelled; then drop those whose handshake is not complete."""
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
                self._accept(client, str(address[0]) if isinstance(address, tuple) else THIS_MACHINE)
        finally:
            for task in tuple(self._tasks):
                task.cancel()

    def _accept(self, client: socket.socket, peer: str) -> None:
        state = self._state
        if not state.connection_limit.enter(peer):
            state.connection_limit.leave(peer)
            client.close()
            # Before its handshake, a client cannot be sent an answer.
            state.refused(peer, secrets.token_hex(8), 503, "there are too many connections")
            return
        task = asyncio.get_running_loop().create_task(self._complete(client, peer))
        self._tasks.add(task)
        task.add_done_callback(self._completed)

    async def _complete(self, client: socket.socket, peer: str) -> None:
        state, limits, counted = self._state, self._state.limits, peer
        connection: ClientConnection | None = None
        over_tls = {"ssl_handshake_timeout": limits.tls_handshake, "ssl_shutdown_timeout": limits.write_stall}
        try:
            if self._proxies and is_trusted(peer, self._proxies):
                peer = await read_client(client, limits.header_timeout) or peer
                state.connection_limit.leave(counted)
                counted, fits = peer, state.connection_limit.enter(peer)
                if not fits:
                    state.refused(peer, secrets.token_hex(8), 503, "there are too many connections")
                    return
            connection = made = self._connection(peer)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: made, client, ssl=state.tls, **({} if state.tls is None else over_tls)
            )
            if made.made and state.tls is not None and not made.tls_session.outlives(state.tls):
                # The trusted authorities have changed during the handshake.
                made.shutdown()
        except HeaderRefused as refused:
            state.refused(peer, secrets.token_hex(8), 400, str(refused))
        except OSError as error:
            logger.debug("no TLS with %s: %s", peer, error)
            if fact := _certificate_error(error):
                state.distrusted(peer, secrets.token_hex(8), fact)
        finally:
            if connection is None or not connection.made:
                state.connection_limit.leave(counted)
                client.close()

    def _completed(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a TLS handshake failed unexpectedly", exc_info=error)


def _certificate_error(error: OSError) -> str:
    """Return why the client's certificate failed the handshake; empty if the handshake failed for another reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    without = isinstance(error, ssl.SSLError) and error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    return "the client has shown no certificate" if without else ""


# ---- The PROXY header ----------------------------------------------------------------------------------------------


class HeaderRefused(Exception):  # noqa: N818 - the text is logged
    """The connection does not begin with a header of version 2."""


def rest_of(fixed: bytes) -> int:
    """Return the number of bytes that follow the first 16 of a header.

    Raises:
        HeaderRefused: There is no such header.
    """
    if fixed[:12] != _SIGNATURE or fixed[12] not in (_LOCAL, _PROXY):
        raise HeaderRefused("the connection does not begin with a PROXY header of version 2")
    length = int.from_bytes(fixed[14:])
    if length > _LONGEST:
        raise HeaderRefused(f"the PROXY header is longer than {_LONGEST} bytes")
    return length


def client_of(fixed: bytes, rest: bytes) -> str | None:
    """Return the client's address; None if the header has none, as in a health check.

    Args:
        fixed: The first 16 bytes, which `rest_of` has accepted.
        rest: Addresses and extensions; the extensions are not read.

    Raises:
        HeaderRefused: The header has no TCP address, or less of it than its length.
    """
    if fixed[12] == _LOCAL or fixed[13] in _WITHOUT_ADDRESS:
        return None
    size, both = _ADDRESSES.get(fixed[13], (0, 0))
    if not size or len(rest) < both:
        raise HeaderRefused("the PROXY header has no TCP address")
    address = ipaddress.ip_address(rest[:size])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


async def read_client(connection: socket.socket, seconds: float) -> str | None:
    """Read the header of a new connection and not one byte more; return as `client_of`.

    Args:
        seconds: Until the header is whole.

    Raises:
        HeaderRefused: There is none, in time.
        OSError: The connection is lost.
    """
    try:
        async with asyncio.timeout(seconds):
            fixed = await _exactly(connection, _FIXED)
            return client_of(fixed, await _exactly(connection, rest_of(fixed)))
    except TimeoutError as error:
        raise HeaderRefused("the PROXY header took too long") from error


async def _exactly(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        data = await asyncio.get_running_loop().sock_recv(connection, length - len(found))
        if not data:
            raise HeaderRefused("the connection ended within the PROXY header")
        found += data
    return found
