"""The ledger in a real Redis: the contract of every store, and what is a Redis's own."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.redis import RedisStore
from gateway.tasks.store import Bounds, Note, Owner, RecordedOwners, Row, Task
from tests.support.redis_peer import be_patient, until_up
from tests.support.redis_server import RedisServer, needs_redis, redis_server
from tests.tasks.asking import ACME, ANN, DAY, GLOBEX, HOUR, NOW, all_notes, all_rows, sighting
from tests.tasks.contract import Contract

pytestmark = [pytest.mark.anyio, needs_redis]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
async def store(server: RedisServer, patient: None) -> AsyncIterator[RedisStore]:
    server.ask("FLUSHALL")
    async with opened(server.url) as store:
        yield store


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(url)
    await store.open()
    yield store
    await store.aclose()


class TestRedis(Contract):
    """Run over the fixture `store`."""


async def test_one_of_two_concurrent_records_owns_a_task_and_both_learn_the_owner(
    server: RedisServer, store: RedisStore
) -> None:
    async with opened(server.url) as other:
        for number in range(200):
            task, gateways = f"t{number}", [(store, ACME), (other, GLOBEX)]
            random.Random(number).shuffle(gateways)
            first, second = await asyncio.gather(
                *(gateway.record("crm", sighting(owner, task, f"c{number}")) for gateway, owner in gateways)
            )
            assert first == second
            [found] = await store.tasks("crm", [task])
            assert found is not None
            assert first == RecordedOwners(found.owner, found.owner)


async def test_each_due_note_goes_to_one_of_two_gateways(server: RedisServer, store: RedisStore) -> None:
    for number in range(100):
        await store.keep(Note("out", f"k{number:03}", b"", due=NOW - 100.0 + number))
    async with opened(server.url) as other:
        taken = await asyncio.gather(*(each.due("out", NOW, 7, 30.0) for _ in range(10) for each in (store, other)))
    assert sorted(key for some in taken for key, _ in some) == [f"k{number:03}" for number in range(100)]


async def test_answers_are_never_mixed_up_however_many_calls_are_cancelled(
    server: RedisServer, store: RedisStore
) -> None:
    tenants = [Owner(f"tenant-{number}", f"p{number}") for number in range(50)]
    for number, owner in enumerate(tenants):
        await store.record("crm", sighting(owner, f"t{number}"))
    chance = random.Random(7)

    async def ask(number: int) -> None:
        task = await store.tasks("crm", [f"t{number}"])
        assert [found and found.owner for found in task] == [tenants[number]]
        assert await store.record("crm", sighting(GLOBEX, f"t{number}")) == RecordedOwners(task=tenants[number])

    # As many connections as there may be.
    await asyncio.gather(*(ask(number) for number in range(50)))
    made = _connections(server)
    for _ in range(40):
        calls = [asyncio.ensure_future(ask(number)) for number in range(50)]
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        left = chance.sample(calls, 25)
        for call in left:
            call.cancel()
        told = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in told} <= {type(None), asyncio.CancelledError}
    assert _connections(server) == made + 1  # the one that asks here


async def test_all_keys_carry_the_prefix_as_their_hash_tag(server: RedisServer, store: RedisStore) -> None:
    async with opened(f"{server.url}?prefix=blue") as other:
        for each, owner in ((store, ACME), (other, GLOBEX)):
            assert await each.record("crm", sighting(owner, "t1", "c1", "working")) == RecordedOwners(owner, owner)
            await each.record("crm", sighting(owner, "t2", state="completed"))
            await each.keep(Note("out", "k", b"", "acme", "g", NOW + 1.0, NOW + DAY))
        keys = server.ask("KEYS", "*").split("\n")
        assert {key.partition(":")[0] for key in keys} == {"{a2a}", "{blue}"}
        assert not any(server.ask("TTL", key) != "-1" for key in keys)
        assert await store.erase("globex") == 0
        assert await other.count("crm", GLOBEX) == 2


async def test_expired_records_leave_nothing_behind(server: RedisServer, store: RedisStore) -> None:
    for number in range(20):
        await store.record("crm", sighting(Owner(f"t{number % 3}", "p"), f"t{number}", f"c{number % 6}", "working"))
        await store.keep(Note("out", f"k{number}", b"v", "acme", "g", NOW + 1.0, NOW + DAY))
    assert await store.expire(NOW + 2 * DAY, Bounds(open=HOUR, ended=HOUR), 500) == 20 + 6 + 20
    assert server.ask("KEYS", "*") == "{a2a}:schema"


async def test_many_tenants_are_forgotten_in_passes(store: RedisStore) -> None:
    rows = [
        Row("crm", f"t{number}", task=Task(Owner(f"tenant-{number % 120}"), made=1, seen=1), seen=1)
        for number in range(600)
    ]
    assert await store.put_rows(rows) == 600
    assert len(await store.figures()) == 120
    assert await store.expire(NOW, Bounds(), 7) == 7
    assert await store.expire(NOW, Bounds(), 10_000) == 593
    assert await store.figures() == []


async def test_records_observed_again_soon_are_not_written(server: RedisServer, store: RedisStore) -> None:
    await store.record("crm", sighting(ANN, "t1", "c1", "working"))
    server.ask("CONFIG", "RESETSTAT")
    for at in (NOW, NOW + 59, NOW - HOUR):
        assert await store.record("crm", sighting(ANN, "t1", "c1", "working", at=at)) == RecordedOwners(ANN, ANN)
    assert "cmdstat_hset" not in server.ask("INFO", "commandstats")
    await store.record("crm", sighting(ANN, "t1", "c1", "working", at=NOW + 60))
    assert [row.seen for row in await all_rows(store)] == [NOW + 60, NOW + 60]


async def test_foreign_values_under_our_keys_are_refused(server: RedisServer, store: RedisStore) -> None:
    server.ask("HSET", "{a2a}:tasks", "crm\0t1", "nonsense")
    server.ask("SET", "{a2a}:contexts", "nonsense")
    for call in (
        store.tasks("crm", ["t1"]),
        store.context("crm", "c1"),
        store.record("crm", sighting(ACME, "t1", "c1")),
    ):
        with pytest.raises(StateUnavailable):
            await call


async def test_a_cluster_has_the_ledger_on_one_shard() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    with redis_server("--cluster-enabled", "yes", "--cluster-port", port) as server:
        async with opened(server.url) as store:
            # It has no slots yet; who tries again finds it as soon as it has.
            with pytest.raises(StateUnavailable):
                await store.open_tasks("acme")
            server.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
            await until_up(store.client)
            for owner in (ACME, GLOBEX):
                name = owner.tenant
                assert await store.record("crm", sighting(owner, name, name, "working")) == RecordedOwners(owner, owner)
                await store.keep(Note("out", name, b"v", name, "g", NOW - 1.0, NOW + DAY))
            assert await store.settle(Note("out", "acme", b"w")) == b"v"
            assert len(await store.due("out", NOW, 10, 30.0)) == 2
            assert len(await store.group("out", "g", 10)) == 2
            assert await store.count("crm", ACME, "acme") == 1
            rows, notes = await all_rows(store), await all_notes(store)
            assert (len(rows), len(notes), len(await store.figures())) == (4, 2, 2)
            assert await store.erase("acme") == 3
            assert await store.put_rows(rows) == 2
            assert await store.drop("out", "globex")
            assert await store.expire(NOW + 2 * DAY, Bounds(open=HOUR), 500) == 4


def _connections(server: RedisServer) -> int:
    told = dict(line.split(":") for line in server.ask("INFO", "stats").splitlines() if ":" in line)
    return int(told["total_connections_received"])


async def test_notes_are_listed_a_few_at_a_time_where_they_are_large(store: RedisStore) -> None:
    sizes = [900_000, 10, 900_000, 10, 2_000_000, 10]
    for number, size in enumerate(sizes):
        await store.keep(Note("body", str(number), b"x" * size, "acme"))
    pages = []
    after = ("", "")
    while notes := await store.notes(after, 100):
        pages.append([len(note.value) for note in notes])
        after = (notes[-1].kind, notes[-1].key)
    assert pages == [sizes[:3], sizes[3:5], sizes[5:]]
    assert await store.note("body", "4") == b"x" * 2_000_000
