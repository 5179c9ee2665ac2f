"""The ledger in a file of SQLite: the contract of every store, and what is its own."""

import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import SEEN_AGAIN, Bounds, Note, RecordedOwners
from tests.tasks.asking import ACME, ANN, BOB, DAY, GLOBEX, NOW, sighting
from tests.tasks.contract import Contract

pytestmark = pytest.mark.anyio


class TestSqlite(Contract):
    """Run over the fixture `store`."""


async def test_only_the_gateways_own_user_may_read_the_files(store: SqliteStore, path: Path) -> None:
    await store.record("crm", sighting(task="t1"))
    files = sorted(path.parent.iterdir())
    assert {file.name for file in files} == {"state.db", "state.db-shm", "state.db-wal"}
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3


async def test_nothing_is_left_beside_the_file_when_it_is_closed(store: SqliteStore, path: Path) -> None:
    await store.record("crm", sighting(task="t1"))
    await store.aclose()
    assert [file.name for file in path.parent.iterdir()] == ["state.db"]
    with pytest.raises(StateUnavailable):
        await store.tasks("crm", ["t1"])
    await store.aclose()


async def test_records_without_news_are_not_written(store: SqliteStore, path: Path) -> None:
    for again in range(2):
        at = NOW + again * (SEEN_AGAIN - 1)
        for met in (sighting(ACME, "t1", "c1", "working", at=at), sighting(task="t1", at=at), sighting(context="c1")):
            await store.record("crm", met)
        [known] = await store.tasks("crm", ["t1"])
        assert known is not None
        assert known.seen == NOW
    await store.record("crm", sighting(ACME, "t1", "c1", "working", at=NOW + SEEN_AGAIN))
    [known] = await store.tasks("crm", ["t1"])
    assert known is not None
    assert known.seen == NOW + SEEN_AGAIN


async def test_records_erased_by_one_process_are_gone_in_others(path: Path) -> None:
    one, other = SqliteStore(path), SqliteStore(path)
    for each in (one, other):
        await each.open()
    forgetting: tuple[Callable[[], Awaitable[int]], ...] = (
        lambda: other.erase("acme"),
        lambda: other.expire(NOW + DAY, Bounds(ended=1, open=1), 500),
    )
    for forget in forgetting:
        await one.record("crm", sighting(ACME, "t1", "c1", "working"))
        for store in (one, other):
            assert [None if it is None else it.owner for it in await store.tasks("crm", ["t1", "t2"])] == [ACME, None]
        assert await forget() == 2
        assert await one.tasks("crm", ["t1"]) == await other.tasks("crm", ["t1"]) == [None]
        assert await one.record("crm", sighting(GLOBEX, "t1")) == RecordedOwners(GLOBEX)
        assert [it and it.owner for it in await other.tasks("crm", ["t1"])] == [GLOBEX]
        await one.erase("globex")
    for each in (one, other):
        await each.aclose()


async def test_while_somebody_writes_others_read_and_fail_to_write(store: SqliteStore, path: Path) -> None:
    await store.record("crm", sighting(ACME, "t1", "c1", "working"))
    rows = await store.rows(("", "", ""), 10)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    writes: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: store.record("crm", sighting(ACME, "t1", "c1", "completed")),
        lambda: store.keep(Note("hook", "n1", b"")),
        lambda: store.settle(Note("hook", "n1", b"")),
        lambda: store.put_rows(rows),
        lambda: store.expire(NOW, Bounds(), 500),
        lambda: store.erase("acme"),
    )
    for write in writes:
        with pytest.raises(StateUnavailable) as caught:
            await write()
        assert caught.value.detail == "database is locked"
        assert str(path) not in caught.value.message
    assert [it and it.owner for it in await store.tasks("crm", ["t1"])] == [ACME]
    other.execute("ROLLBACK")
    for write in writes:
        await write()
    other.close()


