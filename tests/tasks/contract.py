"""The contract of every store of the ledger: run over each by a subclass with a fixture `store`.

    class TestMemory(Contract):
        @pytest.fixture
        def store(self) -> Iterator[Store]: ...

The store that the fixture gives is open and empty. What a test takes for the time lies near the real one.
"""

import asyncio
import itertools

import pytest

from gateway.tasks.store import LONGEST_ID, OPEN, Bounds, Note, Owner, RecordedOwners, Row, Store, Task
from tests.tasks.asking import (
    ACME,
    ANN,
    BOB,
    DAY,
    GLOBEX,
    HOUR,
    NOW,
    STRANGE,
    all_notes,
    all_rows,
    fill,
    known,
    owner_of,
    sighting,
    which,
)


@pytest.mark.anyio
class Contract:
    """The promises, by what they are about: tasks and contexts, counts, notes, upkeep."""

    # ---- Tasks and contexts --------------------------------------------------------------------------------------

    async def test_unknown_ids_have_no_owner(self, store: Store) -> None:
        assert await store.tasks("crm", ["t1", "t2"]) == [None, None]
        assert await store.tasks("crm", []) == []
        assert await store.context("crm", "c1") is None

    async def test_the_first_observed_caller_owns_a_task_and_its_context(self, store: Store) -> None:
        met = await store.record("crm", sighting(ANN, "t1", "c1", "working", replica="r1", dialect="jsonrpc/1.0"))
        assert met == RecordedOwners(ANN, ANN)
        assert await known(store, "t1") == Task(ANN, "c1", "working", "r1", "jsonrpc/1.0", NOW, NOW)
        assert await store.context("crm", "c1") == ANN

    async def test_a_task_and_its_context_never_change_their_owner(self, store: Store) -> None:
        await store.record("crm", sighting(ACME, "t1", "c1", "working"))
        before = await known(store, "t1")
        foreign = sighting(GLOBEX, "t1", "c1", "completed", at=NOW + HOUR, replica="r2", dialect="grpc/1.0")
        assert await store.record("crm", foreign) == RecordedOwners(ACME, ACME)
        assert await known(store, "t1") == before
        assert await store.context("crm", "c1") == ACME

    async def test_ids_that_are_not_named_get_no_owner(self, store: Store) -> None:
        assert await store.record("crm", sighting()) == RecordedOwners()
        assert await store.record("crm", sighting(task="t1")) == RecordedOwners(task=ACME)
        assert await store.record("crm", sighting(context="c1")) == RecordedOwners(context=ACME)
        assert await store.context("crm", "t1") is None
        assert await known(store, "c1") is None

    async def test_a_known_context_takes_a_new_task(self, store: Store) -> None:
        await store.record("crm", sighting(ANN, "t1", "c1"))
        assert await store.record("crm", sighting(BOB, "t2", "c1")) == RecordedOwners(BOB, ANN)
        assert await owner_of(store, "t2") == BOB
        assert await store.context("crm", "c1") == ANN

    async def test_a_known_task_may_tell_of_a_new_context(self, store: Store) -> None:
        await store.record("crm", sighting(ANN, "t1", "c1"))
        assert await store.record("crm", sighting(ANN, "t1", "c2")) == RecordedOwners(ANN, ANN)
        assert await store.context("crm", "c2") == ANN

    async def test_ids_of_two_scopes_have_nothing_to_do_with_each_other(self, store: Store) -> None:
        await store.record("crm", sighting(ACME, "t1", "c1"))
        assert await store.record("erp", sighting(GLOBEX, "t1", "c1")) == RecordedOwners(GLOBEX, GLOBEX)
        assert await store.record("crm/t1", sighting(GLOBEX, "c1")) == RecordedOwners(task=GLOBEX)
        assert [await owner_of(store, "t1", scope) for scope in ("crm", "erp", "crm/t1")] == [ACME, GLOBEX, None]

    async def test_a_state_is_told_on_by_the_same_tenant(self, store: Store) -> None:
        await store.record("crm", sighting(ANN, "t1", "c1", "submitted", dialect="jsonrpc/1.0", replica="r1"))
        later = sighting(BOB, "t1", "c1", "working", at=NOW + HOUR, dialect="grpc/1.0", replica="r2")
        assert await store.record("crm", later) == RecordedOwners(ANN, ANN)
        assert await known(store, "t1") == Task(ANN, "c1", "working", "r1", "jsonrpc/1.0", NOW, NOW + HOUR)

    async def test_no_state_leaves_the_one_that_is_known(self, store: Store) -> None:
        await store.record("crm", sighting(task="t1", state="working"))
        await store.record("crm", sighting(task="t1"))
        assert await known(store, "t1") == Task(ACME, state="working", made=NOW, seen=NOW)

    async def test_a_context_that_a_task_had_none_of_is_filled_in_once(self, store: Store) -> None:
        await store.record("crm", sighting(task="t1", state="working"))
        for context in ("c1", "c2"):
            await store.record("crm", sighting(task="t1", context=context))
        assert await known(store, "t1") == Task(ACME, "c1", "working", made=NOW, seen=NOW)

    async def test_a_record_observed_an_hour_later_has_the_later_time(self, store: Store) -> None:
        for at in (NOW, NOW + HOUR):
            await store.record("crm", sighting(ACME, "t1", "c1", "working", at=at))
        await store.record("crm", sighting(GLOBEX, "t1", "c1", "working", at=NOW + DAY))
        assert [row.seen for row in await all_rows(store)] == [NOW + HOUR, NOW + HOUR]

    async def test_tasks_are_returned_in_the_requested_order(self, store: Store) -> None:
        tasks = [f"t{number}" for number in range(100)]
        for number, task in enumerate(tasks):
            await store.record("crm", sighting(Owner(f"tenant-{number % 3}"), task))
        found = await store.tasks("crm", ["none", *reversed(tasks), "t1", "t1", ""])
        tenants = [task and task.owner.tenant for task in found]
        wanted = [f"tenant-{number % 3}" for number in reversed(range(100))]
        assert tenants == [None, *wanted, "tenant-1", "tenant-1", None]

    async def test_ids_may_hold_any_text_and_none_is_like_another(self, store: Store) -> None:
        for number, id_ in enumerate(STRANGE):
            owner = Owner(f"tenant-{number}", id_)
            assert await store.record(id_, sighting(owner, id_, id_, "working")) == RecordedOwners(owner, owner)
        for number, (scope, id_) in enumerate(itertools.product(STRANGE, STRANGE)):
            owner = Owner(f"tenant-{number // len(STRANGE)}", scope)
            wanted = owner if scope == id_ else None
            assert await owner_of(store, id_, scope) == wanted
            assert await store.context(scope, id_) == wanted
            assert await store.count(scope, owner, id_) == (scope == id_)
        assert {row.id for row in await all_rows(store, 3)} == set(STRANGE)

    async def test_an_id_that_is_too_long_has_no_owner(self, store: Store) -> None:
        longest, too_long = "ä" * LONGEST_ID, "a" * (LONGEST_ID + 1)
        assert await store.record("crm", sighting(ACME, longest, longest)) == RecordedOwners(ACME, ACME)
        assert await store.record("crm", sighting(ACME, too_long, "c1")) == RecordedOwners(context=ACME)
        assert await store.record("crm", sighting(ACME, "t1", too_long)) == RecordedOwners(task=ACME)
        assert await store.record("crm", sighting(ACME, too_long, too_long)) == RecordedOwners()
        assert await owner_of(store, longest) == ACME
        assert await known(store, too_long) is None
        assert await store.context("crm", too_long) is None
        assert await store.count("crm", ACME, too_long) == 0
        assert await known(store, "t1") == Task(ACME, made=NOW, seen=NOW)
        assert len(await all_rows(store)) == 4

    @pytest.mark.parametrize("other", [GLOBEX, BOB], ids=["another tenant", "another principal"])
    async def test_a_task_in_anothers_context_is_not_written_down(self, store: Store, other: Owner) -> None:
        await store.record("crm", sighting(ANN, "t1", "c1", "working"))
        before = await all_rows(store)
        # Met before and for the first time, by itself and with a task of its own.
        for task in ("t2", "t2", "t3"):
            met = await store.record("crm", sighting(other, task, "c1", "working", at=NOW + HOUR, apart=True))
            assert met == RecordedOwners(None, ANN)
            assert await all_rows(store) == before
        await store.record("crm", sighting(other, "t4", state="working"))
        before = await all_rows(store)
        late = sighting(other, "t4", "c1", "completed", at=NOW + HOUR, apart=True)
        assert await store.record("crm", late) == RecordedOwners(other, ANN)
        assert await all_rows(store) == before
        assert await store.record("crm", sighting(ANN, "t2", "c1", "working")) == RecordedOwners(ANN, ANN)

    @pytest.mark.parametrize("other", [GLOBEX, BOB], ids=["another tenant", "another principal"])
    async def test_a_context_of_anothers_task_is_not_written_down(self, store: Store, other: Owner) -> None:
        await store.record("crm", sighting(ANN, "t1", state="working"))
        before = await all_rows(store)
        for context in ("c1", "c1", "c2"):
            foreign = sighting(other, "t1", context, "completed", at=NOW + HOUR, apart=True)
            assert await store.record("crm", foreign) == RecordedOwners(ANN, None)
            assert await all_rows(store) == before
        assert await store.record("crm", sighting(ANN, "t1", "c1")) == RecordedOwners(ANN, ANN)

    async def test_a_task_in_a_prefixed_context_is_recorded_although_another_owns_the_context(
        self, store: Store
    ) -> None:
        await store.record("crm", sighting(GLOBEX, "t1", "c1"))
        assert await store.record("crm", sighting(ANN, "t2", "c1", "working", prefixed=True)) == RecordedOwners(
            ANN, GLOBEX
        )
        assert await known(store, "t2") == Task(ANN, "c1", "working", made=NOW, seen=NOW)
        assert await store.context("crm", "c1") == GLOBEX
        assert await store.record("crm", sighting(ANN, "t1", "c1", prefixed=True)) == RecordedOwners(GLOBEX, GLOBEX)

    async def test_one_of_many_concurrent_callers_owns_a_task(self, store: Store) -> None:
        owners = [Owner(f"tenant-{number}") for number in range(20)]
        met = await asyncio.gather(*(store.record("crm", sighting(owner, "t1", "c1")) for owner in owners))
        assert len(set(met)) == 1
        assert met[0] == RecordedOwners(await owner_of(store, "t1"), await store.context("crm", "c1"))

    # ---- Counts --------------------------------------------------------------------------------------------------

    async def test_open_tasks_are_those_that_are_not_over(self, store: Store) -> None:
        states = [*OPEN, "completed", "failed", "canceled", "rejected"]
        for number, state in enumerate(states):
            await store.record(f"scope-{number % 2}", sighting(BOB, f"t{number}", "c1", state))
        assert await store.open_tasks("acme") == len(OPEN)
        assert await store.open_tasks("globex") == 0
        await store.record("scope-0", sighting(ANN, "t0", state="completed"))
        assert await store.open_tasks("acme") == len(OPEN) - 1
        await store.record("scope-1", sighting(GLOBEX, "t1", state="completed"))
        assert await store.open_tasks("acme") == len(OPEN) - 1
        assert await store.open_tasks("globex") == 0

    async def test_a_task_that_is_over_stays_so(self, store: Store) -> None:
        for state in ("working", "completed", "working", "", "submitted"):
            await store.record("crm", sighting(ANN, "t1", "c1", state))
        assert await store.open_tasks("acme") == 0
        [task] = await store.tasks("crm", ("t1",))
        assert task is not None
        assert task.state == "completed"
        await store.record("crm", sighting(ANN, "t1", state="failed"))
        [task] = await store.tasks("crm", ("t1",))
        assert task is not None
        assert task.state == "failed"

    async def test_tasks_are_counted_by_scope_owner_and_context(self, store: Store) -> None:
        owners = (ANN, ANN, BOB, ACME, GLOBEX)
        for number, (owner, context) in enumerate(itertools.product(owners, ("", "c1", "c2"))):
            # Tenants have one word for two contexts by the marks before them.
            await store.record("crm", sighting(owner, f"t{number}", context, prefixed=True))
        assert [await store.count("crm", owner) for owner in (ACME, ANN, BOB, GLOBEX)] == [12, 6, 3, 3]
        assert [await store.count("crm", owner, "c1") for owner in (ACME, ANN, BOB, GLOBEX)] == [4, 2, 1, 1]
        assert await store.count("crm", Owner("acme", "carol")) == 0
        assert await store.count("crm", ACME, "c3") == 0
        assert await store.count("erp", ACME) == 0
        await store.record("crm", sighting(ANN, "t0", "c1"))
        assert [await store.count("crm", owner, "c1") for owner in (ACME, ANN, BOB, GLOBEX)] == [5, 3, 1, 1]
        assert await store.count("crm", ANN) == 6

    # ---- Notes ---------------------------------------------------------------------------------------------------

    async def test_a_note_is_what_was_kept_last(self, store: Store) -> None:
        assert await store.note("name", "n1") is None
        for value in (b"one", b"\0\xff" * 1000, b""):
            await store.keep(Note("name", "n1", value, "acme"))
            assert await store.note("name", "n1") == value
        assert await store.note("name", "n2") is None
        assert await store.note("hook", "n1") is None

    async def test_a_note_is_dropped_once(self, store: Store) -> None:
        await store.keep(Note("name", "n1", b"one", group="g1", due=1.0))
        assert [await store.drop("name", "n1") for _ in range(2)] == [True, False]
        assert await store.note("name", "n1") is None
        assert await store.group("name", "g1", 10) == []
        assert await store.due("name", 2.0, 10, 30.0) == []

    async def test_the_first_note_settles_it(self, store: Store) -> None:
        assert await store.settle(Note("name", "n1", b"one")) == b"one"
        assert await store.settle(Note("name", "n1", b"two", group="g1")) == b"one"
        assert await store.note("name", "n1") == b"one"
        assert await store.group("name", "g1", 10) == []
        values = [str(number).encode() for number in range(20)]
        settled = await asyncio.gather(*(store.settle(Note("name", "n2", value)) for value in values))
        assert len(set(settled)) == 1

    async def test_a_note_past_its_time_is_none(self, store: Store) -> None:
        for note in (
            Note("name", "n1", b"old", "acme", "g1", 1.0, NOW - 10),
            Note("name", "n2", b"new", until=NOW + DAY),
        ):
            await store.keep(note)
        assert await store.note("name", "n1") is None
        assert await store.note("name", "n2") == b"new"
        assert await store.group("name", "g1", 10) == []
        assert await store.due("name", NOW, 10, 30.0) == []
        assert [note.key for note in await all_notes(store)] == ["n2"]
        assert await store.settle(Note("name", "n1", b"newer")) == b"newer"
        assert await store.note("name", "n1") == b"newer"

    async def test_a_group_is_listed_by_key(self, store: Store) -> None:
        for key in ("k3", "k1", "k2"):
            await store.keep(Note("hook", key, key.encode(), group="g1"))
        await store.keep(Note("hook", "k0", b"other group", group="g2"))
        await store.keep(Note("name", "k0", b"other kind", group="g1"))
        await store.keep(Note("hook", "k4", b"no group"))
        assert await store.group("hook", "g1", 10) == [("k1", b"k1"), ("k2", b"k2"), ("k3", b"k3")]
        assert await store.group("hook", "g1", 2) == [("k1", b"k1"), ("k2", b"k2")]
        assert await store.group("hook", "", 10) == []
        await store.keep(Note("hook", "k1", b"moved", group="g2"))
        assert await store.group("hook", "g1", 10) == [("k2", b"k2"), ("k3", b"k3")]
        assert await store.group("hook", "g2", 10) == [("k0", b"other group"), ("k1", b"moved")]

    async def test_notes_are_taken_when_they_are_due_the_longest_due_first(self, store: Store) -> None:
        for key, due in (("late", NOW + 1.5), ("never", 0.0), ("first", NOW - 2.25), ("second", NOW - 2.0)):
            await store.keep(Note("out", key, key.encode(), due=due))
        await store.keep(Note("other", "k", b"", due=1.0))
        assert await store.due("out", NOW, 10, 30.0) == [("first", b"first"), ("second", b"second")]
        assert await store.due("out", NOW + 1.0, 10, 30.0) == []
        assert await store.due("out", NOW + 2.0, 10, 30.0) == [("late", b"late")]
        assert await store.due("out", NOW + 29.5, 10, 30.0) == []
        assert {key for key, _ in await store.due("out", NOW + 30.0, 10, 30.0)} == {"first", "second"}

    async def test_each_due_note_goes_to_one_of_several_takers(self, store: Store) -> None:
        keys = [f"k{number:02}" for number in range(50)]
        for number, key in enumerate(keys):
            await store.keep(Note("out", key, b"", due=NOW - 50.0 + number))
        first = await store.due("out", NOW, 20, 30.0)
        assert [key for key, _ in first] == keys[:20]
        rest = await asyncio.gather(*(store.due("out", NOW, 7, 30.0) for _ in range(6)))
        assert sorted(key for taken in rest for key, _ in taken) == keys[20:]

    async def test_a_taken_note_can_be_postponed_or_dropped(self, store: Store) -> None:
        for key in ("k1", "k2"):
            await store.keep(Note("out", key, b"", due=NOW - 1.0))
        assert len(await store.due("out", NOW, 10, 30.0)) == 2
        await store.keep(Note("out", "k1", b"again", due=NOW + 300.0))
        await store.drop("out", "k2")
        assert await store.due("out", NOW + 299.0, 10, 30.0) == []
        assert await store.due("out", NOW + 300.0, 10, 30.0) == [("k1", b"again")]

    # ---- Upkeep --------------------------------------------------------------------------------------------------

    async def test_tasks_unseen_for_long_are_forgotten(self, store: Store) -> None:
        bounds = Bounds(ended=10 * HOUR, open=20 * HOUR)
        await store.record("crm", sighting(ACME, "t1", "c1", "completed"))
        await store.record("crm", sighting(ACME, "t2", "c2", "working"))
        await store.record("crm", sighting(ACME, "t3", "c3", "completed", at=NOW + 5 * HOUR))
        assert await store.expire(NOW + 9 * HOUR, bounds, 500) == 0
        assert await store.expire(NOW + 11 * HOUR, bounds, 500) == 1
        assert await which(store, ["t1", "t2", "t3"]) == ["t2", "t3"]
        assert await store.context("crm", "c1") == ACME
        assert await store.expire(NOW + 21 * HOUR, bounds, 500) == 4
        assert [(row.id, row.task is None) for row in await all_rows(store)] == [("c3", True)]
        assert await store.open_tasks("acme") == 0
        assert await store.count("crm", ACME) == 0

    async def test_a_forgotten_task_may_get_another_owner(self, store: Store) -> None:
        await store.record("crm", sighting(ACME, "t1", "c1", "completed"))
        assert await store.expire(NOW + HOUR, Bounds(ended=1, open=1), 500) == 2
        assert await store.record("crm", sighting(GLOBEX, "t1", "c1")) == RecordedOwners(GLOBEX, GLOBEX)

    async def test_a_tenant_beyond_its_bounds_loses_what_is_over_and_then_what_is_oldest(self, store: Store) -> None:
        bounds = Bounds(tasks=4, contexts=2)
        await fill(store, ["t0", "t1", "t2", "t3"])
        await fill(store, ["t4", "t5"], state="completed", at=NOW + 10)
        await fill(store, ["g0", "g1"], GLOBEX, "completed")
        for number in range(3):
            await store.record("crm", sighting(ACME, context=f"c{number}", at=NOW + number))
        await store.record("crm", sighting(ACME, "t0", state="input-required", at=NOW + 20))
        assert await store.expire(NOW + 30, bounds, 500) == 3
        assert await which(store, ["t0", "t1", "t2", "t3", "t4", "t5", "g0", "g1"]) == [
            "t0",
            "t1",
            "t2",
            "t3",
            "g0",
            "g1",
        ]
        assert [await store.context("crm", f"c{number}") for number in range(3)] == [None, ACME, ACME]
        assert await store.expire(NOW + 30, Bounds(tasks=3, contexts=2), 500) == 1
        assert await which(store, ["t0", "t1", "t2", "t3"]) == ["t0", "t2", "t3"]
        assert await store.open_tasks("acme") == 3

    async def test_no_more_is_forgotten_at_a_time_than_was_allowed(self, store: Store) -> None:
        await fill(store, [f"t{number}" for number in range(25)])
        await fill(store, [f"g{number}" for number in range(5)], GLOBEX, "completed")
        took = [await store.expire(NOW + HOUR, Bounds(ended=1, open=10 * HOUR, tasks=7), 10) for _ in range(4)]
        assert took == [10, 10, 3, 0]
        assert await which(store, [f"t{number}" for number in range(25)]) == [f"t{number}" for number in range(18, 25)]

    async def test_open_tasks_are_counted_by_tenant_and_scope(self, store: Store) -> None:
        for scope, owner, task, state in (
            ("crm", ACME, "1", "working"),
            ("crm", ACME, "2", ""),
            ("crm", ACME, "3", "completed"),
            ("crm/a", ACME, "1", "input-required"),
            ("crm", GLOBEX, "4", "submitted"),
            ("hr", GLOBEX, "5", "failed"),
        ):
            await store.record(scope, sighting(owner, task, "", state))
        assert await store.open_by_scope() == {("acme", "crm"): 2, ("acme", "crm/a"): 1, ("globex", "crm"): 1}

    async def test_figures_tell_what_is_held_of_each_tenant(self, store: Store) -> None:
        await fill(store, ["t1", "t2"])
        await fill(store, ["t3"], state="completed")
        await store.record("erp", sighting(GLOBEX, context="c1"))
        await store.keep(Note("name", "n1", b"", "globex"))
        await store.keep(Note("name", "n1", b"", "initech"))
        figures = {found.tenant: found for found in await store.figures() if found.tenant}
        told = {tenant: (it.tasks, it.open, it.contexts, it.notes) for tenant, it in figures.items()}
        assert told == {"acme": (3, 2, 0, 0), "globex": (0, 0, 1, 0), "initech": (0, 0, 0, 1)}

    async def test_erasing_a_tenant_removes_all_of_its_records_and_no_others(self, store: Store) -> None:
        for owner in (ANN, BOB, GLOBEX):
            name = owner.principal or owner.tenant
            await store.record("crm", sighting(owner, name, name, "working"))
            await store.keep(Note("name", name, b"", owner.tenant, "g1", 1.0))
        assert await store.erase("acme") == 6
        assert await store.erase("acme") == 0
        assert await which(store, ["ann", "bob", "globex"]) == ["globex"]
        assert await store.context("crm", "ann") is None
        assert await store.note("name", "ann") is None
        assert await store.group("name", "g1", 10) == [("globex", b"")]
        assert await store.due("name", 2.0, 10, 30.0) == [("globex", b"")]
        assert [await store.open_tasks(tenant) for tenant in ("acme", "globex")] == [0, 1]
        assert await store.count("crm", ACME) == 0
        assert [found.tenant for found in await store.figures()] == ["globex"]
        assert await store.record("crm", sighting(GLOBEX, "ann", "ann")) == RecordedOwners(GLOBEX, GLOBEX)

    async def test_rows_carry_the_ledger_to_another_store(self, store: Store) -> None:
        for number, scope in itertools.product(range(5), ("b", "a")):
            met = sighting(ANN, f"t{number}", f"c{number}", "working", at=NOW - number, replica="r", dialect="d")
            await store.record(scope, met)
        await store.record("a", sighting(ACME, "t0", state="completed", at=NOW + HOUR))
        rows = await all_rows(store, 3)
        order = [("task" if row.task else "context", row.scope, row.id) for row in rows]
        assert order == sorted(order)
        assert len(order) == len(set(order)) == 20
        assert rows == await all_rows(store)
        assert all(row.context == ANN for row in rows if row.task is None)
        assert all(row.seen == row.task.seen for row in rows if row.task)

        await store.erase("acme")
        assert await store.put_rows(rows) == 20
        assert await store.put_rows(rows) == 0
        assert await all_rows(store) == rows
        assert await store.open_tasks("acme") == 9
        assert await store.count("a", ANN) == 5
        assert await store.count("a", ANN, "c1") == 1

    async def test_imported_rows_keep_existing_owners(self, store: Store) -> None:
        await store.record("crm", sighting(ACME, "t1", "c1", "working"))
        rows = [
            Row("crm", "t1", task=Task(GLOBEX, state="completed", made=1, seen=1), seen=1),
            Row("crm", "c1", context=GLOBEX, seen=1),
            Row("crm", "t2", task=Task(GLOBEX, state="completed", made=1, seen=1), seen=1),
            Row("crm", "a" * (LONGEST_ID + 1), context=GLOBEX, seen=1),
        ]
        assert await store.put_rows(rows) == 1
        assert [await owner_of(store, task) for task in ("t1", "t2")] == [ACME, GLOBEX]
        assert await store.context("crm", "c1") == ACME

    async def test_imported_rows_are_forgotten_in_the_order_they_were_seen(self, store: Store) -> None:
        seen = {"t1": NOW - 1, "t2": NOW - 3, "t3": NOW - 2}
        rows = [Row("crm", id_, task=Task(ACME, made=at, seen=at), seen=at) for id_, at in seen.items()]
        await store.put_rows(rows)
        assert await store.expire(NOW, Bounds(tasks=1), 500) == 2
        assert await which(store, list(seen)) == ["t1"]

    async def test_notes_carry_what_is_beside_the_ledger_to_another_store(self, store: Store) -> None:
        names = itertools.product(("out", "in"), ("k2", "k1", "k3", "\0", "ä"))
        written = [Note(kind, key, key.encode(), "acme", "g1", NOW + 0.5, NOW + DAY) for kind, key in names]
        for note in written:
            await store.keep(note)
        wanted = sorted(written, key=lambda note: (note.kind, note.key))
        assert await all_notes(store, 3) == wanted
        assert await all_notes(store) == wanted
