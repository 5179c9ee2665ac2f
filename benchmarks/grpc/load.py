"""Load over gRPC, by grpc.aio in this process: calls one after the other on each of some lines, and streams.

Every channel is a connection of its own. Every answer and every event is compared with what the agent has said.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from grpc import aio  # type: ignore[import-untyped]  # it ships no types

from benchmarks.edge.load import LoadFailed
from benchmarks.grpc.contestant import Contestant
from benchmarks.grpc.workload import SEND, STREAM, call, metadata

_TIMEOUT = 10.0
_LINES = 4
"""Calls that share a channel at a time."""
_STREAMS = 100
"""Streams that share a channel."""


@asynccontextmanager
async def channels(port: int, count: int) -> AsyncIterator[list[aio.Channel]]:
    """So many connections, until the end of the block."""
    # Without a pool of its own, channels to one address share a connection.
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    opened = [aio.insecure_channel(f"127.0.0.1:{port}", options=options) for _ in range(count)]
    try:
        yield opened
    finally:
        for channel in opened:
            await channel.close()


async def once(contestant: Contestant) -> bytes:
    """One call on a connection of its own; the answer.

    Raises:
        LoadFailed: it ended with another status than OK.
    """
    async with channels(contestant.port, 1) as [channel], asyncio.timeout(_TIMEOUT):
        try:
            answer: bytes = await channel.unary_unary(SEND)(
                call(contestant.tenant), metadata=metadata(contestant.workload)
            )
        except aio.AioRpcError as failed:
            raise _failed(contestant, failed) from None
    return answer


async def calls(contestant: Contestant, expected: bytes, *, together: int, seconds: float) -> int:
    """Call for `seconds`, so many calls at a time; how many were answered.

    Raises:
        LoadFailed: an answer was not the one expected.
    """
    told, request = metadata(contestant.workload), call(contestant.tenant)
    until = time.monotonic() + seconds

    async def line(method: aio.UnaryUnaryMultiCallable) -> int:
        answered = 0
        while time.monotonic() < until:
            try:
                answer = await method(request, metadata=told)
            except aio.AioRpcError as failed:
                raise _failed(contestant, failed) from None
            if answer != expected:
                raise LoadFailed(f"{contestant.name}: answers other than the agent's")
            answered += 1
        return answered

    async with channels(contestant.port, -(-together // _LINES)) as opened, asyncio.timeout(seconds + _TIMEOUT):
        methods = [channel.unary_unary(SEND) for channel in opened]
        return sum(await asyncio.gather(*(line(methods[number % len(methods)]) for number in range(together))))


class Stream:
    """One stream that is open: its first event is here."""

    def __init__(self, contestant: Contestant, call: aio.UnaryStreamCall) -> None:
        self._contestant = contestant
        self._call = call

    @classmethod
    async def opened(cls, contestant: Contestant, channel: aio.Channel, expected: bytes) -> Self:
        """Ask for a stream, and wait for its first event.

        Raises:
            LoadFailed: that is another than expected, or there is none.
        """
        request = call(contestant.tenant)
        stream = cls(contestant, channel.unary_stream(STREAM)(request, metadata=metadata(contestant.workload)))
        await stream._see([expected])
        return stream

    @property
    def is_open(self) -> bool:
        return not self._call.done()

    async def read(self, expected: Sequence[bytes]) -> None:
        """Read to the end.

        Raises:
            LoadFailed: what came was not exactly what is expected.
        """
        await self._see([*expected, aio.EOF])

    def leave(self) -> None:
        """Break it off."""
        self._call.cancel()

    async def _see(self, expected: Sequence[object]) -> None:
        for event in expected:
            try:
                said = await self._call.read()
            except aio.AioRpcError as failed:
                raise _failed(self._contestant, failed) from None
            if said != event:
                raise LoadFailed(f"{self._contestant.name}: events other than the agent's")


class Streams:
    """Streams to one contestant, on as many connections as they need; those that are still open are broken off at last.

    Attributes:
        opened: In the order of asking.
    """

    def __init__(self, contestant: Contestant) -> None:
        self.opened: list[Stream] = []
        self._contestant = contestant
        self._channels: list[aio.Channel] = []
        self._until = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for stream in self.opened:
            stream.leave()
        await self._until.aclose()

    async def more(self, count: int, expected: bytes) -> None:
        """Open so many, whose first event is known.

        Raises:
            LoadFailed: one was not to be had.
        """
        while count:
            place = len(self._channels) * _STREAMS - len(self.opened)
            if not place:
                self._channels += await self._until.enter_async_context(channels(self._contestant.port, 1))
                continue
            asked = (Stream.opened(self._contestant, self._channels[-1], expected) for _ in range(min(place, count)))
            found = await asyncio.gather(*asked)
            self.opened += found
            count -= len(found)


def _failed(contestant: Contestant, failed: aio.AioRpcError) -> LoadFailed:
    return LoadFailed(f"{contestant.name}: {failed.code()} {failed.details()}")
