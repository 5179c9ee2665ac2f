"""Accepts connections that begin with a TLS handshake, and bounds how many there are from the first byte on.

What the event loop's own servers accept is nobody's until its handshake is done, and counts for nothing until then:
strangers who never finish theirs would use up the open files of the process.
"""

import asyncio
import logging
import secrets
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

from gateway.config.certificate import ServerTls
from gateway.listener.edge import Accepted, Edge

_PAUSE = 0.25
"""Seconds until the next try where the system has no open file left."""

logger = logging.getLogger("gateway.listener")


class Handshakes:
    """The way in to one listening socket.

    Args:
        connection: Makes the connection of the client at this address.

    Attributes:
        tls: How the next ones are made; a new certificate is another context.
    """

    def __init__(
        self, listener: socket.socket, tls: ServerTls, edge: Edge, connection: Callable[[str], Accepted]
    ) -> None:
        self._listener = listener
        self.tls = tls
        self._edge = edge
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
                self._welcome(client, str(address[0]))
        finally:
            for task in tuple(self._tasks):
                task.cancel()

    def _welcome(self, client: socket.socket, peer: str) -> None:
        edge = self._edge
        if not edge.crowd.enter(peer):
            edge.crowd.leave(peer)
            client.close()
            # There is no way to tell a client before it has shaken hands.
            edge.refused(peer, secrets.token_hex(8), 503, "there are too many connections")
            return
        task = asyncio.get_running_loop().create_task(self._shake(client, peer))
        self._tasks.add(task)
        task.add_done_callback(self._shaken)

    async def _shake(self, client: socket.socket, peer: str) -> None:
        limits = self._edge.limits
        connection = self._connection(peer)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: cast("asyncio.Protocol", connection),  # no interface can say that it is both
                client,
                ssl=self.tls,
                ssl_handshake_timeout=limits.tls_handshake,
                ssl_shutdown_timeout=limits.write_stall,
            )
            tls = self._edge.tls
            if tls is not None and connection.made and not connection.introduction.outlives(tls):
                # Others are trusted by now than were when it began.
                connection.shutdown()
        except OSError as error:
            logger.debug("no TLS with %s: %s", peer, error)
            why = _distrust(error)
            if why:
                self._edge.distrusted(peer, secrets.token_hex(8), why)
        finally:
            if not connection.made:
                self._edge.crowd.leave(peer)
                client.close()

    def _shaken(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a handshake went wrong", exc_info=error)


def _distrust(error: OSError) -> str:
    """What is wrong with a client's certificate where that has ended its handshake; empty where something else has."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    without = isinstance(error, ssl.SSLError) and error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    return "the client has shown no certificate" if without else ""
