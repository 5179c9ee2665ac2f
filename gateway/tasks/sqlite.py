"""The ledger in SQLite: in a file that the workers of one gateway share, or in the memory of this process.

The file (`sqlite_file.py`) is in WAL mode with `synchronous=NORMAL`. The ids of an agent's frame are written in one
transaction before the client gets the frame. A crash of the process loses nothing; a power cut may lose the last
commits. Of several writing processes one holds the lock for some microseconds, and the others wait. All calls of the
event loop use one connection and do not suspend. Long work (counting many tasks, expiry, erasure) runs in a thread, on
a connection of its own.
"""

import asyncio
import contextlib
import sqlite3
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite_schema
from gateway.tasks.sqlite_file import AT_START, SORRY, DamageCheck, SqliteFile, dial
from gateway.tasks.store import (
    LONGEST_ID,
    OPEN,
    SEEN_AGAIN,
    Bounds,
    Figures,
    Note,
    Observed,
    Owner,
    RecordedOwners,
    Row,
    Task,
    later_state,
)

T = TypeVar("T")

# Seconds for which work in a thread waits for another process.
_PATIENCE = 1.0
# Most ids in the cache of recorded ids; then all are dropped.
_MOST_RECORDED = 1024
# Rows that are counted without a thread: some tenths of a millisecond.
COUNTED_INLINE = 1_000
# Rows that are deleted at once without a thread: some milliseconds.
_EXPIRED_INLINE = 500
# Contexts that one run of expiry examines; the next run continues after them.
REVIEWED = 100_000
_START = ("", "")
# Rows that are deleted in one transaction: less than a millisecond, for which other writers wait.
_DELETED_AT_ONCE = 100

_BEGIN = "BEGIN IMMEDIATE"
"""Begins a transaction; the connection's own `with` commits it, or rolls it back on an error."""
_TASK = """
    SELECT tenant, principal, context, state, replica, dialect, made, seen FROM task WHERE scope = ? AND id = ?"""
_CONTEXT = "SELECT tenant, principal, seen FROM context WHERE scope = ? AND id = ?"
_TASK_AND_CONTEXT = """
    SELECT task.tenant, task.principal, task.context, state, replica, dialect, made, task.seen,
        context.tenant, context.principal, context.seen
    FROM task LEFT JOIN context ON context.scope = task.scope AND context.id = ? WHERE task.scope = ? AND task.id = ?"""
_ADD_TASK = """
    INSERT INTO task (scope, id, tenant, principal, context, state, open, replica, dialect, made, seen)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_ADD_CONTEXT = """
    INSERT INTO context (scope, id, tenant, principal, seen) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_UPDATE_TASK = "UPDATE task SET context = ?, state = ?, open = ?, seen = max(seen, ?) WHERE scope = ? AND id = ?"
_UPDATE_CONTEXT = "UPDATE context SET seen = max(seen, ?) WHERE scope = ? AND id = ?"
_OPEN_TASKS = "SELECT 1 FROM task WHERE tenant = ? AND open = 1"
_COUNT = "SELECT 1 FROM task WHERE tenant = ? AND scope = ?"

_CURRENT = "(until = 0 OR until > ?)"
_NOTE = f"SELECT value FROM note WHERE kind = ? AND key = ? AND {_CURRENT}"  # noqa: S608 - constant
_INTO_NOTE = 'INTO note (kind, key, value, tenant, "group", due, until) VALUES (?, ?, ?, ?, ?, ?, ?)'
_KEEP = f"INSERT OR REPLACE {_INTO_NOTE}"
_DROP = "DELETE FROM note WHERE kind = ? AND key = ?"
_GROUP = f"""
    SELECT key, value FROM note WHERE kind = ? AND "group" = ? AND "group" <> '' AND {_CURRENT}
    ORDER BY key LIMIT ?"""  # noqa: S608 - constant
_DUE = f"""
    SELECT key, value FROM note WHERE kind = ? AND due > 0 AND due <= ? AND {_CURRENT}
    ORDER BY due LIMIT ?"""  # noqa: S608 - constant
