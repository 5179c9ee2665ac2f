"""Records that tests put into a store of the ledger, and helpers to look them up."""

import time
from collections.abc import Sequence
from typing import Any

from gateway.tasks.store import Note, Observed, Owner, Row, Store, Task

NOW = int(time.time())
HOUR = 3600
DAY = 24 * HOUR

ACME = Owner("acme")
GLOBEX = Owner("globex")
ANN = Owner("acme", "ann")
BOB = Owner("acme", "bob")

# Ids as agents may make them: any text, also such as a key or a query could trip over.
STRANGE = (
    "a b",
    "a:b",
    "a\0b",
    "a\0",
    "\0",
    "{a}",
    "'",
    '"',
    "%",
    "*",
    "a\r\nb",
    "ä",
    "a\u0308",
    "\U0001f600",
    "A",
    "a",
)


def sighting(
    owner: Owner = ACME, task: str = "", context: str = "", state: str = "", *, at: int = NOW, **more: Any
) -> Observed:
    return Observed(owner, task, context, state, now=at, **more)


async def known(store: Store, task: str, scope: str = "crm") -> Task | None:
    (found,) = await store.tasks(scope, [task])
    return found


async def owner_of(store: Store, task: str, scope: str = "crm") -> Owner | None:
    found = await known(store, task, scope)
    return found.owner if found else None


async def fill(store: Store, tasks: Sequence[str], owner: Owner = ACME, state: str = "working", at: int = NOW) -> None:
    """Tasks without contexts, each a second after the one before."""
    for number, task in enumerate(tasks):
        await store.record("crm", sighting(owner, task, state=state, at=at + number))


async def which(store: Store, tasks: Sequence[str]) -> list[str]:
    """Return the tasks that are known."""
    return [task for task, found in zip(tasks, await store.tasks("crm", tasks), strict=True) if found]


async def all_rows(store: Store, most: int = 1000) -> list[Row]:
    found: list[Row] = []
    after = ("", "", "")
    while rows := await store.rows(after, most):
        assert len(rows) <= most
        found += rows
        last = rows[-1]
        after = ("task" if last.task else "context", last.scope, last.id)
    return found


async def all_notes(store: Store, most: int = 1000) -> list[Note]:
    found: list[Note] = []
    after = ("", "")
    while notes := await store.notes(after, most):
        assert len(notes) <= most
        found += notes
        after = (notes[-1].kind, notes[-1].key)
    return found
