"""Replicas that one name of DNS has: each of its addresses is one, also those that it gets and loses.

The name is looked up every five seconds; a look-up that fails changes nothing. An address that is gone gets no call any
more, those that it has go on, and its connections are closed behind the last of them.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.group import Group
from gateway.upstream.replica import Replica

EVERY = 5.0
"""Seconds between two look-ups; safety R10 asks for 30 at most."""
PATIENCE = 10.0
"""Seconds that one may take."""
MOST = 256
"""Addresses of one name that become replicas; more are told, and left out."""

if TYPE_CHECKING:
    from gateway.backing import Backing

Resolve = Callable[[str, int], Awaitable[list[str]]]

logger = logging.getLogger("gateway.headless")


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, each once.

    Raises:
        OSError: it has none, or nobody answers.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in found))


class Headless:
    """The replicas of one name.

    Args:
        like: A backing of the group, whose name is looked up.
        make: The replica at an address, by the time that it came, or None for the first ones.
        resolve: Looks up a host.

    Attributes:
        error: Why the last look-up failed, for operators; empty where it did not.
    """

    def __init__(
        self,
        group: Group,
        like: "Backing",
        make: Callable[[str, float | None], Replica],
        resolve: Resolve = resolve,
    ) -> None:
        self._group = group
        self._like = like
        self._make = make
        self._resolve = resolve
        self._known: dict[str, str] = {}
        self._leaving: list[Replica] = []
        self._looked = False
        self.error = ""
        parts = urlsplit(like.url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme in ("https", "grpcs") else 80)

    async def run(self) -> None:
        """Keep the group as the name is, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Look the name up once."""
        try:
            async with asyncio.timeout(PATIENCE):
                found = await self._resolve(self._host, self._port)
        # A timeout is an OSError.
        except (OSError, UnicodeError) as error:
            if not self.error:
                logger.warning("the addresses of %s cannot be looked up: %s", self._host, error)
            self.error = f"{self._host} cannot be looked up: {error}"
            self._group.trouble[self._host] = self.error
        else:
            self.error = ""
            self._group.trouble.pop(self._host, None)
            if len(found) > MOST:
                logger.warning("%s has %d addresses; the first %d are used", self._host, len(found), MOST)
            self._take(found[:MOST])
        self._group.settled.set()
        await self._let_go()

    def _take(self, found: list[str]) -> None:
        group = self._group
        since = group.clock() if self._looked else None
        self._looked = True
        for address in found:
            if address not in self._known:
                replica = self._make(address, since)
                self._known[address] = replica.name
                group.add(self._like, replica)
        for address in [each for each in self._known if each not in found]:
            self._leaving.append(group.remove(self._known.pop(address)))

    async def _let_go(self) -> None:
        for replica in [each for each in self._leaving if not each.active]:
            self._leaving.remove(replica)
            await replica.upstream.aclose()

    async def aclose(self) -> None:
        """Close what is still leaving."""
        leaving, self._leaving = self._leaving, []
        for replica in leaving:
            await replica.upstream.aclose()
