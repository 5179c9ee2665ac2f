"""Carrying arrivals over into the tables: what is told meanwhile, who is overtaken, and when it is done."""

import contextlib
import itertools
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.tasks import sqlite_carrying
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_carrying import Carrier, _parts, _put, arrivals_of, carry_over, settle
from gateway.tasks.sqlite_layout import HEAD
from gateway.tasks.sqlite_schema import TASK, connect
from gateway.tasks.sqlite_young import Entry
from gateway.tasks.store import OPEN, Bounds, Met
from tests.tasks.asking import ACME, ANN, DAY, GLOBEX, NOW, STRANGE, sighting
from tests.tasks.sqlite_alone import ended, opened

Between = Callable[[Callable[[], None]], None]


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    db = connect(path, 0.25, 0.0)
    yield db
    db.close()


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """What is done between two transactions of one entry each."""

    def does(what: Callable[[], None]) -> None:
        clock = SimpleNamespace(sleep=lambda _: what(), monotonic=time.monotonic, time=time.time)
        monkeypatch.setattr(sqlite_carrying, "time", clock)
        monkeypatch.setattr(sqlite_carrying, "_AT_A_TIME", 1)
        monkeypatch.setattr(sqlite_carrying, "_FEW", 0)

    return does


def carry(store: SqliteStore) -> None:
    with store._file as db:
        carry_over(db, store._of(db))


def young(store: SqliteStore) -> int:
    """How many entries have arrived and are not carried over for sure."""
    with store._file as db:
        return len(store._of(db).current().entries)


def rows(store: SqliteStore) -> dict[str, tuple[str, int]]:
    """The state and the age of what is in the tables."""
    with store._file as db:
        return {name: (state, aged) for name, state, aged in db.execute("SELECT id, state, aged FROM record")}


def test_what_is_counted_is_so_once_all_the_time(store: SqliteStore, other: SqliteStore, between: Between) -> None:
    for number in range(5):
        store.meet("crm", sighting(ANN, f"t{number}", "c1", "working"))
    counted: list[object] = []

    def count() -> None:
        counted.extend((each.open_tasks("acme"), each.count("crm", ANN, "c1")) for each in (store, other))

    between(count)
    carry(store)
    count()
    assert len(counted) == 2 * (6 + 1)
    assert set(counted) == {(5, 5)}
    assert young(store) == young(other) == 0


def test_what_changes_while_it_is_carried_over_is_carried_over_again(
    store: SqliteStore, other: SqliteStore, between: Between
) -> None:
    store.meet("crm", sighting(ACME, "t1", "c1", "working"))
    store.meet("crm", sighting(ACME, "t2", "c2", "working"))
    told: list[Met] = []

    def change() -> None:
        if len(told) < 3:
            told.append(other.meet("crm", sighting(ACME, f"t{len(told)}", state="completed")))
        assert store.meet("crm", sighting(GLOBEX, "t1", "c1")) == Met(ACME, ACME)

    between(change)
    carry(store)
    assert told == [Met(ACME)] * 3
    assert young(store) == 0
    assert {name: state for name, (state, _) in rows(store).items()} == {
        "t0": "completed", "t1": "completed", "t2": "completed", "c1": "", "c2": ""
    }  # fmt: skip


@pytest.mark.parametrize("how", ["settle", "carry"])
def test_who_is_overtaken_writes_nothing_old(
    store: SqliteStore, other: SqliteStore, between: Between, how: str
) -> None:
    for number in range(4):
        store.meet("crm", sighting(ACME, f"t{number}", state="working"))
    overtaking: list[str] = []

    def overtake() -> None:
        if not overtaking:
            overtaking.append(how)
            for number in range(4):
                other.meet("crm", sighting(ACME, f"t{number}", state="completed"))
            if how == "settle":
                with other._file as db:
                    settle(db, other._of(db))
            else:
                carry(other)

    between(overtake)
    carry(store)
    assert {state for state, _ in rows(other).values()} == {"completed"}
    assert young(store) == young(other) == 0
    assert store.open_tasks("acme") == 0


def test_what_is_erased_while_it_is_carried_over_does_not_come_back(
    store: SqliteStore, other: SqliteStore, between: Between
) -> None:
    for number in range(4):
        store.meet("crm", sighting(ACME, f"t{number}", f"c{number}", "working"))
    erased: list[int] = []

    def erase() -> None:
        if not erased:
            erased.append(0)
            erased.append(other.erase("acme"))

    between(erase)
    carry(store)
    assert erased == [0, 8]
    assert rows(store) == {}
    assert store.tasks("crm", ["t0"]) == other.tasks("crm", ["t0"]) == [None]
    assert store.meet("crm", sighting(GLOBEX, "t0")) == Met(GLOBEX)


