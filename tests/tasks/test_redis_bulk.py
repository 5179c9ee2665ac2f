"""What is large has a way of its own to a Redis, and nobody else waits behind it."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import redis_bulk
from gateway.tasks.redis import RedisStore
from gateway.tasks.redis_address import read_address
from gateway.tasks.redis_bulk import RedisBulk
from gateway.tasks.store import Note
from tests.doubles.redis_peer import be_patient
from tests.doubles.redis_server import RedisServer, needs_redis, redis_server
from tests.tasks.asking import ACME, sighting

pytestmark = [pytest.mark.anyio, needs_redis]

LARGE = b"x" * 1_000_000


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
async def store(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RedisStore]:
    be_patient(monkeypatch)
    monkeypatch.setattr(redis_bulk, "_PATIENCE", 60.0)
    server.ask("FLUSHALL")
    store = RedisStore(server.url)
    await store.open()
    yield store
    await store.aclose()


def connections(server: RedisServer) -> int:
    return server.ask("CLIENT", "LIST").count("name=") - 1


async def test_who_has_nothing_large_has_one_connection(server: RedisServer, store: RedisStore) -> None:
    before = connections(server)
    await store.keep(Note("alias", "one", b"1", "acme"))
    await store.meet("crm", sighting(ACME, "t", "c"))
    assert connections(server) == before
    await asyncio.gather(*(store.keep(Note("body", str(number), LARGE, "acme")) for number in range(10)))
    assert connections(server) == before + 1


async def test_who_has_nothing_large_is_answered_while_large_ones_are_on_their_way(store: RedisStore) -> None:
    writing = [asyncio.ensure_future(store.keep(Note("body", str(number), LARGE, "acme"))) for number in range(100)]
    # All of them have begun.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await store.meet("crm", sighting(ACME, "t", "c"))
    assert sum(one.done() for one in writing) < len(writing) / 2
    await asyncio.gather(*writing)
    assert await store.note("body", "99") == LARGE


async def test_who_would_wait_for_too_long_is_refused(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_bulk, "_PATIENCE", 0.01)
    bulk = RedisBulk(read_address(server.url), ())
    for _ in range(redis_bulk._AT_ONCE):
        await bulk._turns.acquire()
    with pytest.raises(StateUnavailable) as refused:
        await bulk.ask(b"PING")
    assert refused.value.detail == "redis: Overloaded"
    await bulk.aclose()


async def test_a_server_that_lets_nobody_in_is_of_no_use_and_is_asked_again(server: RedisServer) -> None:
    bulk = RedisBulk(read_address(server.url.replace("//", "//:wrong@")), ())
    for _ in range(redis_bulk._AT_ONCE + 1):
        with pytest.raises(StateUnavailable):
            await bulk.ask(b"PING")
    await bulk.aclose()
