"""A file of SQLite that several processes share tells what one ledger in memory tells."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.tasks import sqlite_carrying
from gateway.tasks.memory import MemoryStore
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import SEEN_AGAIN, Bounds, Sighting
from tests.tasks.asking import ACME, ANN, BOB, GLOBEX, NOW, settle

pytestmark = pytest.mark.anyio

owners = st.sampled_from([ACME, ANN, BOB, GLOBEX])
states = st.sampled_from(["", "working", "completed"])
sightings = st.builds(
    Sighting,
    owners,
    st.sampled_from(["", "t1", "t2", "t3", "t4"]),
    st.sampled_from(["", "c1", "c2", "c3"]),
    states,
    apart=st.booleans(),
    marked=st.booleans(),
)
steps = st.lists(sightings | st.sampled_from(["acme", "globex", "expire", "settle", "carry", "start"]), max_size=40)


def told(store: MemoryStore | SqliteStore) -> object:
    """All that a store tells of the ids above, as it is asked by calls."""
    return (
        store.tasks("crm", ["t1", "t2", "t3", "t4"]),
        [store.context("crm", context) for context in ("c1", "c2", "c3")],
        [store.open_tasks(tenant) for tenant in ("acme", "globex")],
        [store.count("crm", owner, context) for owner in (ACME, ANN, BOB, GLOBEX) for context in ("", "c1", "c2")],
    )


def gone_through(store: MemoryStore | SqliteStore) -> object:
    """The same, as it is gone through by commands."""
    return store.figures(), [row.id for row in store.rows(("", "", ""), 100)]


class Several:
    """Some processes, as stores of their own that share a file and are each asked in turn; and one in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model = MemoryStore()
        self.stores = [self.start() for _ in range(3)]
        self.now = NOW

    def start(self) -> SqliteStore:
        store = SqliteStore(self.path)
        store._file.open()
        return store

    def end(self, store: SqliteStore) -> None:
        """As a kill does: nothing is carried over."""
        if store._arrivals is not None:
            store._arrivals.close()
        store._file.close()

    def meet(self, number: int, sighting: Sighting) -> None:
        self.now += SEEN_AGAIN
        met = replace(sighting, now=self.now)
        assert self.stores[number % 3].meet("crm", met) == self.model.meet("crm", met)
        for store in self.stores:
            assert told(store) == told(self.model)

    def step(self, number: int, step: object) -> None:
        store = self.stores[number % 3]
        if isinstance(step, Sighting):
            self.meet(number, step)
        elif step == "expire":
            assert store.expire(self.now, Bounds(tasks=2), 500) == self.model.expire(self.now, Bounds(tasks=2), 500)
            self.model.expire(self.now, Bounds(), 500)
        elif step == "settle":
            settle(store)
        elif step == "carry":
            with store._file as db:
                sqlite_carrying.carry_over(db, store._of(db))
        elif step == "start":
            self.end(store)
            self.stores[number % 3] = self.start()
        else:
            assert store.erase(str(step)) == self.model.erase(str(step))


@given(steps=steps, between=st.lists(sightings, max_size=20), few=st.integers(1, 3), goes_through=st.booleans())
async def test_several_tell_what_one_in_memory_tells_also_while_arrivals_are_carried_over(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    steps: list[object],
    between: list[Sighting],
    few: int,
    goes_through: bool,
) -> None:
    several = Several(tmp_path_factory.mktemp("model") / "state.db")

    def sleep(_: float) -> None:
        # Between two transactions of whoever carries over, others meet tasks, and begin to carry over themselves.
        if between:
            several.meet(len(between), between.pop())
            if len(between) % 4 == 0:
                several.step(len(between), "settle")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_carrying, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic, time=time.time))
        patch.setattr(sqlite_carrying, "_AT_A_TIME", few)
        patch.setattr(sqlite_carrying, "_FEW", few - 1)
        for number, step in enumerate(steps):
            several.step(number, step)
            for store in several.stores:
                assert told(store) == told(several.model)
            if goes_through:
                assert gone_through(several.stores[number % 3]) == gone_through(several.model)
    assert gone_through(several.stores[0]) == gone_through(several.model)
    for store in several.stores:
        several.end(store)