_LEASE = "UPDATE note SET due = ? WHERE kind = ? AND key = ?"
_NOTES = f"""
    SELECT kind, key, value, tenant, "group", due, until FROM note
    WHERE (kind, key) > (?, ?) AND {_CURRENT} ORDER BY kind, key LIMIT ?"""  # noqa: S608 - constant

# By the index of tasks by tenant, one search for each tenant and for each of the two times.
_OLD_TASKS = """
    WITH RECURSIVE tenants(name) AS (
        SELECT min(tenant) FROM task
        UNION ALL SELECT (SELECT min(tenant) FROM task WHERE tenant > name) FROM tenants WHERE name IS NOT NULL
    )
    SELECT scope, id, seen FROM tenants CROSS JOIN task ON tenant = name AND open = 0 AND seen < :ended
    UNION ALL SELECT scope, id, seen FROM tenants CROSS JOIN task ON tenant = name AND open = 1 AND seen < :open
    LIMIT :most"""
_OPEN_BY_SCOPE = """
    WITH RECURSIVE tenants(name) AS (
        SELECT min(tenant) FROM task
        UNION ALL SELECT (SELECT min(tenant) FROM task WHERE tenant > name) FROM tenants WHERE name IS NOT NULL
    )
    SELECT tenant, scope, count(*) FROM tenants CROSS JOIN task ON tenant = name AND open = 1 GROUP BY tenant, scope"""
# A file has no index of contexts by time, which would be one more page to write for each new one.
_OLD_CONTEXTS = """
    SELECT scope, id, seen FROM (
        SELECT scope, id, seen FROM context WHERE (scope, id) > (:scope, :id) ORDER BY scope, id LIMIT :reviewed
    ) WHERE seen < :open LIMIT :most"""
_NEXT_CONTEXT = "SELECT scope, id FROM context WHERE (scope, id) > (?, ?) ORDER BY scope, id LIMIT 1 OFFSET ?"
_SIZE = "SELECT count(*) FROM {table}"
_CROWDED = "SELECT tenant, count(*) - :bound FROM {table} GROUP BY tenant HAVING count(*) > :bound"
_FIRST = {
    "task": "SELECT scope, id, seen FROM task WHERE tenant = ? ORDER BY open, seen LIMIT ?",
    "context": "SELECT scope, id, seen FROM context WHERE tenant = ? ORDER BY seen LIMIT ?",
}
_FORGET = "DELETE FROM {table} WHERE scope = ? AND id = ? AND seen = ?"
_FORGET_NOTES = "DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE until > 0 AND until <= ? LIMIT ?)"
_ERASE = "DELETE FROM {table} WHERE (scope, id) IN (SELECT scope, id FROM {table} WHERE tenant = ? LIMIT ?)"
_ERASE_NOTES = "DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE tenant = ? LIMIT ?)"
_FIGURES = """
    SELECT tenant, sum(tasks), sum(open), sum(contexts), sum(notes) FROM (
        SELECT tenant, count(*) AS tasks, sum(open) AS open, 0 AS contexts, 0 AS notes FROM task GROUP BY tenant
        UNION ALL SELECT tenant, 0, 0, count(*), 0 FROM context GROUP BY tenant
        UNION ALL SELECT tenant, 0, 0, 0, count(*) FROM note GROUP BY tenant
    ) GROUP BY tenant ORDER BY tenant"""
_CONTEXT_ROWS = """
    SELECT scope, id, tenant, principal, seen FROM context WHERE (scope, id) > (?, ?) ORDER BY scope, id LIMIT ?"""
_TASK_ROWS = """
    SELECT scope, id, tenant, principal, context, state, replica, dialect, made, seen FROM task
    WHERE (scope, id) > (?, ?) ORDER BY scope, id LIMIT ?"""