def test_nothing_is_forgotten_while_it_is_carried_over(
    store: SqliteStore, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        store.meet("crm", sighting(ACME, f"t{number}", f"c{number}", "completed"))
    monkeypatch.setattr("gateway.tasks.sqlite._AT_ONCE_OVER", 0)
    between(lambda: _none_forgotten(store))
    carry(store)
    assert store.expire(NOW + DAY, Bounds(ended=1, open=1), 500) == 8
    assert rows(store) == {}


def _none_forgotten(store: SqliteStore) -> None:
    for bounds in (Bounds(ended=1, open=1), Bounds(tasks=1, contexts=1)):
        assert store.expire(NOW + DAY, bounds, 500) == 0


def test_a_context_that_another_task_comes_to_is_aged_by_itself(store: SqliteStore) -> None:
    store.meet("crm", sighting(ACME, "t1", "c1"))
    store.meet("crm", sighting(ACME, "t2", "c2"))
    store.meet("crm", sighting(ACME, "t3", "c2"))
    with store._file as db:
        settle(db, store._of(db))
    assert [rows(store)[context][1] for context in ("c1", "c2")] == [0, 1]


def test_after_a_kill_between_the_tables_and_the_arrivals_they_are_carried_over_again(
    store: SqliteStore, other: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.meet("crm", sighting(ACME, "t1", "c1", "working"))
    with monkeypatch.context() as killed:
        killed.setattr("gateway.tasks.sqlite_arrivals.Arrivals.renew", lambda *_: None)
        carry(store)
    assert young(other) == 2
    assert other.meet("crm", sighting(ACME, "t1", "c1", "completed")) == Met(ACME, ACME)
    other.meet("crm", sighting(ACME, "t2", state="working"))
    assert store.open_tasks("acme") == other.open_tasks("acme") == 1
    carry(other)
    assert store.open_tasks("acme") == other.open_tasks("acme") == 1
    assert rows(store)["t1"] == ("completed", 1)
    assert young(store) == 0


def test_arrivals_that_are_newer_than_the_tables_end_in_an_epoch_of_their_own(store: SqliteStore) -> None:
    store.meet("crm", sighting(ACME, "t1", state="working"))
    carry(store)
    store.meet("crm", sighting(ACME, "t2", state="working"))
    with store._file as db:
        # As a power cut may leave it.
        db.execute("UPDATE arrivals SET epoch = 0")
        epoch = store._of(db).epoch
    carry(store)
    assert store._arrivals is not None
    assert store._arrivals.epoch > epoch
    assert store.open_tasks("acme") == 2


@pytest.mark.parametrize("seed", range(3))
def test_each_column_of_what_is_carried_over_is_as_it_arrived(db: sqlite3.Connection, seed: int) -> None:
    chance = random.Random(seed)
    texts = (*STRANGE, "", "1", "NULL", "completed", "Working", "working ", "working\0", *sorted(OPEN))
    wanted: dict[tuple[object, ...], tuple[object, ...]] = {}
    for epoch in (1, 2**40):
        some: dict[tuple[object, ...], Entry] = {}
        for _ in range(400):
            kind, (scope, name, context, state, replica, dialect) = chance.randrange(2), chance.choices(texts, k=6)
            made, seen, aged = chance.choice((0, 2**40)), chance.randrange(9), chance.randrange(2)
            some[kind, scope, name] = Entry(
                kind, scope, name, "acme", "ann", context, state, replica, dialect, made, seen, aged
            )
        for part in _parts([*some.values()]):
            _put(db, part, epoch)
        for key, each in some.items():
            # What was told of it first stays; of the rest it is the last.
            first = wanted[key][4:7] if key in wanted else (each.replica, each.dialect, each.made)
            is_open = int(each.kind == TASK and each.state in OPEN)
            wanted[key] = ("acme", "ann", each.context, each.state, *first, each.seen, each.aged, is_open, epoch)
    found = db.execute(
        "SELECT kind, scope, id, tenant, principal, context, state, replica, dialect, made, seen, aged, open, epoch"
        " FROM record"
    )
    assert {row[:3]: row[3:] for row in found} == wanted


def test_few_statements_are_kept_for_what_is_carried_over(db: sqlite3.Connection) -> None:
    """Each takes up to 150 KiB, and Python keeps 128 of a connection."""
    made = set[int]()
    db.set_trace_callback(lambda text: made.add(text.count("), (")))
    for number in range(1, 201):
        _put(db, [Entry(1, "crm", f"t{number}-{n}", "acme", "", "", "", "", "", 1, 1) for n in range(number)], 1)
    assert len(made) <= 9
    assert db.execute("SELECT count(*) FROM record").fetchone() == (200 * 201 / 2,)


def test_a_round_carries_over_what_is_much_or_has_been_there_for_long(
    path: Path, db: sqlite3.Connection, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(
        sqlite_carrying,
        "time",
        SimpleNamespace(sleep=lambda _: None, monotonic=lambda: clock[0], time=lambda: clock[0]),
    )
    carrier = Carrier(path, many=HEAD + 500, later=30.0)
    carrier.round(db)
    store.meet("crm", sighting(task="t1"))
    carrier.round(db)
    clock[0] += 29.9
    carrier.round(db)
    assert rows(store) == {}
    clock[0] += 0.1
    carrier.round(db)
    assert list(rows(store)) == ["t1"]
    carrier.round(db)
    for number in range(2, 12):
        store.meet("crm", sighting(task=f"t{number}"))
    carrier.round(db)
    assert len(rows(store)) == 11
    carrier.let_go()


def test_whoever_leaves_carries_over_and_removes_the_file_and_others_go_on_with_another(
    path: Path, db: sqlite3.Connection, store: SqliteStore
) -> None:
    store.meet("crm", sighting(task="t1"))
    file = next(each for each in path.parent.iterdir() if each.name not in ("state.db", "state.db-wal", "state.db-shm"))
    carrier = Carrier(path)
    carrier.leave(db)
    assert not file.exists()
    assert list(rows(store)) == ["t1"]
    assert store.meet("crm", sighting(GLOBEX, "t1")) == Met(ACME)
    assert store.meet("crm", sighting(GLOBEX, "t2")) == Met(GLOBEX)
    assert file.exists()
    arrivals = arrivals_of(db, path)
    assert [entry.id for entry in arrivals.current().entries.values()] == ["t2"]
    arrivals.close()


def test_while_somebody_carries_over_the_threads_of_others_leave_it_alone_and_for_no_longer_than_a_turn(
    path: Path, db: sqlite3.Connection, store: SqliteStore, other: SqliteStore, between: Between
) -> None:
    carrier = Carrier(path, many=0)
    store.meet("crm", sighting(ACME, "t1", "c1"))
    found: list[int] = []

    def look() -> None:
        if not found:
            other.meet("crm", sighting(ACME, "t2", "c2"))
            carrier.round(db)
            found.append(young(other))

    between(look)
    carry(store)
    assert found == [4]
    assert young(other) == 0
    other.meet("crm", sighting(ACME, "t3"))
    for until, left in ((time.time() + 8, 1), (time.time() + 3600, 0)):
        db.execute("UPDATE arrivals SET until = ?", (until,))
        carrier.round(db)
        assert young(other) == left
    carrier.let_go()


def test_where_another_one_left_and_removed_the_file_the_next_one_is_carried_over_as_well(
    path: Path, db: sqlite3.Connection, store: SqliteStore
) -> None:
    carrier, leaving = Carrier(path, many=0), Carrier(path)
    store.meet("crm", sighting(task="t1"))
    carrier.round(db)
    with contextlib.closing(connect(path, 0.25, 1.0)) as its:
        leaving.leave(its)
    store.meet("crm", sighting(task="t2"))
    carrier.round(db)
    assert young(store) == 0
    assert list(rows(store)) == ["t1", "t2"]
    carrier.let_go()


def test_it_ends_though_others_write_faster_than_few_are_left(
    store: SqliteStore, other: SqliteStore, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count()

    def write() -> None:
        for _ in range(3):
            other.meet("crm", sighting(task=f"t{next(numbers)}"))

    between(write)
    monkeypatch.setattr(sqlite_carrying, "_AT_A_TIME", 100)
    monkeypatch.setattr(sqlite_carrying, "_FEW", 1)
    store.meet("crm", sighting(task="t"))
    carry(store)
    assert young(other) == 0
    assert len(rows(store)) == next(numbers) + 1


def test_who_could_not_carry_over_leaves_its_turn_to_the_next(
    path: Path, db: sqlite3.Connection, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    carrier = Carrier(path, many=0)
    store.meet("crm", sighting(task="t1"))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_carrying, "_put", fails)
        with pytest.raises(sqlite3.OperationalError):
            carrier.round(db)
    carrier.round(db)
    assert young(store) == 0
    carrier.let_go()


def test_what_is_much_is_sorted_a_part_at_a_time_and_all_of_it_carried_over(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_carrying, "_SORTED", 7)
    monkeypatch.setattr(sqlite_carrying, "_AT_A_TIME", 3)
    for number in range(40):
        store.meet("crm", sighting(task=f"t{number * 7 % 40:02}"))
    carry(store)
    assert list(rows(store)) == [f"t{number:02}" for number in range(40)]


def test_by_whichever_link_a_file_is_known_what_has_arrived_is_the_same(path: Path, store: SqliteStore) -> None:
    store.meet("crm", sighting(ACME, "t1"))
    link = path.parent / "elsewhere"
    link.mkdir()
    (link / "linked.db").symlink_to(path)
    linked = opened(link / "linked.db")
    assert linked.meet("crm", sighting(GLOBEX, "t1")) == Met(ACME)
    assert [each.name for each in link.iterdir()] == ["linked.db"]
    ended(linked)
