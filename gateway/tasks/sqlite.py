"""The ledger in a file of SQLite: the default, which a restart leaves as it was.

It is read and written on the event loop: with a log, and no waiting for the disk, that takes microseconds, and to ask a
thread would take longer. What was answered survives the end of this process, whatever ends it; a power cut may lose
the last of it. Several processes of one machine may use the file, each by one store.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite_upkeep
from gateway.tasks.sqlite_checkpoint import Checkpoints
from gateway.tasks.sqlite_file import SORRY, LedgerFile, step
from gateway.tasks.sqlite_schema import CONTEXT, TASK, dial
from gateway.tasks.sqlite_upkeep import LEFT_ALONE, Expiry
from gateway.tasks.store import (
    LONGEST_ID,
    OPEN,
    SEEN_AGAIN,
    Bounds,
    Figures,
    Met,
    Note,
    Owner,
    Row,
    Sighting,
    Soon,
    Task,
    later_state,
)  # fmt: skip

# Tasks and contexts that are remembered to be known: those are looked for first, all others are written first.
_MOST_MET = 20_000
# Times that an entry is met while others forget it.
_ATTEMPTS = 3
# Seconds that a count waits for whoever holds the file.
_PATIENCE = 1.0

_TASK = """
    SELECT tenant, principal, context, state, replica, dialect, made, seen FROM entry
    WHERE kind = 1 AND scope = ? AND id = ?"""
_CONTEXT = "SELECT tenant, principal FROM entry WHERE kind = 0 AND scope = ? AND id = ?"

_LOOK = """
    SELECT kind, tenant, principal, context, state, seen, aged FROM entry WHERE kind = 1 AND scope = ? AND id = ?
    UNION ALL
    SELECT kind, tenant, principal, context, state, seen, aged FROM entry WHERE kind = 0 AND scope = ? AND id = ?"""
_INTO = (
    "INSERT INTO entry (kind, scope, id, tenant, principal, seen, context, state, open, replica, dialect, made, aged)"
)
_ADD_TASK = f"{_INTO} VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO NOTHING"
_ADD_CONTEXT = f"{_INTO} VALUES (0, ?, ?, ?, ?, ?, '', '', 0, '', '', 0, 1) ON CONFLICT DO NOTHING"
# Both or neither: where one is known, the other is written only once it is known whose that one is.
_ADD_BOTH = f"{_INTO} VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1), (0, ?, ?, ?, ?, ?, '', '', 0, '', '', 0, 0)"
_TASK_AGAIN = """
    UPDATE entry SET seen = max(seen, ?), state = coalesce(?, state), open = coalesce(?, open),
        context = CASE context WHEN '' THEN ? ELSE context END
    WHERE kind = 1 AND scope = ? AND id = ? AND tenant = ?"""
_CONTEXT_AGAIN = "UPDATE entry SET seen = max(seen, ?) WHERE kind = 0 AND scope = ? AND id = ? AND tenant = ?"

# What takes longer to count than calls may wait for each other is counted in a thread.
_AT_ONCE = 1_000
_OPEN_TASKS = "SELECT 1 FROM entry WHERE aged = 1 AND tenant = ? AND kind = 1 AND open = 1"
_COUNT = "SELECT 1 FROM entry WHERE aged = 1 AND tenant = ? AND kind = 1 AND scope = ?"
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
        self._file = LedgerFile(path)
        self._wall = wall
        self._checkpoints: Checkpoints | None = None
        self._expiry = Expiry()
        self._met: set[tuple[int, str, str]] = set()
        self._counting: dict[tuple[str, tuple[str, ...]], asyncio.Future[int]] = {}

    async def open(self) -> None:
        """As `Store.open`; what cannot be used at the moment is opened by the first call that can."""
        self._file.open()
        self._checkpoints = Checkpoints(self._file.path, astray=self._file.watch)

    async def aclose(self) -> None:
        """Let go of the file. Who lets go of it last carries the log over: here, that is not the event loop."""
        self._file.close()
        if self._checkpoints is not None:
            await asyncio.to_thread(self._checkpoints.stop)

    # ---- Tasks and contexts --------------------------------------------------------------------------------------

    def tasks(self, scope: str, ids: Sequence[str]) -> list[Task | None]:
        """As `Store.tasks`."""
        with self._file as db:
            if len(ids) == 1:
                return [_task(db.execute(_TASK, (scope, ids[0])).fetchone())]
            return [_task(db.execute(_TASK, (scope, task)).fetchone()) for task in ids]

    def context(self, scope: str, id: str) -> Owner | None:  # noqa: A002 - the word
        """As `Store.context`."""
        with self._file as db:
            found = db.execute(_CONTEXT, (scope, id)).fetchone()
        return None if found is None else Owner(*found)

    def meet(self, scope: str, sighting: Sighting) -> Met:
        """As `Store.meet`; what is new is written by one statement, and so is each thing that has changed."""
        with self._file as db:
            return self._meet(db, scope, sighting)

    @contextlib.contextmanager
    def together(self) -> Iterator[Callable[[str, Sighting], Met]]:
        """What meets what it is told of, all of it in one transaction; nothing may be awaited inside.

        Raises:
            StateUnavailable: nothing was written.
        """
        with self._file as db, step(db):
            yield partial(self._meet, db)

    def _meet(self, db: sqlite3.Connection, scope: str, sighting: Sighting) -> Met:
        task = sighting.task if len(sighting.task) <= LONGEST_ID else ""
        context = sighting.context if len(sighting.context) <= LONGEST_ID else ""
        if not task and not context:
            return Met()
        met = {(kind, scope, id_) for kind, id_ in ((TASK, task), (CONTEXT, context)) if id_}
        if self._met.isdisjoint(met):
            # Most ids are new when they are met for the first time, so nobody asks before.
            if len(self._met) >= _MOST_MET:
                self._met.clear()
            added = _add(db, scope, sighting, task, context, within=context)
            self._met |= met
            if added:
                return Met(sighting.owner if task else None, sighting.owner if context else None)
        return _meet_again(db, scope, sighting, task, context)

    def open_tasks(self, tenant: str) -> Soon[int]:
        """As `Store.open_tasks`; at once, or where there are many from a thread."""
        return self._number(_OPEN_TASKS, (tenant,))

    def count(self, scope: str, owner: Owner, context: str = "") -> Soon[int]:
        """As `Store.count`; at once, or where the tenant has many tasks from a thread."""
        tenant, principal = owner.tenant, owner.principal
        if context and principal:
            return self._number(_COUNT_OF_PRINCIPAL_IN_CONTEXT, (tenant, scope, principal, context))
        if context:
            return self._number(_COUNT_IN_CONTEXT, (tenant, scope, context))
        if principal:
            return self._number(_COUNT_OF_PRINCIPAL, (tenant, scope, principal))
        return self._number(_COUNT, (tenant, scope))

    def _number(self, of: str, names: tuple[str, ...]) -> Soon[int]:
        counting = self._counting.get((of, names))
        if counting is None:
            with self._file as db:
                found = _number(db.execute(f"SELECT count(*) FROM ({of} LIMIT {_AT_ONCE})", names))  # noqa: S608 - constant
            if found < _AT_ONCE:
                return found
            counting = self._counting[of, names] = asyncio.ensure_future(self._count_aside(of, names))
            counting.add_done_callback(lambda _: self._counting.pop((of, names), None))
        # Whoever asks meanwhile is answered with it, and nobody who leaves takes it from the others.
        return asyncio.shield(counting)

    async def _count_aside(self, of: str, names: tuple[str, ...]) -> int:
        def count() -> int:
            with contextlib.closing(dial(self._file.path, _PATIENCE)) as db:
                return _number(db.execute(f"SELECT count(*) FROM ({of})", names))  # noqa: S608 - constant

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
        """As `Store.expire`."""
        with self._file as db:
            return self._expiry.expire(db, now, bounds, most)

    def figures(self) -> list[Figures]:
        """As `Store.figures`; reads all of an index."""
        with self._file as db:
            return sqlite_upkeep.figures(db)

    def erase(self, tenant: str) -> int:
        """As `Store.erase`; not in one step, for that would keep other processes waiting."""
        with self._file as db:
            return sqlite_upkeep.erase(db, tenant)

    def rows(self, after: tuple[str, str, str], most: int) -> list[Row]:
        """As `Store.rows`."""
        with self._file as db:
            return sqlite_upkeep.rows(db, after, most)

    def put_rows(self, rows: Sequence[Row]) -> int:
        """As `Store.put_rows`."""
        with self._file as db:
            return sqlite_upkeep.put_rows(db, rows)

    def notes(self, after: tuple[str, str], most: int) -> list[Note]:
        """As `Store.notes`."""
        with self._file as db:
            return sqlite_upkeep.notes(db, after, most, self._wall())


def _add(db: sqlite3.Connection, scope: str, sighting: Sighting, task: str, context: str, *, within: str) -> bool:
    """Write down a task, a context or both; whether none of it was known, or else nothing is written.

    Args:
        task: Empty for none.
        context: Empty for none.
        within: The context of the task.
    """
    owner, now, state = sighting.owner, sighting.now, sighting.state
    tenant, principal = owner.tenant, owner.principal
    if not task:
        return db.execute(_ADD_CONTEXT, (scope, context, tenant, principal, now)).rowcount == 1
    of_task = (
        scope, task, tenant, principal, now, within, state, state in OPEN, sighting.replica, sighting.dialect, now
    )  # fmt: skip
    if not context:
        return db.execute(_ADD_TASK, of_task).rowcount == 1
    try:
        db.execute(_ADD_BOTH, (*of_task, scope, context, tenant, principal, now))
    except sqlite3.IntegrityError:
        return False
    return True


def _meet_again(db: sqlite3.Connection, scope: str, sighting: Sighting, task: str, context: str) -> Met:
    """Meet what is known at least in part."""
    for _ in range(_ATTEMPTS):
        found = {kind: known for kind, *known in db.execute(_LOOK, (scope, task, scope, context)).fetchall()}
        of_task, of_context = _owner(found.get(TASK)), _owner(found.get(CONTEXT))
        if sighting.is_foreign(of_task, of_context):
            return Met(of_task, of_context)
        # Where the task has another context, nobody would look at the age of this one (`aged`).
        comes_with_task = not task
        if TASK in found:
            _, _, *known, _ = found[TASK]
            comes_with_task = known[0] in ("", context)
            _renew_task(db, scope, sighting, context, known)
        if CONTEXT in found:
            tenant, *_, seen, aged = found[CONTEXT]
            _renew_context(db, scope, sighting, seen)
            if not aged and not comes_with_task and tenant == sighting.owner.tenant:
                db.execute(LEFT_ALONE, (scope, context, tenant))
        new_task = task if of_task is None else ""
        new_context = context if of_context is None else ""
        if not new_task and not new_context:
            return Met(of_task, of_context)
        if _add(db, scope, sighting, new_task, new_context, within=context):
            return Met(of_task or sighting.owner if task else None, of_context or sighting.owner if context else None)
    raise StateUnavailable(SORRY, detail="an entry is forgotten as often as it is met")


def _renew_task(db: sqlite3.Connection, scope: str, sighting: Sighting, within: str, known: list[str | int]) -> None:
    """Write down what is new of a task, if anything is.

    Args:
        within: The context it is in, or empty.
        known: Its context, its state, and when it was seen.
    """
    context, state, seen = known
    now, told = sighting.now, later_state(str(state), sighting.state)
    if told == state and (context or not within) and now - int(seen) < SEEN_AGAIN:
        return
    news = (None, None) if told == state else (told, told in OPEN)
    db.execute(_TASK_AGAIN, (now, *news, within, scope, sighting.task, sighting.owner.tenant))


def _renew_context(db: sqlite3.Connection, scope: str, sighting: Sighting, seen: int) -> None:
    if sighting.now - seen >= SEEN_AGAIN:
        db.execute(_CONTEXT_AGAIN, (sighting.now, scope, sighting.context, sighting.owner.tenant))


def _task(found: tuple[str, str, str, str, str, str, int, int] | None) -> Task | None:
    if found is None:
        return None
    tenant, principal, context, state, replica, dialect, made, seen = found
    return Task(Owner(tenant, principal), context, state, replica, dialect, made, seen)


def _owner(found: list[Any] | None) -> Owner | None:
    return None if found is None else Owner(found[0], found[1])


def _number(found: sqlite3.Cursor) -> int:
    (number,) = found.fetchone()
    return int(number)


def _value(db: sqlite3.Connection, kind: str, key: str, now: float) -> bytes | None:
    found = db.execute(_NOTE, (kind, key, now)).fetchone()
    return None if found is None else bytes(found[0])


def _values(note: Note) -> tuple[str, str, bytes, str, str, float, int]:
    return note.kind, note.key, note.value, note.tenant, note.group, note.due, note.until
