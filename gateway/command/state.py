"""`a2a-gateway state`: what the gateway remembers of tasks, to look at, to erase and to take elsewhere."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gateway.a2a.fault import StateUnavailable
from gateway.command.answer import CommandFailed
from gateway.config import effective
from gateway.config.check import examine
from gateway.config.problem import as_text
from gateway.config.secrets import Interpolation
from gateway.config.state import StateUrl, read_state
from gateway.push.signing import Rotated, rotate
from gateway.tasks import opening
from gateway.tasks.store import Figures, Row, Store, StoreBroken
from gateway.telemetry.audit import AuditLog, Event

T = TypeVar("T")

_BATCH = 500
_SECRET = "secret"  # noqa: S105 - no secret, but what those are called
"""The kind of notes from which marks, tokens and signatures are made."""
_PATIENCE = 30.0
"""Seconds for a reply: nobody's call waits for it."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """A place where state is kept.

    Attributes:
        place: Where the configuration says so, such as `gateway.yaml:7`; empty where somebody typed it.
        audit: The file of audit events, or None where they go into a log of the gateway's process.
    """

    state: StateUrl
    place: str = ""
    audit: Path | None = None


@dataclass(frozen=True, slots=True)
class Copied:
    """What `migrate` has done: how much there was, and how much of it the other place did not have."""

    entries: int
    new_entries: int
    notes: int
    new_notes: int

    def in_words(self) -> str:
        """The same for people."""
        entries = f"{self.new_entries} of {_counted(self.entries, 'entry', 'entries')} copied"
        return f"{entries}, {self.new_notes} of {_counted(self.notes, 'note')}; the rest was there"


def written(file: Path, environ: Mapping[str, str]) -> Keeping:
    """Where a configuration says that state is kept.

    Raises:
        CommandFailed: it has errors.
    """
    examined = examine(file, environ)
    if examined.config is None:
        raise CommandFailed(as_text(examined.errors))
    state = effective.state(examined.config, examined.marks, environ, Path.cwd())
    audit = effective.audit(examined.config, examined.marks)
    place = examined.marks.place(("gateway", "state")) if examined.config.gateway.state is not None else ""
    return Keeping(state, str(place), None if audit == effective.STANDARD_OUTPUT else audit)


def typed(text: str, environ: Mapping[str, str]) -> Keeping:
    """The place that somebody typed, as the configuration would write it.

    Relative paths are those of the working directory. A password need not be typed: `${VAR}` and `${file:PATH}` are
    filled in as they are in the configuration.

    Raises:
        CommandFailed: it is none.
    """
    value, faults = Interpolation(environ).fill(text, Path.cwd())
    for fact, remedy in faults:
        raise CommandFailed(f"{fact}\n  → {remedy}", code=2)
    try:
        return Keeping(read_state(value).beside(Path.cwd()))
    except ValueError as error:
        fact, remedy = error.args
        raise CommandFailed(f"a state URL {fact}\n  → {remedy}", code=2) from error


async def figures(keeping: Keeping) -> list[Figures]:
    """What is remembered of each tenant, by name.

    Raises:
        CommandFailed: the place is not there.
    """
    async with _opened(keeping) as store:
        return sorted(await _ask(store, store.figures), key=lambda one: one.tenant)


async def erase(keeping: Keeping, tenant: str) -> int:
    """Forget all that belongs to a tenant; gives how many entries there were. The audit log tells it.

    Raises:
        CommandFailed: the place is not there, or the audit log cannot be written; then nothing was erased.
    """
    async with _opened(keeping) as store:
        audit = None if keeping.audit is None else _audit(keeping.audit)
        try:
            erased = await _ask(store, partial(store.erase, tenant))
            if audit is not None:
                told = {"tenant": tenant, "entries": erased, "state": store.label, "detail": "by the command line"}
                audit.write(Event.STATE_ERASED, told)
        finally:
            if audit is not None:
                audit.close()
        return erased


async def rotate_key(keeping: Keeping, now: float, *, drops: bool) -> Rotated:
    """Have another key sign notifications. The audit log tells it.

    Args:
        now: Unix seconds.
        drops: Whether what those before it have signed is to be worth nothing.

    Raises:
        CommandFailed: the place is not there, or the audit log cannot be written; then nothing was done.
    """
    async with _opened(keeping) as store:
        audit = None if keeping.audit is None else _audit(keeping.audit)
        try:
            rotated: Rotated = await _ask(store, lambda: rotate(store, now, drops=drops))
            if audit is not None:
                told = {"kid": rotated.kid, "drops": drops, "state": store.label, "detail": "by the command line"}
                audit.write(Event.KEY_ROTATED, told)
        except ValueError as error:
            raise CommandFailed(f"{store.label}: {error}") from error
        finally:
            if audit is not None:
                audit.close()
        return rotated


async def migrate(source: Keeping, target: Keeping, now: float, *, force: bool = False) -> Copied:
    """Copy everything from one place to another; what the other one knows already stays what it is there.

    So it may be run again, where it was interrupted or where the first place has changed meanwhile.

    Args:
        now: Unix seconds; notes that are past their time are left.
        force: Whether to copy also where the other place has secrets of its own, which stay.

    Raises:
        CommandFailed: a place is not there, or both are the same, or the other one has secrets of its own.
    """
    if source.state.is_same(target.state):
        raise CommandFailed(f"both are {source.state.label}", code=2)
    async with _opened(source) as old, _opened(target, new=True) as fresh:
        if not force:
            await _compare_secrets(old, fresh)
        entries = await _copy_rows(old, fresh)
        notes = await _copy_notes(old, fresh, now)
    return Copied(*entries, *notes)


async def _compare_secrets(old: Store, fresh: Store) -> None:
    """Refuse a place that a gateway has begun anew: with its secrets no mark and no signature would be the same."""
    for note in await _ask(old, partial(old.notes, (_SECRET, ""), _BATCH)):
        if note.kind != _SECRET:
            return
        if await _ask(fresh, partial(fresh.note, note.kind, note.key)) not in (None, note.value):
            raise CommandFailed(
                f"{fresh.label} has been used by a gateway already, and has a secret of its own ({note.key}): contexts "
                "that clients have named would begin anew, and page tokens and signatures be worth nothing\n"
                "  → name an empty place; or add --force, where that may be"
            )


async def _copy_rows(old: Store, fresh: Store) -> tuple[int, int]:
    count = new = 0
    after = ("", "", "")
    while rows := await _ask(old, partial(old.rows, after, _BATCH)):
        count += len(rows)
        new += await _ask(fresh, partial(fresh.put_rows, rows))
        after = _cursor(rows[-1])
    return count, new


def _cursor(row: Row) -> tuple[str, str, str]:
    return ("context" if row.task is None else "task", row.scope, row.id)


async def _copy_notes(old: Store, fresh: Store, now: float) -> tuple[int, int]:
    count = new = 0
    after = ("", "")
    while notes := await _ask(old, partial(old.notes, after, _BATCH)):
        for note in notes:
            if note.until and note.until <= now:
                continue
            count += 1
            if await _ask(fresh, partial(fresh.note, note.kind, note.key)) is None:
                await _ask(fresh, partial(fresh.settle, note))
                new += 1
        after = (notes[-1].kind, notes[-1].key)
    return count, new


@asynccontextmanager
async def _opened(keeping: Keeping, *, new: bool = False) -> AsyncIterator[Store]:
    """The store at a place.

    Args:
        new: Whether it may be made.
    """
    state = keeping.state
    where = f"{keeping.place}: " if keeping.place else ""
    if state.kind == "memory":
        fact = "state is kept in the memory of the gateway's process, and gone with it: nobody else can reach it"
        raise CommandFailed(f"{where}{fact}")
    if not new and _is_missing(state):
        raise CommandFailed(f"{where}there is no {state.path}: a gateway makes it when it starts")
    store: Store | None = None
    try:
        store = opening.make(state, _PATIENCE)
        await store.open()
        yield store
    except StoreBroken as broken:
        raise CommandFailed(f"{where}{broken}") from broken
    finally:
        if store is not None:
            await store.aclose()


def _is_missing(state: StateUrl) -> bool:
    """Whether it is a file, and not there: whoever only looks makes none."""
    return state.kind == "sqlite" and not os.path.lexists(state.path)


def _audit(path: Path) -> AuditLog:
    try:
        return AuditLog.open(path)
    except OSError as error:
        fact = f"the audit log {path} cannot be written: {error.strerror}; nothing was done"
        raise CommandFailed(fact) from error


async def _ask(store: Store, question: Callable[[], Awaitable[T]]) -> T:
    """What a store answers.

    Raises:
        CommandFailed: it does not.
    """
    try:
        return await question()
    except StateUnavailable as fault:
        # What its message says is for clients.
        raise CommandFailed(f"{store.label}: it cannot be used now ({fault.detail})") from fault


# ---- how it is told ------------------------------------------------------------------------------------------------


def as_table(held: list[Figures], label: str) -> str:
    """The figures for people."""
    if not held:
        return f"{label}: nothing is remembered"
    rows = [("tenant", "tasks", "open", "contexts", "notes")]
    rows += [(one.tenant or "-", str(one.tasks), str(one.open), str(one.contexts), str(one.notes)) for one in held]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            (row[0].ljust(widths[0]), *(word.rjust(width) for word, width in zip(row[1:], widths[1:], strict=True)))
        )
        for row in rows
    ]
    return "\n".join([label, *lines])


def as_json(held: list[Figures], label: str) -> dict[str, Any]:
    """The figures for programs."""
    tenants = [
        {"tenant": one.tenant, "tasks": one.tasks, "open": one.open, "contexts": one.contexts, "notes": one.notes}
        for one in held
    ]
    return {"ok": True, "state": label, "tenants": tenants}


def in_words(held: Figures) -> str:
    """What is remembered of one tenant, such as `12 tasks (3 open), 2 contexts, 1 note`."""
    counts = [
        f"{_counted(held.tasks, 'task')}{f' ({held.open} open)' if held.open else ''}",
        _counted(held.contexts, "context"),
        _counted(held.notes, "note"),
    ]
    return ", ".join(counts)


def _counted(number: int, what: str, several: str = "") -> str:
    return f"{number} {what if number == 1 else several or what + 's'}"
