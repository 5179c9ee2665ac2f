"""The ledger in the memory of this process: the contract of every store, and what is its own."""

from collections.abc import AsyncIterator

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import memory
from gateway.tasks.memory import MemoryStore
from gateway.tasks.store import Bounds, Note, Store
from tests.tasks.asking import ACME, DAY, GLOBEX, NOW, sighting
from tests.tasks.contract import Contract


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = MemoryStore()
    await store.open()
    yield store
    await store.aclose()


class TestMemory(Contract):
    """Run over the fixture `store`."""


def test_it_is_known_for_what_it_is() -> None:
    store = MemoryStore()
    assert (store.local, store.shared, store.label) == (True, False, "memory")


def test_what_a_tenant_holds_beyond_the_bounds_is_forgotten_at_once() -> None:
    store = MemoryStore(Bounds(tasks=2, contexts=1))
    store.meet("crm", sighting(GLOBEX, "g1", "gc1"))
    for number in range(5):
        store.meet("crm", sighting(ACME, f"t{number}", f"c{number}", "working"))
    ids = [f"t{number}" for number in range(5)]
    assert [task is not None for task in store.tasks("crm", ids)] == [False, False, False, True, True]
    assert store.context("crm", "c3") is None
    assert store.context("crm", "c4") == ACME
    assert store.tasks("crm", ["g1"]) != [None]


def test_it_keeps_to_the_bounds_that_it_was_told_last() -> None:
    store = MemoryStore()
    store.expire(NOW, Bounds(tasks=1), 500)
    for task in ("t1", "t2"):
        store.meet("crm", sighting(ACME, task))
    assert [task is not None for task in store.tasks("crm", ["t1", "t2"])] == [False, True]


def test_a_task_that_is_met_again_is_not_the_oldest() -> None:
    store = MemoryStore(Bounds(tasks=2))
    for task in ("t1", "t2", "t1", "t3"):
        store.meet("crm", sighting(ACME, task))
    assert [task is not None for task in store.tasks("crm", ["t1", "t2", "t3"])] == [True, False, True]


def test_a_tenant_whose_notes_are_full_is_refused_more_and_nobody_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_NOTES", 2)
    store = MemoryStore()
    for key in ("k1", "k2", "k1"):
        store.keep(Note("hook", key, b"", "acme"))
    with pytest.raises(StateUnavailable):
        store.keep(Note("hook", "k3", b"", "acme"))
    store.keep(Note("hook", "k3", b"", "globex"))
    assert store.note("hook", "k3") == b""
    assert store.drop("hook", "k1")
    store.keep(Note("hook", "k4", b"", "acme"))


def test_a_note_passes_from_one_tenant_to_another() -> None:
    store = MemoryStore()
    for tenant in ("acme", "globex"):
        store.keep(Note("name", "n1", tenant.encode(), tenant))
    assert store.erase("acme") == 0
    assert store.note("name", "n1") == b"globex"


def test_notes_past_their_time_are_none_and_then_forgotten() -> None:
    clock = [float(NOW)]
    store = MemoryStore(wall=lambda: clock[0])
    store.keep(Note("name", "n1", b"", "acme", until=NOW + 10))
    store.keep(Note("name", "n2", b"", "acme", until=NOW + 10))
    store.keep(Note("name", "n2", b"", "acme", until=NOW + DAY))
    assert store.note("name", "n1") == b""
    clock[0] += 10
    assert store.note("name", "n1") is None
    assert [figures.notes for figures in store.figures()] == [2]
    assert store.expire(NOW + 10, Bounds(), 500) == 1
    assert [figures.notes for figures in store.figures()] == [1]
    assert store.expire(NOW + DAY, Bounds(), 500) == 1
    assert store.figures() == []


def test_what_is_put_off_again_and_again_does_not_pile_up() -> None:
    store = MemoryStore()
    for number in range(20_000):
        store.keep(Note("out", f"k{number % 3}", b"", due=float(NOW + number), until=NOW + DAY + number))
    assert len(store._due["out"]._heap) <= 1_000
    assert len(store._ends._heap) <= 1_000
    assert [key for key, _ in store.due("out", NOW + 20_000.0, 10, 30.0)] == ["k2", "k0", "k1"]


def test_nothing_is_left_of_what_is_forgotten() -> None:
    store = MemoryStore()
    for number in range(100):
        store.meet("crm", sighting(ACME, f"t{number}", f"c{number}", "working"))
        store.keep(Note("out", f"k{number}", b"", "acme", f"g{number}", 1.0, NOW + DAY))
    assert store.erase("acme") == 300
    assert store.due("out", NOW, 10, 30.0) == []
    assert store.expire(NOW + 2 * DAY, Bounds(), 500) == 0
    held = (store._tasks, store._contexts, store._holdings, store._counts, store._notes, store._groups)
    assert [len(kept) for kept in held] == [0] * 6
    assert store._ends._heap == []
