"""The ledger in a file of SQLite: the default, which a restart leaves as it was.

It is read and written on the event loop: with a log, and no waiting for the disk, that takes microseconds, and to ask a
thread would take longer. What was answered survives the end of this process, whatever ends it; a power cut may lose
the last of it. Several processes of one machine may use the file, each by one store.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite_upkeep
from gateway.tasks.sqlite_arrivals import Arrivals
from gateway.tasks.sqlite_carrying import Carrier, arrivals_of, carry_over, settle
from gateway.tasks.sqlite_checkpoint import Checkpoints
from gateway.tasks.sqlite_damage import AT_START, DamageCheck
from gateway.tasks.sqlite_file import SORRY, LedgerFile, step
from gateway.tasks.sqlite_meeting import meet
from gateway.tasks.sqlite_schema import CONTEXT, TASK, dial
from gateway.tasks.sqlite_upkeep import Expiry
from gateway.tasks.sqlite_young import Young
from gateway.tasks.store import (
    Bounds,
    Condition,
    Figures,
    Met,
    Note,
    Owner,
    Row,
    Sighting,
    Soon,
    Task,
)  # fmt: skip

# Times that a note is settled while others drop it.
_ATTEMPTS = 3
# Tasks of the tables that are remembered until the epoch ends.
_MOST_REMEMBERED = 10_000
# Arrivals that are carried over before the ledger is gone through, rather than by a thread: a few milliseconds' worth.
_AT_ONCE_OVER = 100
# Seconds that a count waits for whoever holds the file.
_PATIENCE = 1.0

_TASK = """
    SELECT tenant, principal, context, state, replica, dialect, made, seen FROM record
    WHERE kind = 1 AND scope = ? AND id = ?"""
_CONTEXT = "SELECT tenant, principal FROM record WHERE kind = 0 AND scope = ? AND id = ?"

# What takes longer to count than calls may wait for each other is counted in a thread.
_AT_ONCE = 1_000
_OPEN_TASKS = "SELECT 1 FROM record WHERE aged = 1 AND tenant = ? AND kind = 1 AND open = 1 AND epoch <> ?"
_COUNT = "SELECT 1 FROM record WHERE aged = 1 AND tenant = ? AND kind = 1 AND epoch <> ? AND scope = ?"
_COUNT_OF_PRINCIPAL = f"{_COUNT} AND principal = ?"
_COUNT_IN_CONTEXT = f"{_COUNT} AND context = ?"
_COUNT_OF_PRINCIPAL_IN_CONTEXT = f"{_COUNT} AND principal = ? AND context = ?"

_CURRENT = "(until = 0 OR until > ?)"
_NOTE = f"SELECT value FROM note WHERE kind = ? AND key = ? AND {_CURRENT}"  # noqa: S608 - constant
_INTO_NOTE = 'INTO note (kind, key, value, tenant, "group", due, until) VALUES (?, ?, ?, ?, ?, ?, ?)'
_KEEP = f"INSERT OR REPLACE {_INTO_NOTE}"
_SETTLE = f"""
    INSERT {_INTO_NOTE} ON CONFLICT (kind, key) DO UPDATE
    SET value = excluded.value, tenant = excluded.tenant, "group" = excluded."group",
        due = excluded.due, until = excluded.until
    WHERE NOT {_CURRENT.replace("until", "note.until")}"""  # noqa: S608 - constant
_DROP = "DELETE FROM note WHERE kind = ? AND key = ?"
_GROUP = f"""
    SELECT key, value FROM note WHERE kind = ? AND "group" = ? AND "group" <> '' AND {_CURRENT}
    ORDER BY key LIMIT ?"""  # noqa: S608 - constant
_DUE = f"""
    SELECT key, value FROM note WHERE kind = ? AND due > 0 AND due <= ? AND {_CURRENT}
    ORDER BY due LIMIT ?"""  # noqa: S608 - constant
_LEASE = "UPDATE note SET due = ? WHERE kind = ? AND key = ?"


class SqliteStore:
    """Keeps the ledger in a file.

    Args:
        path: Of the file, which is made where there is none. The folder must be there.
        wall: Unix seconds, for notes that are past their time.
    """

    local = True
    shared = False

    def __init__(
        self,
        path: Path,
        *,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - notes say when they end in Unix seconds
    ) -> None:
        self.label = f"sqlite://{path}"
        self._check = DamageCheck(path)
        self.condition: Condition = self._check
        self._file = LedgerFile(path, self._check)
        self._carrier = Carrier(path)
        self._wall = wall
        self._checkpoints: Checkpoints | None = None
        self._expiry = Expiry()
        # What has arrived, and the connection to the database that it belongs to.
        self._arrivals: Arrivals | None = None
        self._db: sqlite3.Connection | None = None
        self._counting: dict[tuple[str, tuple[str | int, ...]], asyncio.Future[int]] = {}

    async def open(self) -> None:
        """As `Store.open`; what cannot be used at the moment is opened by the first call that can."""
        self._file.open()
        self._check.begin()
        # What comes next would write to a damaged file.
        await asyncio.to_thread(self._check.wait, AT_START)
        self._checkpoints = Checkpoints(self._file.path, astray=self._file.watch, carrier=self._carrier)
        with contextlib.suppress(StateUnavailable), self._file as db:
            # What was left by whoever ended suddenly, or is others', is read now, and not by the first call.
            arrivals = self._of(db)
            arrivals.read_ahead()
            arrivals.current()

    async def aclose(self) -> None:
        """Let go of the file. Who lets go of it last carries the log over: here, that is not the event loop."""
        if self._arrivals is not None:
            self._arrivals.close()
        self._arrivals = self._db = None
        self._file.close()
        await asyncio.to_thread(self._check.stop)
        if self._checkpoints is not None:
            await asyncio.to_thread(self._checkpoints.stop)

    # ---- Tasks and contexts --------------------------------------------------------------------------------------

    def tasks(self, scope: str, ids: Sequence[str]) -> list[Task | None]:
        """As `Store.tasks`."""
        with self._file as db:
            young = self._of(db).current()
            return [self._found(db, young, scope, task) for task in ids]

    @staticmethod
    def _found(db: sqlite3.Connection, young: Young, scope: str, task: str) -> Task | None:
        """What is known of a task, wherever it stands."""
        entry = young.entries.get((TASK, scope, task))
        if entry is not None:
            return entry.task
        known = young.tables.get((scope, task))
        if known is None:
            known = _task(db.execute(_TASK, (scope, task)).fetchone())
            if known is not None:
                if len(young.tables) >= _MOST_REMEMBERED:
                    young.tables.clear()
                young.tables[scope, task] = known
        return known

    def context(self, scope: str, id: str) -> Owner | None:  # noqa: A002 - the word
        """As `Store.context`."""
        with self._file as db:
            young = self._of(db).current().entries.get((CONTEXT, scope, id))
            if young is not None:
                return young.owner
            found = db.execute(_CONTEXT, (scope, id)).fetchone()
        return None if found is None else Owner(*found)

    def meet(self, scope: str, sighting: Sighting) -> Met:
        """As `Store.meet`; what is new goes to the arrivals, and what has changed to where it stands."""
        with self._file as db, (arrivals := self._of(db)) as young:
            return meet(db, arrivals, young, scope, sighting)

    def open_tasks(self, tenant: str) -> Soon[int]:
        """As `Store.open_tasks`; at once, or where there are many from a thread."""
        with self._file as db:
            arrivals = self._of(db)
            more = arrivals.current().open_tasks(tenant)
            return self._number(db, more, _OPEN_TASKS, (tenant, arrivals.epoch))

    def count(self, scope: str, owner: Owner, context: str = "") -> Soon[int]:
        """As `Store.count`; at once, or where the tenant has many tasks from a thread."""
        tenant, principal = owner.tenant, owner.principal
        with self._file as db:
            arrivals = self._of(db)
            more = arrivals.current().count(scope, owner, context)
            names = (tenant, arrivals.epoch, scope)
            if context and principal:
                return self._number(db, more, _COUNT_OF_PRINCIPAL_IN_CONTEXT, (*names, principal, context))
            if context:
                return self._number(db, more, _COUNT_IN_CONTEXT, (*names, context))
            if principal:
                return self._number(db, more, _COUNT_OF_PRINCIPAL, (*names, principal))
            return self._number(db, more, _COUNT, names)

    def _number(self, db: sqlite3.Connection, more: int, of: str, names: tuple[str | int, ...]) -> Soon[int]:
        """How many there are in the tables, and young ones beside them.

        Args:
            more: Those that are young.
        """
        counting = self._counting.get((of, names))
        if counting is None:
            found = _number(db.execute(f"SELECT count(*) FROM ({of} LIMIT {_AT_ONCE})", names))  # noqa: S608 - constant
            if found < _AT_ONCE:
                return found + more
            counting = self._counting[of, names] = asyncio.ensure_future(self._count_aside(more, of, names))
            counting.add_done_callback(lambda _: self._counting.pop((of, names), None))
        # Whoever asks meanwhile is answered with it, and nobody who leaves takes it from the others.
        return asyncio.shield(counting)

    async def _count_aside(self, more: int, of: str, names: tuple[str | int, ...]) -> int:
        def count() -> int:
            with contextlib.closing(dial(self._file.path, _PATIENCE)) as db:
                return more + _number(db.execute(f"SELECT count(*) FROM ({of})", names))  # noqa: S608 - constant

        try:
            return await asyncio.to_thread(count)
        except sqlite3.Error as error:
            raise StateUnavailable(SORRY, detail=str(error)) from error

    # ---- Notes ---------------------------------------------------------------------------------------------------

    def note(self, kind: str, key: str) -> bytes | None:
        """As `Store.note`."""
        with self._file as db:
            return _value(db, kind, key, self._wall())

    def keep(self, note: Note) -> None:
        """As `Store.keep`."""
        with self._file as db:
            db.execute(_KEEP, _values(note))

    def settle(self, note: Note) -> bytes:
        """As `Store.settle`."""
        with self._file as db:
            for _ in range(_ATTEMPTS):
                now = self._wall()
                if db.execute(_SETTLE, (*_values(note), now)).rowcount:
                    return note.value
                if (known := _value(db, note.kind, note.key, now)) is not None:
                    return known
        raise StateUnavailable(SORRY, detail="a note is dropped as often as it is written")

    def drop(self, kind: str, key: str) -> bool:
        """As `Store.drop`."""
        with self._file as db:
            return db.execute(_DROP, (kind, key)).rowcount > 0

    def group(self, kind: str, group: str, most: int) -> list[tuple[str, bytes]]:
        """As `Store.group`."""
        with self._file as db:
            return db.execute(_GROUP, (kind, group, self._wall(), most)).fetchall()

    def due(self, kind: str, now: float, most: int, lease: float) -> list[tuple[str, bytes]]:
        """As `Store.due`."""
        wanted = (kind, now, self._wall(), most)
        with self._file as db:
            # Mostly nothing is due, and then nobody has to be held off.
            if not db.execute(_DUE, wanted).fetchall():
                return []
            with step(db):
                taken: list[tuple[str, bytes]] = db.execute(_DUE, wanted).fetchall()
                db.executemany(_LEASE, [(now + lease, kind, key) for key, _ in taken])
            return taken

    # ---- Upkeep --------------------------------------------------------------------------------------------------

    def expire(self, now: int, bounds: Bounds, most: int) -> int:
        """As `Store.expire`; of many that have just arrived nobody looks at the age before they are carried over."""
        with self._file as db:
            arrivals = self._of(db)
            if len(arrivals.current().entries) <= _AT_ONCE_OVER:
                settle(db, arrivals)
            forgotten = -1
            try:
                forgotten = self._expiry.expire(db, now, bounds, most, arrivals.epoch)
            finally:
                if forgotten:
                    _say_changed(arrivals)
            return forgotten

    def figures(self) -> list[Figures]:
        """As `Store.figures`; reads all of an index."""
        with self._file as db:
            self._carry_over(db)
            return sqlite_upkeep.figures(db)

    def erase(self, tenant: str) -> int:
        """As `Store.erase`; not in one step, for that would keep other processes waiting."""
        with self._file as db:
            self._carry_over(db)
            try:
                return sqlite_upkeep.erase(db, tenant)
            finally:
                _say_changed(self._of(db))

    def rows(self, after: tuple[str, str, str], most: int) -> list[Row]:
        """As `Store.rows`."""
        with self._file as db:
            self._carry_over(db)
            return sqlite_upkeep.rows(db, after, most)

    def put_rows(self, rows: Sequence[Row]) -> int:
        """As `Store.put_rows`."""
        with self._file as db, (arrivals := self._of(db)) as young:
            known = young.entries
            arrivals.seen.doubt()
            # Others are told before it is done.
            arrivals.append(())
            return sqlite_upkeep.put_rows(
                db, [row for row in rows if (TASK if row.task else CONTEXT, row.scope, row.id) not in known]
            )

    def notes(self, after: tuple[str, str], most: int) -> list[Note]:
        """As `Store.notes`."""
        with self._file as db:
            return sqlite_upkeep.notes(db, after, most, self._wall())

    # ---- Arrivals ------------------------------------------------------------------------------------------------

    def _of(self, db: sqlite3.Connection) -> Arrivals:
        """What has arrived of the ledger that is open."""
        arrivals = self._arrivals
        if arrivals is None or self._db is not db:
            if arrivals is not None:
                arrivals.close()
            # Of another file at this place the numbers may be those of the one before.
            self._carrier.succession.forget()
            arrivals = self._arrivals = arrivals_of(db, self._file.path, self._carrier.succession)
            self._carrier.loop, self._db = arrivals, db
        return arrivals

    def _carry_over(self, db: sqlite3.Connection) -> None:
        """Have all in the tables, for what goes through them."""
        arrivals = self._of(db)
        if len(arrivals.current().entries) > _AT_ONCE_OVER:
            carry_over(db, arrivals)
        settle(db, arrivals)


def _say_changed(arrivals: Arrivals) -> None:
    """Have every process forget what it remembers of the tables, from its next call on."""
    with arrivals as young:
        young.tables.clear()
        arrivals.append(())


def _task(found: tuple[str, str, str, str, str, str, int, int] | None) -> Task | None:
    if found is None:
        return None
    tenant, principal, context, state, replica, dialect, made, seen = found
    return Task(Owner(tenant, principal), context, state, replica, dialect, made, seen)


def _number(found: sqlite3.Cursor) -> int:
    (number,) = found.fetchone()
    return int(number)


def _value(db: sqlite3.Connection, kind: str, key: str, now: float) -> bytes | None:
    found = db.execute(_NOTE, (kind, key, now)).fetchone()
    return None if found is None else bytes(found[0])


def _values(note: Note) -> tuple[str, str, bytes, str, str, float, int]:
    return note.kind, note.key, note.value, note.tenant, note.group, note.due, note.until
