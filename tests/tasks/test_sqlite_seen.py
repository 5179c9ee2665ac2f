"""The filter of what may be in the tables: it forgets nothing, and knows when it did not hear of all."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.tasks import sqlite_seen
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_carrying import settle
from gateway.tasks.sqlite_schema import connect
from gateway.tasks.sqlite_seen import Bits, Seen, Succession
from gateway.tasks.store import Met, Row
from tests.tasks.asking import ACME, GLOBEX, NOW, sighting
from tests.tasks.sqlite_world import world

MANY = 3_000


@pytest.fixture
def thread(path: Path) -> Iterator[sqlite3.Connection]:
    """The connection of the thread."""
    db = connect(path, 0.25, 0.0)
    yield db
    db.close()


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


def unavailable(_: int) -> Bits:
    raise MemoryError


def rows(db: sqlite3.Connection) -> int:
    (number,) = db.execute("SELECT count(*) FROM record").fetchone()
    return int(number)


def seen(store: SqliteStore) -> Seen:
    with store._file as db:
        return store._of(db).seen


def get_ready(store: SqliteStore, thread: sqlite3.Connection) -> None:
    """As the first calls and rounds do."""
    for number in range(2):
        store._carrier.round(thread)
        store.meet("warm", sighting(ACME, f"t{number}"))
    store._carrier.round(thread)
    store.meet("warm", sighting(ACME, "t0"))
    assert seen(store).ready


def looks(store: SqliteStore) -> list[str]:
    """The statements that the store makes from now on."""
    made: list[str] = []
    with store._file as db:
        db.set_trace_callback(made.append)
    return made


def carry_over(store: SqliteStore, thread: sqlite3.Connection) -> None:
    """In the thread, as many at once as there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._carrier, "_many", 0)
        store._carrier.round(thread)


def test_what_was_taken_in_is_held_and_of_others_nearly_nothing() -> None:
    bits = Bits(MANY)
    for number in range(MANY):
        bits.add(hash((1, "crm", f"t{number}")))
    assert all(bits.holds(hash((1, "crm", f"t{number}"))) for number in range(MANY))
    wrong = sum(bits.holds(hash((0, "crm", f"t{number}"))) for number in range(MANY))
    assert wrong < MANY / 50
    assert bits.left >= 0


def test_what_is_new_is_not_looked_for(store: SqliteStore, thread: sqlite3.Connection) -> None:
    get_ready(store, thread)
    made = looks(store)
    assert store.meet("crm", sighting(ACME, "new", "c-new")) == Met(ACME, ACME)
    assert made == []
    assert store.meet("warm", sighting(ACME, "t0", "c-other")) == Met(ACME, ACME)


def test_whose_something_is_stays_known_while_it_is_carried_over(
    store: SqliteStore, thread: sqlite3.Connection
) -> None:
    """In the arrivals, in the tables, and in those of an epoch that is long over."""
    store.meet("crm", sighting(ACME, "before", "c-before"))
    carry_over(store, thread)
    get_ready(store, thread)
    for epoch in range(3):
        store.meet("crm", sighting(ACME, f"t-{epoch}", f"c-{epoch}"))
        for _ in range(2):
            assert store.meet("crm", sighting(GLOBEX, f"t-{epoch}", f"d-{epoch}")) == Met(ACME)
            assert store.meet("crm", sighting(GLOBEX, f"u-{epoch}", f"c-{epoch}")).context == ACME
            assert store.meet("crm", sighting(GLOBEX, "before")) == Met(ACME)
            carry_over(store, thread)
    assert seen(store).ready
    assert store.meet("crm", sighting(GLOBEX, "t-0")) == Met(ACME)


def test_what_this_process_carries_over_by_itself_leaves_no_doubt(
    store: SqliteStore, thread: sqlite3.Connection
) -> None:
    get_ready(store, thread)
    store.meet("crm", sighting(ACME, "t1"))
    with store._file as db:
        settle(db, store._of(db))
    assert store.meet("crm", sighting(GLOBEX, "t1")) == Met(ACME)
    assert seen(store).ready


