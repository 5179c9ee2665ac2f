"""Every operation of a store is counted, whether it answers at once or later, or not at all."""

from collections import defaultdict
from collections.abc import Mapping
from typing import get_type_hints

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.counted import OPERATIONS, counted
from gateway.tasks.memory import MemoryStore
from gateway.tasks.store import Owner, Sighting, Store
from tests.doubles.waited import Waited

pytestmark = pytest.mark.anyio


def told(counts: Mapping[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Those that anything was counted of."""
    return {operation: results for operation, results in counts.items() if results}


def test_the_operations_are_those_of_a_store() -> None:
    others = {"open", "aclose"}
    assert {name for name in vars(Store) if not name.startswith("_")} - others == set(OPERATIONS)
    assert {"local", "shared", "label"} <= set(get_type_hints(Store))


async def test_what_answers_at_once_is_counted() -> None:
    counts: defaultdict[str, dict[str, float]] = defaultdict(dict)
    store = counted(MemoryStore(), counts.__getitem__)
    await store.open()
    met = store.meet("crm", Sighting(Owner("acme"), task="t"))
    assert met == MemoryStore().meet("crm", Sighting(Owner("acme"), task="t"))
    store.tasks("crm", ["t"])
    store.tasks("crm", ["t"])
    assert told(counts) == {"meet": {"ok": 1}, "tasks": {"ok": 2}}
    await store.aclose()


async def test_what_answers_later_is_counted_then() -> None:
    counts: defaultdict[str, dict[str, float]] = defaultdict(dict)
    inner = Waited()
    store = counted(inner.store, counts.__getitem__)
    assert (store.local, store.shared, store.label) == (False, True, "waited")
    asked = store.open_tasks("acme")
    assert told(counts) == {}
    assert not isinstance(asked, int)
    assert await asked == 0
    inner.down = True
    refused = store.open_tasks("acme")
    assert not isinstance(refused, int)
    with pytest.raises(StateUnavailable):
        await refused
    assert told(counts) == {"open_tasks": {"ok": 1, "unavailable": 1}}


def test_what_refuses_at_once_is_counted() -> None:
    counts: defaultdict[str, dict[str, float]] = defaultdict(dict)

    class Broken(MemoryStore):
        def open_tasks(self, tenant: str) -> int:
            raise StateUnavailable(tenant)

    store = counted(Broken(), counts.__getitem__)
    with pytest.raises(StateUnavailable):
        store.open_tasks("acme")
    assert told(counts) == {"open_tasks": {"unavailable": 1}}
