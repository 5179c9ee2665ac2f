"""What is done to the ledger in a file beside the line: forgetting, erasing, counting, carrying over.

Each function is given the connection to the file, and takes no longer than its `most`, if it has one, lets it.
"""

import sqlite3
import time
from collections.abc import Sequence

from gateway.tasks.sqlite_file import step
from gateway.tasks.sqlite_schema import CONTEXT, TASK
from gateway.tasks.store import LONGEST_ID, OPEN, Bounds, Figures, Note, Owner, Row, Task

_KINDS = ("context", "task")

# From one tenant to the next in the index, instead of over all entries.
_TENANTS = """
    WITH RECURSIVE holder (name) AS (
        SELECT min(tenant) FROM record WHERE aged = 1
        UNION ALL
        SELECT (SELECT min(tenant) FROM record WHERE aged = 1 AND tenant > name) FROM holder WHERE name IS NOT NULL
    )"""
_ALL_TENANTS = f"{_TENANTS} SELECT name FROM holder WHERE name IS NOT NULL"  # noqa: S608 - the text above
_OLD = f"""{_TENANTS}
    SELECT kind, scope, id, seen, context, tenant FROM holder CROSS JOIN record
        ON aged = 1 AND tenant = name AND kind = ? AND open = ? AND seen < ? AND epoch <> ?
    LIMIT ?"""  # noqa: S608 - the text above
_COUNTS = "SELECT kind, count(*) FROM record WHERE aged = 1 AND tenant = ? GROUP BY kind"
_FIRST_TO_GO = """
    SELECT kind, scope, id, seen, context, tenant FROM record WHERE aged = 1 AND tenant = ? AND kind = ? AND epoch <> ?
    ORDER BY open, seen LIMIT ?"""
_FORGET = "DELETE FROM record WHERE kind = ? AND scope = ? AND id = ? AND seen = ?"
LEFT_ALONE = "UPDATE record SET aged = 1 WHERE kind = 0 AND scope = ? AND id = ? AND tenant = ? AND aged = 0"
_FORGET_NOTES = "DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE until > 0 AND until <= ? LIMIT ?)"
_FIGURES = """
    SELECT tenant, kind, open, count(*) FROM record WHERE aged = 1 GROUP BY tenant, kind, open
    UNION ALL
    SELECT tenant, 0, 0, count(*) FROM record WHERE kind = 0 AND aged = 0 GROUP BY tenant"""
_NOTE_FIGURES = "SELECT tenant, count(*) FROM note GROUP BY tenant"
_OF_TENANT = """
    SELECT kind, scope, id, tenant FROM record WHERE (kind, scope, id) > (?, ?, ?) AND tenant = ?
    ORDER BY kind, scope, id LIMIT ?"""
_ERASE = "DELETE FROM record WHERE kind = ? AND scope = ? AND id = ? AND tenant = ?"
_ERASE_NOTES = "DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE tenant = ? LIMIT ?)"
_ROWS = """
    SELECT kind, scope, id, tenant, principal, context, state, replica, dialect, made, seen FROM record
    WHERE (kind, scope, id) > (?, ?, ?) ORDER BY kind, scope, id LIMIT ?"""