@pytest.mark.parametrize("who", ["itself", "another"])
def test_what_another_process_wrote_and_was_carried_over_unheard_is_looked_for(
    store: SqliteStore, other: SqliteStore, thread: sqlite3.Connection, who: str
) -> None:
    """Also where this process's own thread has carried it over, of which its loop had not heard."""
    get_ready(store, thread)
    other.meet("crm", sighting(ACME, "theirs", "c-theirs"))
    carry_over(store if who == "itself" else other, thread)
    assert store.meet("crm", sighting(GLOBEX, "theirs")) == Met(ACME)
    assert not seen(store).ready


def test_what_another_wrote_and_was_heard_of_is_known(
    store: SqliteStore, other: SqliteStore, thread: sqlite3.Connection
) -> None:
    get_ready(store, thread)
    other.meet("crm", sighting(ACME, "theirs", "c-theirs"))
    assert store.meet("crm", sighting(GLOBEX, "theirs")) == Met(ACME)
    carry_over(store, thread)
    assert store.meet("crm", sighting(GLOBEX, "theirs")) == Met(ACME)
    assert seen(store).ready


@pytest.mark.parametrize("who", ["itself", "another"])
def test_rows_that_are_put_into_the_tables_are_looked_for(
    store: SqliteStore, other: SqliteStore, thread: sqlite3.Connection, who: str
) -> None:
    get_ready(store, thread)
    row = Row("crm", "moved", context=ACME, seen=NOW)
    assert (store if who == "itself" else other).put_rows([row]) == 1
    assert store.meet("crm", sighting(GLOBEX, "", "moved")).context == ACME
    assert not seen(store).ready


def test_it_is_filled_again_after_a_while_and_what_came_meanwhile_is_in_it(
    path: Path, store: SqliteStore, other: SqliteStore, thread: sqlite3.Connection
) -> None:
    get_ready(store, thread)
    clock = [0.0]
    told = seen(store)
    told._clock = lambda: clock[0]
    for number in range(2):
        other.meet("crm", sighting(ACME, f"theirs-{number}"))
        carry_over(other, thread)
        store.meet("crm", sighting(ACME, f"mine-{number}"))
        assert not told.ready
        store._carrier.round(thread)
        store.meet("crm", sighting(ACME, f"soon-{number}"))
        assert not told.ready
        # Twice as long the second time.
        clock[0] += 60.0 * (number + 1)
        store._carrier.round(thread)
        store.meet("crm", sighting(ACME, f"begun-{number}"))
        store.meet("crm", sighting(ACME, f"filling-{number}"))
        store._carrier.round(thread)
        store.meet("crm", sighting(ACME, f"ready-{number}"))
        assert told.ready
        for name in ("theirs", "mine", "soon", "begun", "filling", "ready"):
            assert store.meet("crm", sighting(GLOBEX, f"{name}-{number}")) == Met(ACME), name
        carry_over(store, thread)
        for name in ("theirs", "mine", "soon", "begun", "filling", "ready"):
            assert store.meet("crm", sighting(GLOBEX, f"{name}-{number}")) == Met(ACME), name
        assert told.ready


def test_large_tables_are_gone_through_in_several_rounds(
    store: SqliteStore, thread: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_seen, "_AT_A_TIME", 10)
    monkeypatch.setattr(sqlite_seen, "_PAGES", 2)
    for number in range(30):
        store.meet("crm", sighting(ACME, f"t{number}", f"c{number}"))
    carry_over(store, thread)
    rounds = 0
    while not seen(store).ready:
        store._carrier.round(thread)
        store.meet("crm", sighting(ACME, "t0"))
        rounds += 1
    assert rounds >= 4
    for number in range(30):
        assert store.meet("crm", sighting(GLOBEX, f"t{number}")) == Met(ACME)


