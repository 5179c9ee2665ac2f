"""Replicas that one name of DNS has: each of its addresses is one, also those that it gets and loses.

The name is looked up every five seconds; a look-up that fails changes nothing. An address that is gone gets no call any
more, those that it has go on, and its connections are closed behind the last of them.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from gateway.upstream.replica import Station

EVERY = 5.0
"""Seconds between two look-ups; safety R10 asks for 30 at most."""
PATIENCE = 10.0
"""Seconds that one may take."""
MOST = 256
"""Addresses of one name that become replicas; more are told, and left out."""

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
    """The replicas of one name; they outlive configurations, for no group is told of them: groups ask.

    Args:
        url: That of the backend.
        make: What there is of a replica at an address, by the time that it came, or None for the first ones.
        resolve: Looks up a host.

    Attributes:
        stations: Those that there are, by address.
        version: Grows with every change of them.
        settled: Set once the name was looked up, or could not be.
        error: Why the last look-up failed, for operators; empty where it did not.
        port: That of all of them.
    """

    def __init__(
        self,
        url: str,
        make: Callable[[str, float | None], Station],
        resolve: Resolve = resolve,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stations: dict[str, Station] = {}
        self.version = 0
        self.settled = asyncio.Event()
        self.error = ""
        self._make = make
        self._resolve = resolve
        self._clock = clock
        self._leaving: list[Station] = []
        self._looked = False
        self._host = urlsplit(url).hostname or ""
        self.port = port_of(url)

    async def run(self) -> None:
        """Keep them as the name is, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Look the name up once."""
        try:
            async with asyncio.timeout(PATIENCE):
                found = await self._resolve(self._host, self.port)
        # A timeout is an OSError.
        except (OSError, UnicodeError) as error:
            if not self.error:
                logger.warning("the addresses of %s cannot be looked up: %s", self._host, error)
            self.error = f"{self._host} cannot be looked up: {error}"
        else:
            self.error = ""
            if len(found) > MOST:
                logger.warning("%s has %d addresses; the first %d are used", self._host, len(found), MOST)
            # Those that are known first: who answers may name them in another order each time.
            self._take(sorted(found, key=lambda each: each not in self.stations)[:MOST])
        self.settled.set()
        await self._let_go()

    def _take(self, found: list[str]) -> None:
        since = self._clock() if self._looked else None
        self._looked = True
        stations = self.stations
        new = [each for each in found if each not in stations]
        lost = [each for each in stations if each not in found]
        for address in new:
            stations[address] = self._make(address, since)
        for address in lost:
            station = stations.pop(address)
            station.condition.gone = True
            self._leaving.append(station)
        self.version += bool(new or lost)

    async def _let_go(self) -> None:
        for station in [each for each in self._leaving if not each.condition.active]:
            self._leaving.remove(station)
            await station.connections.aclose()

    async def aclose(self) -> None:
        """Close the connections to all of them, cutting what is on its way."""
        stations = [*self._leaving, *self.stations.values()]
        self._leaving = []
        for station in stations:
            await station.connections.aclose()


def port_of(url: str) -> int:
    """The port of a backend's URL, or that of its scheme."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme in ("https", "grpcs") else 80)
