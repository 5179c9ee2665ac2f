"""Sightings of one turn of the loop are written together, and nobody is told before they are."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import gathered as module
from gateway.tasks.gathered import gathered
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Met, Sighting, Store
from tests.tasks.asking import ACME, ANN, GLOBEX, sighting
from tests.tasks.contract import Contract

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def inner(path: Path) -> SqliteStore:
    return SqliteStore(path)


@pytest.fixture
def counts() -> dict[str, float]:
    """What came of those that were written together."""
    return {}


@pytest.fixture
async def store(inner: SqliteStore, counts: dict[str, float]) -> AsyncIterator[Store]:
    store = gathered(inner, inner.together, counts)
    await store.open()
    yield store
    await store.aclose()


class TestGathered(Contract):
    """Run over the fixture `store`."""


def later(met: object) -> asyncio.Future[Met]:
    assert isinstance(met, asyncio.Future)
    return cast("asyncio.Future[Met]", met)


async def turn() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def transactions(inner: SqliteStore, count: list[str]) -> None:
    with inner._file as db:
        db.set_trace_callback(lambda sql: count.append(sql) if sql in ("BEGIN IMMEDIATE", "COMMIT") else None)


async def test_it_is_known_for_what_it_is(store: Store, inner: SqliteStore) -> None:
    assert (store.local, store.shared, store.label) == (inner.local, inner.shared, inner.label)


async def test_who_is_alone_in_a_turn_waits_for_nobody(store: Store) -> None:
    for number in range(3):
        assert store.meet("crm", sighting(task=f"t{number}")) == Met(ACME)
        await turn()


async def test_those_behind_the_first_are_written_in_one_transaction(
    store: Store, inner: SqliteStore, counts: dict[str, float]
) -> None:
    told: list[str] = []
    transactions(inner, told)
    met = [store.meet("crm", sighting(ACME, f"t{number}", f"c{number}")) for number in range(10)]
    assert met[0] == Met(ACME, ACME)
    assert not any(later(each).done() for each in met[1:])
    assert inner.tasks("crm", ["t0", "t9"])[1] is None
    await turn()
    assert [later(each).result() for each in met[1:]] == [Met(ACME, ACME)] * 9
    assert told == ["BEGIN IMMEDIATE", "COMMIT"]
    assert counts == {"ok": 9}


async def test_behind_a_turn_of_many_the_first_waits_too_until_one_was_alone(store: Store) -> None:
    for number in range(2):
        store.meet("crm", sighting(task=f"t{number}"))
    await turn()
    alone = later(store.meet("crm", sighting(task="t2")))
    assert not alone.done()
    await turn()
    assert alone.result() == Met(ACME)
    assert store.meet("crm", sighting(task="t3")) == Met(ACME)


async def test_what_was_answered_is_in_the_file(store: Store, path: Path) -> None:
    met = [store.meet("crm", sighting(task=f"t{number}")) for number in range(5)]
    await later(met[4])
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT count(*) FROM entry").fetchone() == (5,)
    other.close()


async def test_the_first_of_a_turn_owns_what_others_meet_in_it(store: Store) -> None:
    store.meet("crm", sighting(task="t0"))
    met = [store.meet("crm", sighting(owner, "t1", "c1")) for owner in (ANN, GLOBEX)]
    assert [await later(each) for each in met] == [Met(ANN, ANN)] * 2


async def test_many_are_written_before_the_turn_is_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    met = [store.meet("crm", sighting(task=f"t{number}")) for number in range(6)]
    assert [later(each).done() for each in met[1:]] == [True, True, True, False, False]
    await turn()
    assert all(later(each).done() for each in met[1:])


async def test_who_is_cancelled_is_written_down_all_the_same(store: Store, inner: SqliteStore) -> None:
    met = [store.meet("crm", sighting(task=f"t{number}")) for number in range(4)]
    later(met[2]).cancel()
    assert await later(met[3]) == Met(ACME)
    assert None not in inner.tasks("crm", ["t1", "t2", "t3"])


@pytest.mark.parametrize("numbers", [[1], [1, 2, 3]])
async def test_nobody_is_told_of_what_could_not_be_written(
    store: Store, inner: SqliteStore, path: Path, counts: dict[str, float], numbers: list[int]
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    store.meet("crm", sighting(task="t0"))
    met = [store.meet("crm", sighting(task=f"t{number}")) for number in numbers]
    other.execute("BEGIN IMMEDIATE")
    await turn()
    other.execute("ROLLBACK")
    other.close()
    faults = [later(each).exception() for each in met]
    assert all(isinstance(fault, StateUnavailable) for fault in faults)
    assert len(set(map(id, faults))) == len(numbers)
    assert inner.tasks("crm", [f"t{number}" for number in numbers]) == [None] * len(numbers)
    # One that is written alone is counted where all the others are.
    assert counts == ({"unavailable": 3} if len(numbers) > 1 else {})


async def test_a_transaction_that_breaks_in_the_middle_leaves_nothing(
    store: Store, inner: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meet(self: SqliteStore, db: sqlite3.Connection, scope: str, told: Sighting) -> Met:
        if told.task == "t2":
            raise StateUnavailable("no", detail="it is forgotten as often as it is met")
        return written(self, db, scope, told)

    written = SqliteStore._meet
    monkeypatch.setattr(SqliteStore, "_meet", meet)
    met = [store.meet("crm", sighting(task=f"t{number}")) for number in range(4)]
    await turn()
    assert [str(later(each).exception()) for each in met[1:]] == ["no"] * 3
    assert inner.tasks("crm", ["t0", "t1", "t2", "t3"])[1:] == [None] * 3
    monkeypatch.undo()
    again = [store.meet("crm", sighting(task=f"t{number}")) for number in range(4)]
    assert [await later(each) for each in again] == [Met(ACME)] * 4


async def test_what_waits_is_written_before_it_is_closed(inner: SqliteStore, path: Path) -> None:
    store = gathered(inner, inner.together, {})
    await store.open()
    met = [store.meet("crm", sighting(task=f"t{number}")) for number in range(3)]
    await store.aclose()
    assert [await later(each) for each in met[1:]] == [Met(ACME)] * 2
