"""Several processes that share a file of SQLite tell what one ledger in memory tells."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import SEEN_AGAIN, Bounds, Observed
from tests.tasks.asking import ACME, ANN, BOB, GLOBEX, NOW

pytestmark = pytest.mark.anyio

owners = st.sampled_from([ACME, ANN, BOB, GLOBEX])
states = st.sampled_from(["", "working", "completed"])
sightings = st.builds(
    Observed,
    owners,
    st.sampled_from(["", "t1", "t2", "t3", "t4"]),
    st.sampled_from(["", "c1", "c2", "c3"]),
    states,
    apart=st.booleans(),
    prefixed=st.booleans(),
)
steps = st.lists(sightings | st.sampled_from(["acme", "globex", "expire", "start"]), max_size=40)


async def told(store: SqliteStore) -> object:
    """All that a store tells of the ids above."""
    return (
        await store.tasks("crm", ["t1", "t2", "t3", "t4"]),
        [await store.context("crm", context) for context in ("c1", "c2", "c3")],
        [await store.open_tasks(tenant) for tenant in ("acme", "globex")],
        [await store.count("crm", owner, name) for owner in (ACME, ANN, BOB, GLOBEX) for name in ("", "c1", "c2")],
        await store.figures(),
        await store.rows(("", "", ""), 100),
    )


async def started(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    await store.open()
    return store


@given(steps=steps)
async def test_several_tell_what_one_in_memory_tells(
    tmp_path_factory: pytest.TempPathFactory, *, steps: list[object]
) -> None:
    path = tmp_path_factory.mktemp("model") / "state.db"
    model, stores, now = SqliteStore(None), [await started(path) for _ in range(3)], NOW
    for number, step in enumerate(steps):
        store = stores[number % 3]
        if isinstance(step, Observed):
            now += SEEN_AGAIN
            met = replace(step, now=now)
            assert await store.record("crm", met) == await model.record("crm", met)
        elif step == "expire":
            bounds = Bounds(tasks=2)
            assert await store.expire(now, bounds, 500) == await model.expire(now, bounds, 500)
        elif step == "start":
            await store.aclose()
            stores[number % 3] = await started(path)
        else:
            assert await store.erase(str(step)) == await model.erase(str(step))
        for each in stores:
            assert await told(each) == await told(model)
    for each in (*stores, model):
        await each.aclose()
