"""A sighting in the ledger of a file: what is young is changed there, and what is in the tables there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_carrying import settle
from gateway.tasks.store import LONGEST_ID, SEEN_AGAIN, Met
from tests.tasks.asking import ACME, GLOBEX, NOW, sighting


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "state.db")
    store._file.open()
    yield store
    if store._arrivals is not None:
        store._arrivals.close()
    store._file.close()


def written(store: SqliteStore) -> tuple[int, int]:
    """How many rows, and how many bytes of arrivals."""
    with store._file as db:
        arrivals = store._of(db)
        arrivals.current()
        return db.total_changes, arrivals.end


def carry(store: SqliteStore) -> None:
    with store._file as db:
        settle(db, store._of(db))


def test_what_is_new_touches_no_table(store: SqliteStore) -> None:
    rows, size = written(store)
    store.meet("crm", sighting(ACME, "t1", "c1"))
    assert written(store)[0] == rows
    assert written(store)[1] > size


def test_what_is_in_the_tables_is_changed_there_and_stays_out_of_the_arrivals(store: SqliteStore) -> None:
    store.meet("crm", sighting(ACME, "t1", "c1", "working"))
    carry(store)
    rows, size = written(store)
    store.meet("crm", sighting(ACME, "t1", "c1", "completed", at=NOW + SEEN_AGAIN))
    assert written(store) == (rows + 2, size + len(b"00000000[]\n"))
    [task] = store.tasks("crm", ["t1"])
    assert task is not None
    assert (task.state, task.seen) == ("completed", NOW + SEEN_AGAIN)


def test_a_young_context_and_an_old_task_are_each_changed_where_they_are(store: SqliteStore) -> None:
    store.meet("crm", sighting(ACME, "t1", "c1", "working"))
    carry(store)
    store.meet("crm", sighting(context="c2"))
    rows, size = written(store)
    store.meet("crm", sighting(ACME, "t1", "c2", "completed", at=NOW + SEEN_AGAIN))
    later_rows, later_size = written(store)
    assert later_rows == rows + 1
    assert later_size > size
    assert store.open_tasks("acme") == 0


def test_what_names_anothers_changes_nothing(store: SqliteStore) -> None:
    store.meet("crm", sighting(GLOBEX, "t1", "c1", "working"))
    before = written(store)
    assert store.meet("crm", sighting(ACME, "t1", "c2", "completed")) == Met(GLOBEX, None)
    assert store.meet("crm", sighting(ACME, "t2", "c1")) == Met(None, GLOBEX)
    assert written(store) == before


def test_what_is_too_long_is_not_looked_for(store: SqliteStore) -> None:
    before = written(store)
    assert store.meet("crm", sighting(ACME, "t" * (LONGEST_ID + 1), "c" * (LONGEST_ID + 1))) == Met()
    assert written(store) == before
