"""Active health: every replica of a backend is asked from time to time whether it is well."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.a2a.fault import Draining, Fault, Overloaded
from gateway.upstream.http import HttpUpstream
from gateway.upstream.replica import Replica
from gateway.upstream.request import request_head

_LONGEST = 256 * 1024
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
    """Asks the replicas of one backend.

    Args:
        replicas: Gives those that there are.
    """

    def __init__(
        self,
        key: str,
        replicas: Callable[[], Iterable[Replica]],
        probing: Probing,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._key = key
        self._replicas = replicas
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
        await asyncio.gather(*(self._ask(replica) for replica in list(self._replicas())))

    async def _ask(self, replica: Replica) -> None:
        probing = self._probing
        try:
            why = await self.answer(replica)
        except (Overloaded, Draining):
            # It has so much to do that nobody can ask: which is no sign of death.
            return
        except Fault as fault:
            why = f"{fault.message} ({fault.detail})" if fault.detail else fault.message
        changed = replica.probed(self._clock(), why, fail_after=probing.fail_after, pass_after=probing.pass_after)
        if changed:
            logger.warning("%s is %s", f"{self._key} at {replica.url}", f"down: {why}" if why else "up again")

    async def answer(self, replica: Replica) -> str:
        """What is wrong with the replica; empty for nothing.

        Raises:
            Fault: there is no answer.
        """
        upstream, probing = replica.upstream, self._probing
        if not isinstance(upstream, HttpUpstream):
            return await self._over_grpc(replica)
        parts = urlsplit(upstream.url)
        head = request_head(
            b"GET",
            (parts.path.rstrip("/") + probing.path).encode("ascii"),
            parts.netloc.encode("ascii"),
            [(b"accept", b"*/*"), (b"user-agent", b"a2a-gateway"), *upstream.treatment.credentials],
            None,
        )
        response = await upstream.pool.request(
            head, b"", connect=probing.timeout, first_byte=probing.timeout, repeatable=True
        )
        try:
            status = response.status
            await response.read(_LONGEST, probing.timeout)
        finally:
            response.close()
        return "" if 200 <= status < 400 else f"{probing.path} answers {status}"

    async def _over_grpc(self, replica: Replica) -> str:
        from gateway.upstream.grpc import GrpcUpstream  # noqa: PLC0415 - who has no such agent does not pay for gRPC

        upstream = replica.upstream
        if not isinstance(upstream, GrpcUpstream):
            raise TypeError("nothing that can be asked")
        metadata = tuple((name.decode(), value.decode("latin-1")) for name, value in upstream.treatment.credentials)
        answer = await upstream.channel.unary(_CHECK, b"", metadata, timeout=self._probing.timeout)
        if answer.status is None:
            return "" if answer.whole() == _SERVING else "grpc.health.v1 says that it is not serving"
        # Whoever has no such service has answered all the same.
        return (
            "" if answer.status.code == _UNIMPLEMENTED else f"grpc.health.v1 answers with status {answer.status.code}"
        )
