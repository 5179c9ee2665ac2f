"""`a2a-gateway state`: count, erase and migrate the ledger, and rotate the keys that it holds."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import asdict, astuple

from gateway.a2a.fault import StateUnavailable
from gateway.commands.config_file import examine_file
from gateway.commands.output import CommandFailed, aligned
from gateway.config import effective
from gateway.config.secrets import Interpolation
from gateway.tasks.key_ring import Purpose, Rotated, rotate
from gateway.tasks.ledger import make_store
from gateway.tasks.state_url import StateUrl, read_state
from gateway.tasks.store import Figures, Store, StoreBroken
from gateway.telemetry.audit_log import AuditEvent, AuditLog

T = TypeVar("T")

_BATCH = 500
_SECRET = "secret"  # noqa: S105 - no secret, but what those are called
"""The kind of notes from which context prefixes, tokens and signatures are derived."""
_TIMEOUT = 30.0
"""Timeout of a reply of the store in seconds; no call waits for it."""


@dataclass(frozen=True, slots=True)
class StatePlace:
    """The place of the ledger.

    Attributes:
        place: Its place in the configuration, such as `gateway.yaml:7`; empty for `--state`.
        audit: The file of audit events; None if they go to the log of the gateway.
    """

    state: StateUrl
    place: str = ""
    audit: Path | None = None


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of `migrate`: entries and notes of the source, and those that the target did not have."""

    entries: int
    new_entries: int
    notes: int
    new_notes: int

    def in_words(self) -> str:
        """Return the result for people."""
        entries = f"{self.new_entries} of {_counted(self.entries, 'entry', 'entries')} copied"
        return f"{entries}, {self.new_notes} of {_counted(self.notes, 'note')}; the rest existed already"


def configured_state(file: Path, environ: Mapping[str, str]) -> StatePlace:
    """Return the place of the ledger of a configuration.

    Raises:
        CommandFailed: The configuration has errors.
    """
    examined = examine_file(file, environ)
    config, marks = examined.config, examined.marks
    assert config is not None
    state = effective.state(config, marks, environ, Path.cwd())
    audit = effective.audit(config, marks)
    place = marks.place(("gateway", "state")) if config.gateway.state is not None else ""
    return StatePlace(state, str(place), None if audit == effective.STANDARD_OUTPUT else audit)


def state_from_url(text: str, environ: Mapping[str, str]) -> StatePlace:
    """Return the place of a URL; `${VAR}` and `${file:PATH}` are filled in, paths start at the working directory.

    Raises:
        CommandFailed: The URL is invalid.
    """
    value, faults = Interpolation(environ).fill(text, Path.cwd())
    for fact, remedy in faults:
        raise CommandFailed(f"{fact}\n  → {remedy}", code=2)
    try:
        return StatePlace(read_state(value).beside(Path.cwd()))
    except ValueError as error:
        fact, remedy = error.args
        raise CommandFailed(f"a state URL {fact}\n  → {remedy}", code=2) from error


async def figures(place: StatePlace) -> list[Figures]:
    """Return the figures of each tenant, by name.

    Raises:
        CommandFailed: The store does not exist.
    """
    async with _opened(place) as store:
        return sorted(await _ask(store, store.figures()), key=lambda one: one.tenant)


async def erase(place: StatePlace, tenant: str) -> int:
    """Erase everything of a tenant, record it in the audit log, and return the number of entries.

    Raises:
        CommandFailed: The store does not exist, or the audit log cannot be written; nothing was erased.
    """
    async with _opened(place) as store:
        with _audited(place) as record:
            erased = await _ask(store, store.erase(tenant))
            record(AuditEvent.STATE_ERASED, {"tenant": tenant, "entries": erased, "state": store.label})
        return erased


async def rotate_key(place: StatePlace, purpose: Purpose, now: float, *, drops: bool) -> Rotated:
    """Rotate the key that signs for a purpose, and record it in the audit log.

    Args:
        now: Unix seconds.
        drops: Whether the previous keys are revoked.

    Raises:
        CommandFailed: The store does not exist, or the audit log cannot be written; nothing was done.
    """
    async with _opened(place) as store:
        with _audited(place) as record:
            try:
                rotated: Rotated = await _ask(store, rotate(store, purpose, now, drops=drops))
            except ValueError as error:
                raise CommandFailed(f"{store.label}: {error}") from error
            fields = {"use": purpose.signs, "kid": rotated.kid, "drops": drops, "state": store.label}
            record(AuditEvent.KEY_ROTATED, fields)
        return rotated


