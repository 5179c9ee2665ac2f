"""DNS discovery: each address of one name is a replica.

The name is looked up every five seconds. A failed look-up changes nothing. A replica whose address is gone gets no new
calls; its open calls continue, and its connections are closed after the last of them.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from gateway.upstream.replica import Target

EVERY = 5.0
"""Seconds between look-ups; safety R10 asks for 30 at most."""
_TIMEOUT = 10.0
MOST = 256
"""Addresses of one name that become replicas; the log tells if there are more."""

Resolve = Callable[[str, int], Awaitable[list[str]]]

logger = logging.getLogger("gateway.dns")


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, each once.

    Raises:
        OSError: it has none, or DNS does not answer.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in found))


class Discovery:
    """The addresses of one name. It outlives configurations; balancers compare its `version`.

    Args:
        url: The URL of the backend.
        make: Makes the target at an address that appeared at a time; the time is None for the first addresses.

    Attributes:
        targets: The current targets, by address.
        version: Grows with every change.
        settled: Set after the first look-up, successful or not.
        error: Why the last look-up failed, for operators; empty after a success.
        port: The port of all of them.
        resolve: Looks the name up.
    """

    def __init__(
        self,
        url: str,
        make: Callable[[str, float | None], Target],
        resolve: Resolve = resolve,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.targets: dict[str, Target] = {}
        self.version = 0
        self.settled = asyncio.Event()
        self.error = ""
        self.port = port_of(url)
        self._host = urlsplit(url).hostname or ""
        self._make = make
        self.resolve = resolve
        self._clock = clock
        self._leaving: list[Target] = []

    async def run(self) -> None:
        """Look the name up periodically, until cancelled."""
        while True:
            await self.look_up()
            await asyncio.sleep(EVERY)

    async def look_up(self) -> None:
        """Look the name up once."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                found = await self.resolve(self._host, self.port)
        # A timeout is an OSError; a host that IDNA cannot encode is a UnicodeError.
        except (OSError, UnicodeError) as error:
            if not self.error:
                logger.warning("the addresses of %s cannot be looked up: %s", self._host, error)
            self.error = f"{self._host} cannot be looked up: {error}"
        else:
            self.error = ""
            if len(found) > MOST:
                logger.warning("%s has %d addresses; the first %d are used", self._host, len(found), MOST)
            # Known addresses first: DNS may return them in another order each time.
            self._replace(sorted(found, key=lambda each: each not in self.targets)[:MOST])
        self.settled.set()
        for target in [each for each in self._leaving if not each.condition.active]:
            self._leaving.remove(target)
            await target.connections.aclose()

    def _replace(self, found: list[str]) -> None:
        since = self._clock() if self.version else None
        new = [each for each in found if each not in self.targets]
        lost = [each for each in self.targets if each not in found]
        for address in new:
            self.targets[address] = self._make(address, since)
        for address in lost:
            target = self.targets.pop(address)
            target.condition.gone = True
            self._leaving.append(target)
        self.version += bool(new or lost)

    async def aclose(self) -> None:
        """Close the connections to all of them at once."""
        for target in (*self._leaving, *self.targets.values()):
            await target.connections.aclose()
        self._leaving = []


def port_of(url: str) -> int:
    """Return the port of a backend's URL, or the default one of its scheme."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme in ("https", "grpcs") else 80)
