"""Every operation of a store is counted, whether it answers at once or later, or not at all."""

from typing import get_type_hints

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.counted import OPERATIONS, counted
from gateway.tasks.memory import MemoryStore
from gateway.tasks.store import Owner, Sighting, Store
from tests.doubles.waited import Waited

pytestmark = pytest.mark.anyio


def test_the_operations_are_those_of_a_store() -> None:
    others = {"open", "aclose"}
    assert {name for name in vars(Store) if not name.startswith("_")} - others == set(OPERATIONS)
    assert {"local", "shared", "label"} <= set(get_type_hints(Store))


async def test_what_answers_at_once_is_counted() -> None:
    counts: list[tuple[str, str]] = []
    store = counted(MemoryStore(), lambda *labels: counts.append(labels))
    await store.open()
    met = store.meet("crm", Sighting(Owner("acme"), task="t"))
    assert met == MemoryStore().meet("crm", Sighting(Owner("acme"), task="t"))
    store.tasks("crm", ["t"])
    assert counts == [("meet", "ok"), ("tasks", "ok")]
    await store.aclose()


async def test_what_answers_later_is_counted_then() -> None:
    counts: list[tuple[str, str]] = []
    inner = Waited()
    store = counted(inner.store, lambda *labels: counts.append(labels))
    assert (store.local, store.shared, store.label) == (False, True, "waited")
    asked = store.open_tasks("acme")
    assert counts == []
    assert not isinstance(asked, int)
    assert await asked == 0
    inner.down = True
    refused = store.open_tasks("acme")
    assert not isinstance(refused, int)
    with pytest.raises(StateUnavailable):
        await refused
    assert counts == [("open_tasks", "ok"), ("open_tasks", "unavailable")]


def test_what_refuses_at_once_is_counted() -> None:
    counts: list[tuple[str, str]] = []

    class Broken(MemoryStore):
        def open_tasks(self, tenant: str) -> int:
            raise StateUnavailable(tenant)

    store = counted(Broken(), lambda *labels: counts.append(labels))
    with pytest.raises(StateUnavailable):
        store.open_tasks("acme")
    assert counts == [("open_tasks", "unavailable")]
