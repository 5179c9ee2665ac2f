"""Forgetting, erasing, counting and carrying over, where there is more than is done at a time."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.tasks import sqlite, sqlite_upkeep
from gateway.tasks.sqlite_schema import connect
from gateway.tasks.sqlite_upkeep import Expiry, erase, figures, notes, put_rows, rows
from gateway.tasks.store import Bounds, Figures, Owner, Row, Task

DAY = 86_400


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    db = connect(tmp_path / "state.db", 0.25, 0.0)
    yield db
    db.close()


def put(db: sqlite3.Connection, tenant: str, count: int, *, contexts: int = 0, notes: int = 0, at: int = 0) -> None:
    owner = Owner(tenant)
    put_rows(db, [Row("crm", f"{tenant}-t{n}", task=Task(owner, made=at + n, seen=at + n)) for n in range(count)])
    put_rows(db, [Row("crm", f"{tenant}-c{n}", context=owner, seen=at + n) for n in range(contexts)])
    keep = "INSERT INTO note (kind, key, value, tenant, \"group\", due, until) VALUES ('k', ?, '', ?, '', 0, ?)"
    db.executemany(keep, [(f"{tenant}-n{n}", tenant, at + DAY) for n in range(notes)])


def ids(db: sqlite3.Connection, tenant: str) -> list[str]:
    return [id_ for (id_,) in db.execute("SELECT id FROM record WHERE tenant = ? ORDER BY seen, id", (tenant,))]


def plan(db: sqlite3.Connection, sql: str) -> list[str]:
    """How SQLite goes about it."""
    return [step[3] for step in db.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * sql.count("?"))]


def test_tenants_take_turns_where_there_are_too_many_entries_to_count(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_upkeep, "_MOST_COUNTED", 1)
    for tenant in ("a", "b", "c"):
        put(db, tenant, 4, contexts=3)
    expiry = Expiry()
    took = [expiry.expire(db, 0, Bounds(tasks=1, contexts=2), 500) for _ in range(4)]
    assert took == [4, 4, 4, 0]
    assert ids(db, "a") == ["a-c1", "a-c2", "a-t3"]


def test_a_tenant_whose_turn_was_too_short_goes_on(db: sqlite3.Connection) -> None:
    for tenant in ("a", "b"):
        put(db, tenant, 10, contexts=10)
    expiry = Expiry()
    took = [expiry.expire(db, 0, Bounds(tasks=1, contexts=1), 8) for _ in range(6)]
    assert took == [8, 8, 8, 8, 4, 0]
    assert [ids(db, tenant) for tenant in ("a", "b")] == [["a-c9", "a-t9"], ["b-c9", "b-t9"]]


def test_notes_past_their_time_are_forgotten_with_the_rest(db: sqlite3.Connection) -> None:
    put(db, "a", 5, notes=5)
    expiry = Expiry()
    bounds = Bounds(ended=DAY, open=DAY)
    assert [expiry.expire(db, DAY, bounds, 3) for _ in range(3)] == [3, 2, 0]
    assert [expiry.expire(db, 2 * DAY, bounds, 3) for _ in range(3)] == [3, 2, 0]
    assert figures(db) == []


def test_a_tenant_is_erased_a_part_at_a_time(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_upkeep, "_MOST_ERASED", 3)
    for tenant in ("a", "b"):
        put(db, tenant, 10, contexts=4, notes=8)
    assert erase(db, "a") == 22
    assert erase(db, "a") == 0
    assert figures(db) == [Figures("b", 10, 10, 4, 8)]


def test_figures_are_of_every_tenant(db: sqlite3.Connection) -> None:
    put(db, "b", 2)
    put(db, "a", 0, notes=1)
    put(db, "", 0, contexts=1)
    put_rows(db, [Row("crm", "over", task=Task(Owner("b"), state="completed"))])
    assert figures(db) == [Figures("", 0, 0, 1, 0), Figures("a", 0, 0, 0, 1), Figures("b", 3, 2, 0, 0)]


def test_rows_that_say_nothing_are_not_written(db: sqlite3.Connection) -> None:
    assert put_rows(db, []) == 0
    assert put_rows(db, [Row("crm", "t1"), Row("crm", "", context=Owner("a"))]) == 0
    assert rows(db, ("", "", ""), 10) == []


def test_rows_and_notes_go_on_behind_any_place(db: sqlite3.Connection) -> None:
    put(db, "a", 2, contexts=2, notes=2)
    order = [("context", "crm", "a-c0"), ("context", "crm", "a-c1"), ("task", "crm", "a-t0"), ("task", "crm", "a-t1")]
    for number, after in enumerate([("", "", ""), *order]):
        assert [row.id for row in rows(db, after, 10)] == [id_ for _, _, id_ in order[number:]]
    assert [note.key for note in notes(db, ("k", "a-n0"), 10, 0.0)] == ["a-n1"]


@pytest.mark.parametrize(
    "sql",
    [
        sqlite_upkeep._ALL_TENANTS,
        sqlite_upkeep._OLD,
        sqlite_upkeep._COUNTS,
        sqlite_upkeep._FIRST_TO_GO,
        sqlite._OPEN_TASKS,
        sqlite._COUNT,
        sqlite._COUNT_OF_PRINCIPAL,
        sqlite._COUNT_IN_CONTEXT,
        sqlite._COUNT_OF_PRINCIPAL_IN_CONTEXT,
    ],
)
def test_what_is_done_often_reads_an_index_only_and_in_its_order(db: sqlite3.Connection, sql: str) -> None:
    steps = [step for step in plan(db, sql) if "record" in step or "B-TREE" in step]
    assert steps
    assert all("USING COVERING INDEX record_of_tenant" in step for step in steps)
