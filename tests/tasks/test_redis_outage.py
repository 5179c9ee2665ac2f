"""A real Redis that is killed, frozen, full or only a replica: calls that need it are refused, and soon served.

Run with `-s` to see the figures.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.redis import RedisStore
from gateway.tasks.store import Note, RecordedOwners
from tests.support.redis_peer import be_patient
from tests.support.redis_server import RedisServer, needs_redis, redis_server
from tests.tasks.asking import ACME, sighting

pytestmark = [pytest.mark.anyio, needs_redis]

# The aim is half a second for a call, and one second to be back; a machine that is busy may take longer.
LONGEST_CALL = 5.0
LONGEST_ABSENCE = 10.0


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@asynccontextmanager
async def opened(server: RedisServer) -> AsyncIterator[RedisStore]:
    store = RedisStore(server.url)
    await store.open()
    yield store
    await store.aclose()


@dataclass
class Stream:
    """Calls one after another, until it is stopped."""

    store: RedisStore
    served: int = 0
    refused: list[float] = field(default_factory=list)
    """Seconds that each refused call took, in order."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        for number in count():
            began = clock()
            try:
                met = await self.store.record("crm", sighting(ACME, f"t{number}", "c1", "working"))
            except StateUnavailable:
                self.refused.append(clock() - began)
                # Refused without waiting: whoever else there is gets a turn.
                await asyncio.sleep(0)
            else:
                assert met == RecordedOwners(ACME, ACME)
                self.served += 1
            self.changed.set()

    async def until(self, holds: Callable[[], bool]) -> float:
        """Wait until something holds; seconds that it took."""
        clock = asyncio.get_running_loop().time
        began = clock()
        async with asyncio.timeout(LONGEST_ABSENCE):
            while not holds():
                self.changed.clear()
                await self.changed.wait()
        return clock() - began

    async def served_again(self) -> float:
        served = self.served
        return await self.until(lambda: self.served > served)

    async def refused_again(self, times: int = 1) -> None:
        refused = len(self.refused)
        await self.until(lambda: len(self.refused) >= refused + times)


@asynccontextmanager
async def streaming(store: RedisStore, calls: int = 4) -> AsyncIterator[Stream]:
    stream = Stream(store)
    tasks = [asyncio.ensure_future(stream.run()) for _ in range(calls)]
    try:
        await stream.served_again()
        yield stream
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(each) for each in ended} == {asyncio.CancelledError}


def tell(what: str, stream: Stream, back: float) -> None:
    refused = sorted(stream.refused)
    quick = sum(each <= 0.05 for each in refused)
    told = f"{len(refused)} refused, the longest within {refused[-1] * 1e3:.0f} ms, {quick} within 50 ms"
    sys.stdout.write(f"\n{what}: {told}; back after {back:.2f} s\n")


async def test_a_restarted_redis_is_back_within_a_second(server: RedisServer) -> None:
    async with opened(server) as store, streaming(store) as stream:
        for _ in range(2):
            server.stop()
            await stream.refused_again(50)
            # Started by a thread: its start is waited for, and the stream goes on.
            await asyncio.to_thread(server.start)
            back = await stream.served_again()
            tell("killed", stream, back)
            assert max(stream.refused) <= LONGEST_CALL


async def test_a_hanging_redis_is_given_up_and_back_as_soon_as_it_answers(server: RedisServer) -> None:
    async with opened(server) as store, streaming(store) as stream:
        server.freeze()
        await stream.refused_again(50)
        refused = len(stream.refused)
        await stream.refused_again(50)
        later = stream.refused[refused:]
        server.thaw()
        back = await stream.served_again()
        tell("hung", stream, back)
        assert max(stream.refused) <= LONGEST_CALL
        # Once it is known to hang, nobody waits for it.
        assert sorted(later)[len(later) // 2] < 0.05


async def test_a_full_redis_is_still_read_and_writes_as_soon_as_there_is_room(
    server: RedisServer, patient: None
) -> None:
    async with opened(server) as store:
        await store.record("crm", sighting(ACME, "t1", state="working"))
        server.ask("CONFIG", "SET", "maxmemory", "1")
        for call in (store.record("crm", sighting(ACME, "t2")), store.keep(Note("k", "n", b"v"))):
            with pytest.raises(StateUnavailable) as refused:
                await call
            assert refused.value.detail == "redis: OOM"
        [known] = await store.tasks("crm", ["t1"])
        assert known is not None
        assert known.owner == ACME
        # To forget is what makes room.
        assert await store.erase("acme") == 1
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert await store.record("crm", sighting(ACME, "t2")) == RecordedOwners(task=ACME)