async def test_a_frame_that_tells_nothing_new_waits_for_no_other_writer(store: SqliteStore, path: Path) -> None:
    message, task = sighting(ACME, context="c1"), sighting(ACME, "t1", "c1", "working")
    for frame in (message, task):
        await store.record("crm", frame)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert await store.record("crm", message) == RecordedOwners(None, ACME)
    assert await store.record("crm", task) == RecordedOwners(ACME, ACME)
    assert await store.record("crm", sighting(GLOBEX, "t1", "c1")) == RecordedOwners(ACME, ACME)
    for news in (sighting(ACME, "t2", "c1"), sighting(ACME, "t1", "c1", at=NOW + SEEN_AGAIN)):
        with pytest.raises(StateUnavailable):
            await store.record("crm", news)
    other.execute("ROLLBACK")
    other.close()


async def test_a_store_that_has_recorded_decides_as_one_that_has_not(tmp_path: Path) -> None:
    chance = random.Random(1)
    one = SqliteStore(tmp_path / "one.sqlite3")
    await one.open()
    for step in range(400):
        frame = sighting(
            chance.choice((ACME, ANN, BOB, GLOBEX)),
            chance.choice(("", "t1", "t2")),
            chance.choice(("c1", "c2", "c3")),
            chance.choice(("", "working", "completed")),
            at=NOW + step * chance.choice((0, 1)),
            apart=chance.random() < 0.3,
            prefixed=chance.random() < 0.2,
        )
        fresh = SqliteStore(tmp_path / "other.sqlite3")
        await fresh.open()
        assert await one.record("crm", frame) == await fresh.record("crm", frame)
        assert await one.rows(("", "", ""), 10) == await fresh.rows(("", "", ""), 10)
        await fresh.aclose()
    await one.aclose()


async def test_erased_records_can_be_recorded_again_in_the_same_second(store: SqliteStore) -> None:
    frame = sighting(ACME, "t1", "c1", "completed")
    for _ in range(2):
        assert await store.record("crm", frame) == RecordedOwners(ACME, ACME)
    await store.erase("acme")
    assert await store.record("crm", frame) == RecordedOwners(ACME, ACME)
    assert [each and each.owner for each in await store.tasks("crm", ["t1"])] == [ACME]
    await store.expire(NOW + DAY, Bounds(ended=1, open=1), 500)
    assert await store.record("crm", frame) == RecordedOwners(ACME, ACME)
    assert [each and each.owner for each in await store.tasks("crm", ["t1"])] == [ACME]


async def test_expiry_looks_at_a_part_of_the_contexts_at_a_time_and_goes_on_there(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.tasks.sqlite.REVIEWED", 2)
    for number in range(5):
        await store.record("crm", sighting(ACME, context=f"c{number}"))
    await store.record("crm", sighting(ACME, context="c3", at=NOW + 3 * DAY))
    forgotten = [await store.expire(NOW + 2 * DAY, Bounds(open=DAY), 500) for _ in range(4)]
    assert forgotten == [2, 1, 1, 0]
    assert [await store.context("crm", f"c{number}") for number in range(5)] == [None, None, None, ACME, None]


async def test_long_counts_run_in_a_thread(path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        await store.record("crm", sighting(ANN if number % 3 else BOB, f"t{number}", "c1"))
    monkeypatch.setattr("gateway.tasks.sqlite.COUNTED_INLINE", 10)
    assert await store.count("crm", ACME) == 30
    assert await store.count("crm", ANN, "c1") == 20
    assert await store.open_tasks("acme") == 30
    assert await store.count("crm", GLOBEX) == 0
    path.unlink()  # noqa: ASYNC240 - a file of the test
    with pytest.raises(StateUnavailable):
        await store.count("crm", ACME)


class TestMemory(Contract):
    """The ledger in the memory of this process."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(None)
        await store.open()
        assert (store.local, store.shared, store.label) == (True, False, "memory")
        yield store
        await store.aclose()
        with pytest.raises(StateUnavailable):
            await store.tasks("crm", ["t1"])
