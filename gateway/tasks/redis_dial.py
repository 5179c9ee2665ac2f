"""Dials a Redis: finds its addresses, connects, verifies it, and greets it."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from functools import partial
from typing import Final

from gateway.tasks.redis_address import RedisAddress
from gateway.tasks.redis_connection import RedisConnection
from gateway.tasks.redis_greeting import Script, TurnedAway, greet
from gateway.tasks.redis_reply import Complaint

CONNECT: Final = 0.25
"""Seconds for a name, a connection and its TLS."""
PATIENCE: Final = 0.25
"""Seconds for a reply."""

_LARGEST_PORT: Final = 65535


class RedisDial:
    """Makes connections to one Redis.

    A shard of a cluster that does not have the keys says who does: that one is dialled from then on, until it cannot be
    reached. All keys have one hash tag, so it is one shard that has them.

    Args:
        patience: Seconds for a reply, where it is not `PATIENCE`.
    """

    def __init__(
        self,
        address: RedisAddress,
        scripts: Sequence[Script],
        tls: ssl.SSLContext | None,
        patience: float | None = None,
    ) -> None:
        self._address = address
        self._scripts = scripts
        self._tls = tls
        self._patience = patience
        self._moved: tuple[str, int] | None = None
        self._lookup: asyncio.Future[list[str]] | None = None

    async def dial(self) -> RedisConnection:
        """A connection that can be used.

        Raises:
            OSError: nobody is there, or not in time, or it is not who it should be.
            StoreBroken, TurnedAway, ConnectionLost: as `greet`.
        """
        try:
            return await self._dial()
        except TurnedAway as away:
            if not self.follow(away.complaint):
                raise
        except OSError:
            self._moved = None
            raise
        return await self._dial()

    def follow(self, complaint: Complaint) -> bool:
        """Whether a complaint names another server, which is dialled the next time."""
        if complaint.word != "MOVED" or self._address.path:
            return False
        # MOVED <slot> <host>:<port>; no host is the one that says so.
        host, _, port = complaint.rest.rpartition(b" ")[2].decode("ascii", "replace").rpartition(":")
        if not port.isdigit() or int(port) > _LARGEST_PORT or host == "?":
            return False
        self._moved = (host or self._address.host, int(port))
        return True

    async def _dial(self) -> RedisConnection:
        async with asyncio.timeout(CONNECT):
            connection = await self._connect()
        try:
            await greet(connection, self._address, self._scripts)
        except BaseException:
            connection.abort("TurnedAway")
            raise
        return connection

    async def _connect(self) -> RedisConnection:
        loop = asyncio.get_running_loop()
        new = partial(RedisConnection, loop, PATIENCE if self._patience is None else self._patience)
        if self._address.path:
            _, connection = await loop.create_unix_connection(new, self._address.path)
            return connection
        name, port = self._moved or (self._address.host, self._address.port)
        verified = None if self._tls is None else name
        failure: OSError | None = None
        for place in await self._places(name):
            try:
                _, connection = await loop.create_connection(new, place, port, ssl=self._tls, server_hostname=verified)
            except OSError as error:
                failure = error
            else:
                return connection
        raise failure or OSError("the name has no address")

    async def _places(self, name: str) -> list[str]:
        """Addresses of a name.

        A thread that asks for them cannot be stopped. So a question that is not answered in time goes on, and no second
        one is asked meanwhile: else all threads would be asking.
        """
        try:
            return [str(ipaddress.ip_address(name))]
        except ValueError:
            pass
        lookup = self._lookup
        if lookup is None:
            lookup = self._lookup = asyncio.get_running_loop().run_in_executor(None, _look_up, name)
            lookup.add_done_callback(self._looked_up)
        await asyncio.wait((lookup,))
        return lookup.result()

    def _looked_up(self, lookup: asyncio.Future[list[str]]) -> None:
        self._lookup = None
        if not lookup.cancelled():
            # Whoever asked may have left.
            lookup.exception()


def _look_up(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError("no name of a host") from error
    return list(dict.fromkeys(str(place[4][0]) for place in found))
