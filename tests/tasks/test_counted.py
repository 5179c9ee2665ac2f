"""Every operation of a store is counted, whether it answers at once or later, or not at all."""

from collections import defaultdict
from collections.abc import Mapping
from typing import get_type_hints

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.counted import OPERATIONS, counted
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Met, Owner, Sighting, Store

pytestmark = pytest.mark.anyio


def told(counts: Mapping[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Those that anything was counted of."""
    return {operation: results for operation, results in counts.items() if results}


def test_the_operations_are_those_of_a_store() -> None:
    others = {"open", "aclose"}
    assert {name for name in vars(Store) if not name.startswith("_")} - others == set(OPERATIONS)
    assert {"local", "shared", "label"} <= set(get_type_hints(Store))


async def test_every_answer_is_counted() -> None:
    counts: defaultdict[str, dict[str, float]] = defaultdict(dict)
    store = counted(SqliteStore(None), counts.__getitem__)
    await store.open()
    met = await store.meet("crm", Sighting(Owner("acme"), task="t"))
    assert met == Met(Owner("acme"))
    await store.tasks("crm", ["t"])
    await store.tasks("crm", ["t"])
    assert told(counts) == {"meet": {"ok": 1}, "tasks": {"ok": 2}}
    await store.aclose()


async def test_an_operation_that_fails_is_counted() -> None:
    counts: defaultdict[str, dict[str, float]] = defaultdict(dict)

    class Broken(SqliteStore):
        async def open_tasks(self, tenant: str) -> int:
            raise StateUnavailable(tenant)

    store = counted(Broken(), counts.__getitem__)
    with pytest.raises(StateUnavailable):
        await store.open_tasks("acme")
    assert told(counts) == {"open_tasks": {"unavailable": 1}}