async def migrate(source: StatePlace, target: StatePlace, now: float, *, force: bool = False) -> Copied:
    """Copy a ledger to another store; existing entries of the target stay, so it can be run again.

    Args:
        now: Unix seconds; expired notes are not copied.
        force: Whether to copy to a target with secrets of its own, which stay.

    Raises:
        CommandFailed: A store does not exist, both are the same, or the target has secrets of its own.
    """
    if source.state.is_same(target.state):
        raise CommandFailed(f"both are {source.state.label}: name two stores", code=2)
    async with _opened(source) as old, _opened(target, new=True) as fresh:
        if not force:
            await _compare_secrets(old, fresh)
        entries = await _copy_rows(old, fresh)
        notes = await _copy_notes(old, fresh, now)
    return Copied(*entries, *notes)


async def _compare_secrets(old: Store, fresh: Store) -> None:
    """Refuse a target with other secrets: context prefixes and signatures would become invalid."""
    for note in await _ask(old, old.notes((_SECRET, ""), _BATCH)):
        if note.kind != _SECRET:
            return
        if await _ask(fresh, fresh.note(note.kind, note.key)) not in (None, note.value):
            raise CommandFailed(
                f"{fresh.label} was used by a gateway already and has a secret of its own ({note.key}): contexts that "
                "clients have named, page tokens and signatures would become invalid\n"
                "  → name an empty store, or add --force to accept that"
            )


async def _copy_rows(old: Store, fresh: Store) -> tuple[int, int]:
    count = new = 0
    after = ("", "", "")
    while rows := await _ask(old, old.rows(after, _BATCH)):
        count += len(rows)
        new += await _ask(fresh, fresh.put_rows(rows))
        last = rows[-1]
        after = ("context" if last.task is None else "task", last.scope, last.id)
    return count, new


async def _copy_notes(old: Store, fresh: Store, now: float) -> tuple[int, int]:
    count = new = 0
    after = ("", "")
    while notes := await _ask(old, old.notes(after, _BATCH)):
        for note in notes:
            if note.until and note.until <= now:
                continue
            count += 1
            if await _ask(fresh, fresh.note(note.kind, note.key)) is None:
                await _ask(fresh, fresh.settle(note))
                new += 1
        after = (notes[-1].kind, notes[-1].key)
    return count, new


@asynccontextmanager
async def _opened(place: StatePlace, *, new: bool = False) -> AsyncIterator[Store]:
    """Open the store at a place.

    Args:
        new: Whether it may be created.
    """
    state = place.state
    where = f"{place.place}: " if place.place else ""
    if state.kind == "memory":
        fact = "the ledger is in the memory of the gateway's process, where no other process can read it"
        raise CommandFailed(f"{where}{fact}")
    if not new and _is_missing(state):
        raise CommandFailed(f"{where}there is no {state.path}: a gateway makes it when it starts")
    store: Store | None = None
    try:
        store = make_store(state, _TIMEOUT)
        await store.open()
        yield store
    except StoreBroken as broken:
        raise CommandFailed(f"{where}{broken}") from broken
    finally:
        if store is not None:
            await store.aclose()


def _is_missing(state: StateUrl) -> bool:
    """Return whether it is a file that does not exist; reading must not create it."""
    return state.kind == "sqlite" and not os.path.lexists(state.path)


@contextmanager
def _audited(place: StatePlace) -> Iterator[Callable[[AuditEvent, dict[str, Any]], None]]:
    """Yield the function that records an event in the audit log, if there is a file of it."""
    if place.audit is None:
        yield lambda _event, _fields: None
        return
    try:
        audit = AuditLog.open(place.audit)
    except OSError as error:
        fact = f"the audit log {place.audit} cannot be written: {error.strerror}; nothing was done"
        raise CommandFailed(fact) from error
    try:
        yield lambda event, fields: audit.write(event, {**fields, "detail": "by the command line"})
    finally:
        audit.close()


async def _ask(store: Store, question: Awaitable[T]) -> T:
    """Return the answer of a store.

    Raises:
        CommandFailed: The store does not answer.
    """
    try:
        return await question
    except StateUnavailable as fault:
        # Its message is for clients.
        raise CommandFailed(f"{store.label}: it cannot be used now ({fault.detail})") from fault


# ---- output ---------------------------------------------------------------------------------------------------------


def as_table(held: list[Figures], label: str) -> str:
    """Return the figures for people."""
    if not held:
        return f"{label}: no entries"
    rows = [Figures.__struct_fields__, *((one.tenant or "-", *map(str, astuple(one)[1:])) for one in held)]
    return f"{label}\n{aligned(rows, numbers=True)}"


def as_json(held: list[Figures], label: str) -> dict[str, Any]:
    """Return the figures for programs."""
    return {"ok": True, "state": label, "tenants": [asdict(one) for one in held]}


def in_words(held: Figures) -> str:
    """Return the figures of one tenant, such as `12 tasks (3 open), 2 contexts, 1 note`."""
    tasks = _counted(held.tasks, "task") + (f" ({held.open} open)" if held.open else "")
    return ", ".join((tasks, _counted(held.contexts, "context"), _counted(held.notes, "note")))


def _counted(number: int, what: str, several: str = "") -> str:
    return f"{number} {what if number == 1 else several or what + 's'}"