class SqliteStore:
    """Keeps the ledger in SQLite.

    Args:
        path: The file, which is created if it is missing; its folder must exist. None keeps the ledger in memory.
        wall: Unix seconds, by which notes expire.

    Attributes:
        check: Checks the file for damage; None in memory.
    """

    local = True
    shared = False

    def __init__(
        self,
        path: Path | None = None,
        *,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - notes say when they end in Unix seconds
    ) -> None:
        self.label = "memory" if path is None else f"sqlite://{path}"
        self._path = path
        self._wall = wall
        self.check = None if path is None else DamageCheck(path)
        # The last frame with ids that were recorded here, and their owners. The same frame in the same second has the
        # same owners. Later the ids are looked up first: the next messages of a conversation name its context again,
        # and a look-up neither waits for other writers nor makes them wait.
        self._recorded: dict[tuple[str, str, str], tuple[Observed, RecordedOwners]] = {}
        # The context behind which the next run of expiry begins.
        self._reviewed = _START
        self._db = _Memory() if path is None else SqliteFile(path, self.check)

    async def open(self) -> None:
        """As `Store.open`; a file that cannot be used at the moment is opened by a later call."""
        await asyncio.to_thread(self._db.open)
        if self.check is not None:
            self.check.begin()
            await asyncio.to_thread(self.check.wait, AT_START)

    async def aclose(self) -> None:
        """Close the file."""
        self._db.close()
        if self.check is not None:
            await asyncio.to_thread(self.check.stop)

    @property
    def trouble(self) -> str:
        """As `Store.trouble`."""
        return "the file is damaged" if self.check is not None and self.check.damaged else ""

    # ---- Tasks and contexts --------------------------------------------------------------------------------------

    async def tasks(self, scope: str, ids: Sequence[str]) -> list[Task | None]:
        """As `Store.tasks`."""
        with self._db as db:
            return [_task(db.execute(_TASK, (scope, each)).fetchone()) for each in ids]

    async def context(self, scope: str, id: str) -> Owner | None:  # noqa: A002 - the word
        """As `Store.context`."""
        with self._db as db:
            row = db.execute(_CONTEXT, (scope, id)).fetchone()
        return None if row is None else Owner(row[0], row[1])

    async def record(self, scope: str, observed: Observed) -> RecordedOwners:
        """As `Store.record`."""
        recorded, key = self._recorded, (scope, observed.task, observed.context)
        before = recorded.get(key)
        with self._db as db:
            if before is not None and before[0] == observed:
                return before[1]
            owners = None if before is None else _recorded_owners(db, scope, observed)
            if owners is None:
                with db:
                    db.execute(_BEGIN)
                    owners = _record(db, scope, observed)
        if len(recorded) >= _MOST_RECORDED:
            recorded.clear()
        recorded[key] = observed, owners
        return owners

    async def open_tasks(self, tenant: str) -> int:
        """As `Store.open_tasks`."""
        return await self._count(_OPEN_TASKS, (tenant,))

    async def open_by_scope(self) -> dict[tuple[str, str], int]:
        """As `Store.open_by_scope`."""
        rows = await self._in_thread(lambda db: db.execute(_OPEN_BY_SCOPE).fetchall())
        return {(tenant, scope): count for tenant, scope, count in rows}

    async def count(self, scope: str, owner: Owner, context: str = "") -> int:
        """As `Store.count`."""
        sql = _COUNT
        values: tuple[str, ...] = (owner.tenant, scope)
        for column, value in (("principal", owner.principal), ("context", context)):
            if value:
                sql, values = f"{sql} AND {column} = ?", (*values, value)
        return await self._count(sql, values)

    async def _count(self, sql: str, values: tuple[str, ...]) -> int:
        with self._db as db:
            number = _number(db.execute(f"SELECT count(*) FROM ({sql} LIMIT {COUNTED_INLINE})", values))  # noqa: S608
        if number < COUNTED_INLINE:
            return number
        return await self._in_thread(lambda db: _number(db.execute(f"SELECT count(*) FROM ({sql})", values)))  # noqa: S608

    # ---- Notes ---------------------------------------------------------------------------------------------------

    async def note(self, kind: str, key: str) -> bytes | None:
        """As `Store.note`."""
        with self._db as db:
            return _value(db, kind, key, self._wall())

    async def keep(self, note: Note) -> None:
        """As `Store.keep`."""
        with self._db as db:
            db.execute(_KEEP, _values(note))

    async def settle(self, note: Note) -> bytes:
        """As `Store.settle`."""
        with self._db as db, db:
            db.execute(_BEGIN)
            known = _value(db, note.kind, note.key, self._wall())
            if known is None:
                db.execute(_KEEP, _values(note))
            return note.value if known is None else known

    async def drop(self, kind: str, key: str) -> bool:
        """As `Store.drop`."""
        with self._db as db:
            return db.execute(_DROP, (kind, key)).rowcount > 0

    async def group(self, kind: str, group: str, most: int) -> list[tuple[str, bytes]]:
        """As `Store.group`."""
        with self._db as db:
            return db.execute(_GROUP, (kind, group, self._wall(), most)).fetchall()

    async def due(self, kind: str, now: float, most: int, lease: float) -> list[tuple[str, bytes]]:
        """As `Store.due`."""
        values = (kind, now, self._wall(), most)
        with self._db as db:
            # Mostly nothing is due, and then no lock is needed.
            if not db.execute(_DUE, values).fetchall():
                return []
            with db:
                db.execute(_BEGIN)
                taken: list[tuple[str, bytes]] = db.execute(_DUE, values).fetchall()
                db.executemany(_LEASE, [(now + lease, kind, key) for key, _ in taken])
            return taken

    # ---- Retention -----------------------------------------------------------------------------------------------

    async def expire(self, now: int, bounds: Bounds, most: int) -> int:
        """As `Store.expire`."""
        # In memory it runs on the event loop.
        few = most if self._path is not None else min(most, _EXPIRED_INLINE)
        after = self._reviewed
        forgotten, self._reviewed = await self._in_thread(lambda db: _expire(db, now, bounds, few, after))
        self._recorded.clear()
        return forgotten

    async def figures(self) -> list[Figures]:
        """As `Store.figures`."""
        return await self._in_thread(lambda db: [Figures(*row) for row in db.execute(_FIGURES)])

    async def erase(self, tenant: str) -> int:
        """As `Store.erase`; in many short transactions, so that other processes go on."""
        erased = await self._in_thread(lambda db: _erase(db, tenant))
        self._recorded.clear()
        return erased

    async def rows(self, after: tuple[str, str, str], most: int) -> list[Row]:
        """As `Store.rows`."""
        kind, *place = after
        rows: list[Row] = []
        with self._db as db:
            if kind != "task":
                rows = [_context_row(*each) for each in db.execute(_CONTEXT_ROWS, (*place, most))]
                place = ["", ""]
            if len(rows) < most:
                rows += [_task_row(*each) for each in db.execute(_TASK_ROWS, (*place, most - len(rows)))]
        return rows

    async def put_rows(self, rows: Sequence[Row]) -> int:
        """As `Store.put_rows`."""
        with self._db as db, db:
            db.execute(_BEGIN)
            return sum(_put_row(db, row) for row in rows if 0 < len(row.id) <= LONGEST_ID)

    async def notes(self, after: tuple[str, str], most: int) -> list[Note]:
        """As `Store.notes`."""
        with self._db as db:
            return [Note(*row) for row in db.execute(_NOTES, (*after, self._wall(), most))]

    async def _in_thread(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` returns, in a thread on a connection of its own; in memory there is only one."""
        path = self._path
        if path is None:
            with self._db as db:
                return work(db)

        def run() -> T:
            with contextlib.closing(dial(path, _PATIENCE)) as db:
                return work(db)

        # So that an unusable file is reopened, and its fault is raised.
        with self._db:
            pass
        try:
            return await asyncio.to_thread(run)
        except sqlite3.Error as error:
            raise StateUnavailable(SORRY, detail=str(error)) from error


class _Memory:
    """A database in the memory of this process, made when it is used first."""

    def __init__(self) -> None:
        self._db: sqlite3.Connection | None = None
        self._closed = False

    def open(self) -> None:
        pass

    def close(self) -> None:
        db, self._db, self._closed = self._db, None, True
        if db is not None:
            db.close()

    def __enter__(self) -> sqlite3.Connection:
        if self._closed:
            raise StateUnavailable(SORRY, detail="it is closed")
        if self._db is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            for statement in (*sqlite_schema.TABLES, *sqlite_schema.NOTES, *sqlite_schema.INDEXES_IN_MEMORY):
                self._db.execute(statement)
            # Its owner may drop it unclosed; Python 3.13 warns of a connection that is collected open.
            weakref.finalize(self, self._db.close)
        return self._db

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, sqlite3.Error):
            raise StateUnavailable(SORRY, detail=str(error)) from error


def _recorded_owners(db: sqlite3.Connection, scope: str, observed: Observed) -> RecordedOwners | None:
    """Return the recorded owners of a frame's ids; None if the frame has something to record."""
    if observed.task:
        row = db.execute(_TASK_AND_CONTEXT, (observed.context, scope, observed.task)).fetchone()
    else:
        row = db.execute(_CONTEXT, (scope, observed.context)).fetchone()
    if row is None:
        return None
    known = _task(row[:8]) if observed.task else None
    tenant, principal, seen = row[-3:]
    if observed.context and tenant is None:
        return None
    of_task = None if known is None else known.owner
    of_context = Owner(tenant, principal) if observed.context else None
    if not observed.is_foreign(of_task, of_context):
        if known is not None and _is_news(known, observed):
            return None
        if of_context is not None and tenant == observed.owner.tenant and _is_stale(seen, observed):
            return None
    return RecordedOwners(of_task, of_context)


def _is_news(known: Task, observed: Observed) -> bool:
    """Return whether a frame changes what is recorded of its task."""
    changes = later_state(known.state, observed.state) != known.state or (observed.context and not known.context)
    return bool(changes) or _is_stale(known.seen, observed)


def _is_stale(seen: int, observed: Observed) -> bool:
    return observed.now - seen >= SEEN_AGAIN


# ---- Within one transaction ------------------------------------------------------------------------------------------


def _record(db: sqlite3.Connection, scope: str, observed: Observed) -> RecordedOwners:
    """Record a frame's ids; write first and read only what is known, since most frames name a new task."""
    owner, now = observed.owner, observed.now
    task = observed.task if len(observed.task) <= LONGEST_ID else ""
    context = observed.context if len(observed.context) <= LONGEST_ID else ""
    known = _add_task(db, scope, task, context, observed) if task else None
    holder = _add_context(db, scope, context, observed, is_likely_known=known is not None) if context else None
    of_task = None if known is None else known.owner
    of_context = None if holder is None else Owner(holder[0], holder[1])
    if observed.is_foreign(of_task, of_context):
        db.execute("ROLLBACK")
        return RecordedOwners(of_task, of_context)
    if known is not None:
        state = later_state(known.state, observed.state)
        if _is_news(known, observed):
            db.execute(_UPDATE_TASK, (known.context or context, state, state in OPEN, now, scope, task))
    if holder is not None and holder[0] == owner.tenant and _is_stale(holder[2], observed):
        db.execute(_UPDATE_CONTEXT, (now, scope, context))
    return RecordedOwners((of_task or owner) if task else None, (of_context or owner) if context else None)


def _add_task(db: sqlite3.Connection, scope: str, task: str, context: str, observed: Observed) -> Task | None:
    """Insert the task; return what is known of it already, or None if it is new."""
    owner, state, now = observed.owner, observed.state, observed.now
    values = (
        scope, task, owner.tenant, owner.principal, context, state, state in OPEN,
        observed.replica, observed.dialect, now, now,
    )  # fmt: skip
    if db.execute(_ADD_TASK, values).rowcount:
        return None
    return _task(db.execute(_TASK, (scope, task)).fetchone())


def _add_context(
    db: sqlite3.Connection, scope: str, context: str, observed: Observed, *, is_likely_known: bool
) -> tuple[str, str, int] | None:
    """Insert the context; return its tenant, principal and time if it is known already, or None if it is new."""
    owner, holder = observed.owner, None
    if is_likely_known:
        holder = db.execute(_CONTEXT, (scope, context)).fetchone()
    if holder is None:
        values = (scope, context, owner.tenant, owner.principal, observed.now)
        if not db.execute(_ADD_CONTEXT, values).rowcount:
            holder = db.execute(_CONTEXT, (scope, context)).fetchone()
    return None if holder is None else (holder[0], holder[1], holder[2])


def _put_row(db: sqlite3.Connection, row: Row) -> int:
    task, owner = row.task, row.context
    if task is not None:
        values = (
            row.scope, row.id, task.owner.tenant, task.owner.principal, task.context, task.state, task.state in OPEN,
            task.replica, task.dialect, task.made, task.seen,
        )  # fmt: skip
        return db.execute(_ADD_TASK, values).rowcount
    if owner is None:
        return 0
    return db.execute(_ADD_CONTEXT, (row.scope, row.id, owner.tenant, owner.principal, row.seen)).rowcount


# ---- In a thread -----------------------------------------------------------------------------------------------------


def _expire(
    db: sqlite3.Connection, now: int, bounds: Bounds, most: int, after: tuple[str, str]
) -> tuple[int, tuple[str, str]]:
    """Delete expired entries, and once in a round entries beyond a tenant's bounds.

    Args:
        after: The context after which this run begins.

    Returns: The number of deleted entries, and the context after which the next run begins.
    """
    left = most - db.execute(_FORGET_NOTES, (now, most)).rowcount
    values: dict[str, int | str] = {"ended": now - bounds.ended, "open": now - bounds.open, "most": left}
    left -= _forget(db, "task", db.execute(_OLD_TASKS, values).fetchall())
    if not left:
        return most, after
    values |= {"scope": after[0], "id": after[1], "reviewed": REVIEWED, "most": left}
    old = db.execute(_OLD_CONTEXTS, values).fetchall()
    if len(old) == left:
        last = old[-1][0], old[-1][1]
    else:
        last = db.execute(_NEXT_CONTEXT, (*after, REVIEWED - 1)).fetchone() or _START
    left -= _forget(db, "context", old)
    if last != _START:
        return most - left, last
    for table, bound in (("task", bounds.tasks), ("context", bounds.contexts)):
        if _number(db.execute(_SIZE.format(table=table))) <= bound:
            continue
        for tenant, excess in db.execute(_CROWDED.format(table=table), {"bound": bound}).fetchall():
            left -= _forget(db, table, db.execute(_FIRST[table], (tenant, min(excess, left))).fetchall())
    return most - left, _START


def _forget(db: sqlite3.Connection, table: str, entries: Sequence[tuple[str, str, int]]) -> int:
    """Delete entries, unless they have been seen since; return their number."""
    forgotten = 0
    for start in range(0, len(entries), _DELETED_AT_ONCE):
        with db:
            db.execute(_BEGIN)
            few = entries[start : start + _DELETED_AT_ONCE]
            forgotten += db.executemany(_FORGET.format(table=table), few).rowcount
    return forgotten


def _erase(db: sqlite3.Connection, tenant: str) -> int:
    erased = 0
    for sql in (_ERASE.format(table="task"), _ERASE.format(table="context"), _ERASE_NOTES):
        while deleted := db.execute(sql, (tenant, _DELETED_AT_ONCE)).rowcount:
            erased += deleted
    return erased


# ---- Rows ------------------------------------------------------------------------------------------------------------


def _task(row: tuple[str, str, str, str, str, str, int, int] | None) -> Task | None:
    if row is None:
        return None
    tenant, principal, context, state, replica, dialect, made, seen = row
    return Task(Owner(tenant, principal), context, state, replica, dialect, made, seen)


def _task_row(scope: str, id_: str, *row: *tuple[str, str, str, str, str, str, int, int]) -> Row:
    return Row(scope, id_, task=_task(row), seen=row[-1])


def _context_row(scope: str, id_: str, tenant: str, principal: str, seen: int) -> Row:
    return Row(scope, id_, context=Owner(tenant, principal), seen=seen)


def _number(cursor: sqlite3.Cursor) -> int:
    (number,) = cursor.fetchone()
    return int(number)


def _value(db: sqlite3.Connection, kind: str, key: str, now: float) -> bytes | None:
    row = db.execute(_NOTE, (kind, key, now)).fetchone()
    return None if row is None else bytes(row[0])


def _values(note: Note) -> tuple[str, str, bytes, str, str, float, int]:
    return note.kind, note.key, note.value, note.tenant, note.group, note.due, note.until
