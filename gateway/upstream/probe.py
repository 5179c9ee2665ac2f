"""Active health: every replica of a backend is asked from time to time whether it is well."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gateway.a2a.fault import Draining, Fault, Overloaded
from gateway.upstream.connections import ConnectionPool
from gateway.upstream.replica import Station
from gateway.upstream.request import request_head
from gateway.upstream.response import late

if TYPE_CHECKING:
    # Who has no such agent does not pay for gRPC.
    from gateway.upstream.grpc_channel import GrpcChannel

_LONGEST = 256 * 1024
"""Bytes of an answer that are read; a connection whose answer is longer is not used again."""
_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"
_UNIMPLEMENTED = 12

logger = logging.getLogger("gateway.upstream.probe")


@dataclass(frozen=True, slots=True)
class Probing:
    """How replicas are asked.

    Attributes:
        path: Below the backend's URL.
        every: Seconds between two requests to one replica.
        timeout: Seconds for one of them.
    """

    path: str
    every: float = 10.0
    timeout: float = 3.0
    fail_after: int = 3
    pass_after: int = 1


class Probe:
    """Asks the replicas that are at one URL: several where each address of its name is one.

    Args:
        key: What the log calls them.
        stations: Gives those that there are.
        credentials: Headers by which the gateway shows itself.
    """

    def __init__(
        self,
        key: str,
        url: str,
        stations: Callable[[], Iterable[Station]],
        probing: Probing,
        *,
        credentials: Sequence[tuple[bytes, bytes]] = (),
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._key = key
        self._url = url
        self._stations = stations
        self._credentials = tuple(credentials)
        self._probing = probing
        self._clock = clock
        self._chance = chance

    async def run(self) -> None:
        """Ask all of them, again and again; pauses are up to a tenth shorter, so that not all are asked at once."""
        while True:
            await self.ask_all()
            await asyncio.sleep(self._probing.every * (1 - self._chance() / 10))

    async def ask_all(self) -> None:
        """Ask each once."""
        await asyncio.gather(*(self._ask(station) for station in list(self._stations())))

    async def _ask(self, station: Station) -> None:
        probing = self._probing
        try:
            why = await self.answer(station.connections)
        except (Overloaded, Draining):
            # It has so much to do that nobody can ask: which is no sign of death.
            return
        except Fault as fault:
            why = f"{fault.message} ({fault.detail})" if fault.detail else fault.message
        condition = station.condition
        changed = condition.probed(self._clock(), why, fail_after=probing.fail_after, pass_after=probing.pass_after)
        if changed:
            logger.warning("%s is %s", f"{self._key} at {station.at(self._url)}", f"down: {why}" if why else "up again")

    async def answer(self, connections: "ConnectionPool | GrpcChannel") -> str:
        """What is wrong with a replica; empty for nothing.

        Raises:
            Fault: there is no answer.
        """
        probing = self._probing
        if not isinstance(connections, ConnectionPool):
            return await self._over_grpc(connections)
        parts = urlsplit(self._url)
        head = request_head(
            b"GET",
            (parts.path.rstrip("/") + probing.path).encode("ascii"),
            parts.netloc.encode("ascii"),
            [(b"accept", b"*/*"), (b"user-agent", b"a2a-gateway"), *self._credentials],
            None,
        )
        response = await connections.request(
            head, b"", connect=probing.timeout, first_byte=probing.timeout, repeatable=True
        )
        try:
            status, left = response.status, _LONGEST
            async with asyncio.timeout(probing.timeout):
                # The rest of a long card tells nothing more; and the time is that of the whole, not of silence.
                while left > 0 and (piece := await response.chunk(2 * probing.timeout)):
                    left -= len(piece)
        except TimeoutError as error:
            raise late() from error
        finally:
            response.close()
        return "" if 200 <= status < 400 else f"{probing.path} answers {status}"

    async def _over_grpc(self, channel: "GrpcChannel") -> str:
        metadata = tuple((name.decode(), value.decode("latin-1")) for name, value in self._credentials)
        answer = await channel.unary(_CHECK, b"", metadata, timeout=self._probing.timeout)
        if answer.status is None:
            return "" if answer.whole() == _SERVING else "grpc.health.v1 says that it is not serving"
        # Whoever has no such service has answered all the same.
        return (
            "" if answer.status.code == _UNIMPLEMENTED else f"grpc.health.v1 answers with status {answer.status.code}"
        )