_PUT_ROW = """
    INSERT INTO record (kind, scope, id, tenant, principal, context, state, open, replica, dialect, made, seen)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_NOTES = """
    SELECT kind, key, value, tenant, "group", due, until FROM note
    WHERE (kind, key) > (?, ?) AND (until = 0 OR until > ?) ORDER BY kind, key LIMIT ?"""

# Entries of all tenants that are counted at a time to find those beyond their bounds: a few milliseconds.
_MOST_COUNTED = 20_000
# To ask for a tenant's number costs as much as to count this many of its entries.
_ASKING = 100
# Entries and notes that are erased at a time.
_MOST_ERASED = 500


class Expiry:
    """Forgets what is beyond the bounds.

    To find the tenants that have too much, their entries have to be counted. That is done for some of them at a time,
    so in a large ledger it takes several calls until it is a tenant's turn. A context that came with a task is counted,
    and its age looked at, once that task is forgotten: before, the bound of the tasks is one for it, too.
    """

    def __init__(self) -> None:
        self._turn: list[str] = []

    def expire(self, db: sqlite3.Connection, now: int, bounds: Bounds, most: int, epoch: int = -1) -> int:
        """As `Store.expire`.

        Args:
            epoch: Of the arrivals that are being carried over: what came with it is not looked at yet.
        """
        left = most - db.execute(_FORGET_NOTES, (now, most)).rowcount
        # Contexts last: those of the tasks that are forgotten here are looked at, too.
        for kind, is_open, kept in ((TASK, 0, bounds.ended), (TASK, 1, bounds.open), (CONTEXT, 0, bounds.open)):
            left -= _forget(db, db.execute(_OLD, (kind, is_open, now - kept, epoch, left)).fetchall())
        counted = 0
        self._turn = self._turn or [tenant for (tenant,) in db.execute(_ALL_TENANTS)]
        while left > 0 and counted < _MOST_COUNTED and self._turn:
            tenant = self._turn[-1]
            for kind, count in db.execute(_COUNTS, (tenant,)).fetchall():
                counted += count
                beyond = count - (bounds.tasks if kind == TASK else bounds.contexts)
                if beyond > 0:
                    left -= _forget(db, db.execute(_FIRST_TO_GO, (tenant, kind, epoch, min(left, beyond))).fetchall())
            counted += _ASKING
            if left > 0:
                self._turn.pop()
        return most - left


def figures(db: sqlite3.Connection) -> list[Figures]:
    """As `Store.figures`; counts every entry."""
    # Tasks, open ones, contexts and notes, in the order of `Figures`.
    held: dict[str, list[int]] = {}
    for tenant, kind, is_open, count in db.execute(_FIGURES):
        counts = held.setdefault(tenant, [0, 0, 0, 0])
        if kind == TASK:
            counts[0] += count
            counts[1] += count * is_open
        else:
            counts[2] += count
    for tenant, count in db.execute(_NOTE_FIGURES):
        held.setdefault(tenant, [0, 0, 0, 0])[3] = count
    return [Figures(tenant, *counts) for tenant, counts in sorted(held.items())]


def erase(db: sqlite3.Connection, tenant: str) -> int:
    """As `Store.erase`; pauses as long as it works, for a gateway that serves from the same file meanwhile."""
    erased, after = 0, (-1, "", "")
    while True:
        began = time.monotonic()
        entries = db.execute(_OF_TENANT, (*after, tenant, _MOST_ERASED)).fetchall()
        with step(db):
            erased += db.executemany(_ERASE, entries).rowcount if entries else 0
            dropped = db.execute(_ERASE_NOTES, (tenant, _MOST_ERASED)).rowcount
        if not entries and not dropped:
            return erased
        erased += dropped
        after = entries[-1][:3] if entries else after
        time.sleep(time.monotonic() - began)


def rows(db: sqlite3.Connection, after: tuple[str, str, str], most: int) -> list[Row]:
    """As `Store.rows`."""
    since = _KINDS.index(after[0]) if after[0] else -1
    return [_row(*found) for found in db.execute(_ROWS, (since, *after[1:], most))]


def put_rows(db: sqlite3.Connection, entries: Sequence[Row]) -> int:
    """As `Store.put_rows`."""
    values = [_values(row) for row in entries if _is_kept(row)]
    if not values:
        return 0
    with step(db):
        return db.executemany(_PUT_ROW, values).rowcount


def notes(db: sqlite3.Connection, after: tuple[str, str], most: int, now: float) -> list[Note]:
    """As `Store.notes`."""
    return [Note(*found) for found in db.execute(_NOTES, (*after, now, most))]


def _forget(db: sqlite3.Connection, entries: list[tuple[int, str, str, int, str, str]]) -> int:
    """Forget entries, unless they have been seen since; gives how many."""
    if not entries:
        return 0
    with step(db):
        db.executemany(LEFT_ALONE, [(scope, context, tenant) for _, scope, _, _, context, tenant in entries if context])
        return db.executemany(_FORGET, [entry[:4] for entry in entries]).rowcount


def _is_kept(row: Row) -> bool:
    return 0 < len(row.id) <= LONGEST_ID and not (row.task is None and row.context is None)


def _row(kind: int, scope: str, id_: str, *rest: *tuple[str, str, str, str, str, str, int, int]) -> Row:
    tenant, principal, context, state, replica, dialect, made, seen = rest
    owner = Owner(tenant, principal)
    if kind == CONTEXT:
        return Row(scope, id_, context=owner, seen=seen)
    return Row(scope, id_, task=Task(owner, context, state, replica, dialect, made, seen), seen=seen)


def _values(row: Row) -> tuple[str | int, ...]:
    task, owner = row.task, row.context
    if task is not None:
        return (
            TASK, row.scope, row.id, task.owner.tenant, task.owner.principal, task.context, task.state,
            task.state in OPEN, task.replica, task.dialect, task.made, task.seen,
        )  # fmt: skip
    assert owner is not None
    return (CONTEXT, row.scope, row.id, owner.tenant, owner.principal, "", "", 0, "", "", 0, row.seen)
