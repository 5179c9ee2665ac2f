"""One sighting, and what becomes of it in the ledger in a file: whose it all is, and what is written down where.

It is decided while the arrivals are held, so nobody else meets anything meanwhile: what is neither young nor in the
tables then is new, and goes to the arrivals in one line, all or nothing. What is young and has changed goes there too;
what is in the tables is changed there.
"""

import sqlite3
from typing import Any

from msgspec.structs import replace

from gateway.tasks.sqlite_arrivals import Arrivals
from gateway.tasks.sqlite_schema import CONTEXT, TASK
from gateway.tasks.sqlite_upkeep import LEFT_ALONE
from gateway.tasks.sqlite_young import Entry, Young
from gateway.tasks.store import LONGEST_ID, OPEN, SEEN_AGAIN, Met, Owner, Sighting, later_state

_LOOK = """
    SELECT kind, tenant, principal, context, state, seen, aged FROM record WHERE kind = 1 AND scope = ? AND id = ?
    UNION ALL
    SELECT kind, tenant, principal, context, state, seen, aged FROM record WHERE kind = 0 AND scope = ? AND id = ?"""
_TASK_AGAIN = """
    UPDATE record SET seen = max(seen, ?), state = coalesce(?, state), open = coalesce(?, open),
        context = CASE context WHEN '' THEN ? ELSE context END
    WHERE kind = 1 AND scope = ? AND id = ? AND tenant = ?"""
_CONTEXT_AGAIN = "UPDATE record SET seen = max(seen, ?) WHERE kind = 0 AND scope = ? AND id = ? AND tenant = ?"


def meet(  # noqa: C901, PLR0912 - in one go: a call of Python's for each step would be a tenth of what it costs
    db: sqlite3.Connection, arrivals: Arrivals, young: Young, scope: str, sighting: Sighting
) -> Met:
    """As `Store.meet`; only while the arrivals are held.

    Raises:
        sqlite3.Error, OSError: it cannot be written down; nothing new was.
    """
    task = sighting.task if len(sighting.task) <= LONGEST_ID else ""
    context = sighting.context if len(sighting.context) <= LONGEST_ID else ""
    task_name, context_name = (TASK, scope, task), (CONTEXT, scope, context)
    task_entry = young.entries.get(task_name) if task else None
    context_entry = young.entries.get(context_name) if context else None
    task_row: list[Any] | None = None
    context_row: list[Any] | None = None
    seen = arrivals.seen
    if not seen.ready:
        seen.go_on(young.entries)
    if (task and task_entry is None and seen.may_hold(task_name)) or (
        context and context_entry is None and seen.may_hold(context_name)
    ):
        for kind, *row in db.execute(_LOOK, (scope, task, scope, context)):
            if kind == TASK:
                task_row = row
            else:
                context_row = row
    owner, of_task, of_context = sighting.owner, None, None
    if task_entry is not None or task_row is not None:
        of_task = _owner(task_entry, task_row)
    if context_entry is not None or context_row is not None:
        of_context = _owner(context_entry, context_row)
    if (of_task is not None or of_context is not None) and sighting.is_foreign(of_task, of_context):
        return Met(of_task, of_context)
    news: list[Entry] = []
    # Where the task has another context, nobody would look at the age of this one (`aged`).
    comes_with_task = not task
    changed = False
    if task_entry is not None:
        comes_with_task = task_entry.context in ("", context)
        if (again := _task_again(task_entry, sighting, context)) is not None:
            news.append(again)
    elif task_row is not None:
        comes_with_task = task_row[2] in ("", context)
        if _renew_task(db, scope, sighting, context, task_row):
            young.tables.pop((scope, task), None)
            changed = True
    elif task:
        news.append(_new_task(scope, sighting, task, context))
        comes_with_task = False
    if context_entry is not None:
        if (again := _context_again(context_entry, sighting, comes_with_task=comes_with_task)) is not None:
            news.append(again)
    elif context_row is not None:
        _renew_context(db, scope, sighting, context_row, comes_with_task=comes_with_task)
    elif context:
        # Who comes with a new task is not aged before that is forgotten.
        aged = 0 if task and of_task is None else 1
        tenant, principal = owner.tenant, owner.principal
        news.append(Entry(CONTEXT, scope, context, tenant, principal, "", "", "", "", 0, sighting.now, aged))
    if changed:
        # What the others remember of the tables may be old now.
        arrivals.append(())
    if news:
        arrivals.append(news)
    return Met((of_task or owner) if task else None, (of_context or owner) if context else None)


def _new_task(scope: str, sighting: Sighting, task: str, context: str) -> Entry:
    owner, now = sighting.owner, sighting.now
    tenant, principal = owner.tenant, owner.principal
    replica, dialect = sighting.replica, sighting.dialect
    return Entry(TASK, scope, task, tenant, principal, context, sighting.state, replica, dialect, now, now)


def _task_again(known: Entry, sighting: Sighting, within: str) -> Entry | None:
    """A task that has arrived, with what is new of it; None where nothing is."""
    told = later_state(known.state, sighting.state)
    if told == known.state and (known.context or not within) and sighting.now - known.seen < SEEN_AGAIN:
        return None
    return replace(known, context=known.context or within, state=told, seen=max(known.seen, sighting.now))


def _context_again(known: Entry, sighting: Sighting, *, comes_with_task: bool) -> Entry | None:
    """As `_task_again`, of a context."""
    if known.tenant != sighting.owner.tenant:
        return None
    aged = known.aged or int(not comes_with_task)
    if aged == known.aged and sighting.now - known.seen < SEEN_AGAIN:
        return None
    return replace(known, seen=max(known.seen, sighting.now), aged=aged)


def _renew_task(db: sqlite3.Connection, scope: str, sighting: Sighting, within: str, known: list[Any]) -> bool:
    """Write down what is new of a task in the tables; whether anything is."""
    _, _, context, state, seen, _ = known
    now, told = sighting.now, later_state(state, sighting.state)
    if told == state and (context or not within) and now - seen < SEEN_AGAIN:
        return False
    news = (None, None) if told == state else (told, told in OPEN)
    db.execute(_TASK_AGAIN, (now, *news, within, scope, sighting.task, sighting.owner.tenant))
    return True


def _renew_context(
    db: sqlite3.Connection, scope: str, sighting: Sighting, known: list[Any], *, comes_with_task: bool
) -> None:
    """As `_renew_task`, of a context."""
    tenant, *_, seen, aged = known
    if sighting.now - seen >= SEEN_AGAIN:
        db.execute(_CONTEXT_AGAIN, (sighting.now, scope, sighting.context, sighting.owner.tenant))
    if not aged and not comes_with_task and tenant == sighting.owner.tenant:
        db.execute(LEFT_ALONE, (scope, sighting.context, tenant))


def _owner(entry: Entry | None, row: list[Any] | None) -> Owner | None:
    if entry is not None:
        return Owner(entry.tenant, entry.principal)
    return None if row is None else Owner(row[0], row[1])