@pytest.mark.parametrize("fault", ["many rows", "no memory", "a damaged page"])
def test_tables_that_cannot_be_gone_through_have_none_until_later_and_keep_nobody_from_carrying_over(
    store: SqliteStore,
    thread: sqlite3.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    for number in range(3):
        store.meet("crm", sighting(ACME, f"t{number}"))
    carry_over(store, thread)
    told, clock = seen(store), [0.0]
    told._clock = lambda: clock[0]
    with monkeypatch.context() as patch:
        if fault == "many rows":
            patch.setattr(sqlite_seen, "MOST_ROWS", 2)
        for number in range(4):
            store._carrier.round(thread)
            store.meet("crm", sighting(ACME, f"u{number}"))
            if fault == "no memory":
                patch.setattr(sqlite_seen, "Bits", unavailable)
            if fault == "a damaged page":
                patch.setattr(sqlite_seen, "_PAGE", "SELECT damaged")
            carry_over(store, thread)
            assert rows(thread) == 4 + number
        assert not told.ready
        assert told._filters == []
    assert ("cannot be gone through" in caplog.text) is (fault == "a damaged page")
    clock[0] += 60.0
    get_ready(store, thread)


def test_a_round_through_the_tables_ends_after_a_while(
    store: SqliteStore, thread: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For what has arrived is carried over between two of them."""
    monkeypatch.setattr(sqlite_seen, "_AT_A_TIME", 1)
    monkeypatch.setattr(sqlite_seen, "_ROUND", 0.0)
    for number in range(5):
        store.meet("crm", sighting(ACME, f"t{number}"))
    carry_over(store, thread)
    rounds = 0
    while not seen(store).ready:
        store._carrier.round(thread)
        store.meet("crm", sighting(ACME, "t0"))
        rounds += 1
    assert rounds >= 5


def test_after_a_long_time_without_doubt_the_next_one_is_short(clock: list[float]) -> None:
    told, db = Seen(lambda: clock[0]), sqlite3.connect(":memory:")
    for gap in (0.0, 120.0, 10_000.0, 60.0):
        clock[0] += gap
        told.fill(db, lambda: None)
        told.go_on(())
        assert told._last is not None, gap
        told.doubt()
        told.fill(db, lambda: None)
        told.go_on(())
        assert told._last is None
        clock[0] += 60.0
    db.close()


def test_it_grows_with_what_arrives_and_is_begun_anew_when_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_seen, "_FIRST", 64)
    monkeypatch.setattr(sqlite_seen, "_MOST_FILTERS", 3)
    told, db = Seen(), sqlite3.connect(":memory:")
    db.execute("CREATE TABLE record (kind INTEGER, scope TEXT, id TEXT)")
    told.fill(db, lambda: None)
    told.go_on(())
    told.fill(db, lambda: None)
    told.go_on(())
    assert told.ready
    number = 0
    while told.ready:
        told.add((1, "crm", f"t{number}"))
        number += 1
        assert told.may_hold((1, "crm", f"t{number // 2}"))
    assert number >= 64 + 128
    assert told.may_hold((1, "crm", "never"))
    db.close()


def test_what_is_opened_anew_follows_nothing_of_before(store: SqliteStore) -> None:
    store.meet("crm", sighting(ACME, "t1"))
    with store._file as db:
        arrivals = store._of(db)
        before = arrivals.epoch, arrivals.end
        settle(db, arrivals)
    succession = store._carrier.succession
    assert succession.joins(*before, arrivals.epoch)
    store._file.close()
    store._file.open()
    assert store.meet("crm", sighting(GLOBEX, "t1")) == Met(ACME)
    assert not succession.joins(*before, arrivals.epoch)


def test_a_succession_joins_what_it_was_told_of_and_nothing_else() -> None:
    succession = Succession()
    assert not succession.joins(0, 0, 1)
    succession.ended(3, 500, 4)
    assert succession.joins(3, 500, 4)
    for epoch, end, following in ((3, 400, 4), (2, 500, 4), (3, 500, 5)):
        assert not succession.joins(epoch, end, following)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_whatever_several_processes_do_on_one_file_no_filter_gives_away_what_is_in_the_tables(
    tmp_path: Path, processes: int
) -> None:
    ready = 0
    for seed in range(3):
        with world(tmp_path / f"{seed}.db", seed, processes=processes, ids=(10, 60, 300)[seed]) as one:
            for _ in range(150):
                one.turn()
            ready += one.done["told new"]
    assert ready > 0


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(30))
def test_nor_in_thousands_of_steps(tmp_path: Path, seed: int) -> None:
    faults = (0.0, 0.01, 0.05)[seed % 3]
    with world(tmp_path / "state.db", 1_000 + seed, processes=1 + seed // 3 % 3, ids=100, faults=faults) as one:
        for _ in range(1_000):
            one.turn()
        assert one.done["told new"] > 0
