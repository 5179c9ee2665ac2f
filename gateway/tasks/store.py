"""The contract of the store that keeps the ledger: the owners of tasks and contexts, and short notes beside them.

`sqlite.py` keeps it in a file or in memory, `redis.py` in a Redis. Every method is one atomic step.

An owner is written once and never changes: the first receiver of a task or a context owns it. A *scope* is one backend;
the ids of two backends are unrelated.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

import msgspec

from gateway.a2a.fault import StateUnavailable

OPEN = frozenset({"", "submitted", "working", "input-required", "auth-required", "unknown"})
"""The states of a task that has not ended, as `a2a.task_state.STATES` spells them; empty if no frame told one."""

SEEN_AGAIN = 60
"""Seconds after which an unchanged entry is written again, so that it does not expire."""

PAGE = 500

LONGEST_ID = 1024
"""The most characters of an id that is kept; a longer one has no owner."""


def later_state(known: str, state: str) -> str:
    """Return the state of a task after a frame: a task that has ended stays so after a late frame.

    Args:
        state: The state in the frame; empty if it has none.
    """
    return state if state and (known in OPEN or state not in OPEN) else known


class Owner(msgspec.Struct, frozen=True, gc=False):
    """The owner of a task or a context.

    Attributes:
        tenant: The caller's proven tenant, never the A2A `tenant` field.
        principal: The issuer's name (without a slash), a slash, and the caller there (`Principal.who`); or empty.
    """

    tenant: str
    principal: str = ""

    @property
    def subject(self) -> str:
        """The principal without its issuer, as in the logs; or empty."""
        return self.principal.partition("/")[2].replace("\n", " for ")


class Task(msgspec.Struct, frozen=True, gc=False):
    """The record of one task.

    Attributes:
        context: The agent's context of it, or empty.
        state: The last state that a client was told, of `a2a.task_state.STATES`; or empty.
        replica: The replica of the backend that made it; empty if there is only one, or if it is unknown.
        dialect: The caller's dialect when the task was made, such as `jsonrpc/1.0`.
        made: Unix seconds.
        seen: When it was last written, in Unix seconds.
    """

    owner: Owner
    context: str = ""
    state: str = ""
    replica: str = ""
    dialect: str = ""
    made: int = 0
    seen: int = 0


class Observed(msgspec.Struct, frozen=True, gc=False):
    """A task, a context or both, as an agent's frame on its way to a client names them.

    Attributes:
        owner: The receiver of the frame.
        task: Its id, or empty.
        context: The id of the context, or empty.
        state: As `Task.state`; empty if the frame tells none.
        now: Unix seconds.
        apart: Whether the principals of a tenant are told apart.
        prefixed: Whether the context has the owner's prefix, and therefore is the owner's, no matter who recorded it.
    """

    owner: Owner
    task: str = ""
    context: str = ""
    state: str = ""
    replica: str = ""
    dialect: str = ""
    now: int = 0
    apart: bool = False
    prefixed: bool = False

    def is_foreign(self, task: Owner | None, context: Owner | None) -> bool:
        """Return whether it names an id of another owner; such a frame never leaves.

        Args:
            task: The task's known owner; None if there is none, or if no task is named.
            context: Likewise.
        """
        return self._is_others(task) or (not self.prefixed and self._is_others(context))

    def _is_others(self, known: Owner | None) -> bool:
        owner = self.owner
        return known is not None and (
            known.tenant != owner.tenant or (self.apart and known.principal != owner.principal)
        )


class RecordedOwners(msgspec.Struct, frozen=True, gc=False):
    """The owners of an observed task and context after `Store.record`; None for one that was not named.

    One that is new is also None if it was not written, because the other one is foreign.
    """

    task: Owner | None = None
    context: Owner | None = None


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of retention: durations and counts.

    Attributes:
        ended: Seconds for which a task that has ended is kept after it was last seen.
        open: Likewise for other tasks, and for contexts.
        tasks: The most tasks of one tenant. Ended ones are forgotten first, then those not seen for longest.
        contexts: The most contexts of one tenant. Those not seen for longest are forgotten first.
    """

    ended: int = 30 * 86_400
    open: int = 90 * 86_400
    tasks: int = 100_000
    contexts: int = 100_000


class Figures(msgspec.Struct, frozen=True):
    """The numbers that a store holds of one tenant."""

    tenant: str
    tasks: int
    open: int
    contexts: int
    notes: int


class Note(msgspec.Struct, frozen=True):
    """A short document beside the ledger, such as a client's name of a task, a webhook, or a delivery.

    Attributes:
        kind: A kind and a key name one note.
        tenant: The tenant with which the note is erased; empty for the gateway's own.
        group: Lists several notes together, such as those of a task; empty for none.
        due: When it is to be taken up, in Unix seconds; 0 for never.
        until: When it is to be forgotten, in Unix seconds; 0 for never.
    """

    kind: str
    key: str
    value: bytes
    tenant: str = ""
    group: str = ""
    due: float = 0.0
    until: int = 0


NAMES = "name"
"""The kind of notes that hold clients' names of tasks; bounded by `Bounds.tasks`."""

AFFINITY = "replica of a context"
"""The kind of notes that hold the replica of a context; bounded by `Bounds.contexts`."""

LARGE_KINDS = frozenset({"body"})
"""The kinds of notes that may be as long as what an agent posts; all others are short."""


class Row(msgspec.Struct, frozen=True):
    """One entry of the ledger as it is carried to another store: a task, or else a context."""

    scope: str
    id: str
    task: Task | None = None
    context: Owner | None = None
    seen: int = 0


class StoreBroken(Exception):  # noqa: N818 - it is what it is
    """A store that can never work as it is configured; the text has the remedy, and no credentials."""


class Store(Protocol):
    """Keeps the ledger.

    Every method may raise `a2a.fault.StateUnavailable`: then nothing is known, and nothing was written.

    Attributes:
        local: Whether it is reached without a network.
        shared: Whether gateways on several machines may use it at a time.
        label: Its place, without credentials, for logs and metrics.
    """

    local: bool
    shared: bool
    label: str

    @property
    def trouble(self) -> str:
        """A lasting fault, for operators; empty for none."""

    async def open(self) -> None:
        """Make files and tables, or connect; a store over a network also opens while the network is down.

        Raises:
            StoreBroken: it can never work: no such folder, another program's file, a newer schema.
        """

    async def aclose(self) -> None:
        """Write pending data, and release everything."""

    # ---- Tasks and contexts --------------------------------------------------------------------------------------

    async def tasks(self, scope: str, ids: Sequence[str]) -> list[Task | None]:
        """Return the record of each task; None for one that is unknown or expired."""

    async def context(self, scope: str, id: str) -> Owner | None:  # noqa: A002 - the protocol's word
        """Return the owner of a context; None if it is unknown."""

    async def record(self, scope: str, observed: Observed) -> RecordedOwners:
        """Record unknown ids, and return the owners of all ids.

        Nothing is written if one of the two is foreign (`Observed.is_foreign`), since the frame is withheld. Otherwise
        a known task gets the state, unless that is empty. Its replica and dialect stay; its context is filled in once.
        """

    async def open_tasks(self, tenant: str) -> int:
        """Return how many tasks of a tenant have not ended, in all scopes."""

    async def open_by_scope(self) -> dict[tuple[str, str], int]:
        """Return how many tasks have not ended, by tenant and scope; they are not counted in one step."""

    async def count(self, scope: str, owner: Owner, context: str = "") -> int:
        """Return how many tasks of an owner a scope has, or a context if one is given.

        Args:
            owner: With an empty principal, all of the tenant.
        """

    # ---- Notes -----------------------------------------------------------------------------------------------------

    async def note(self, kind: str, key: str) -> bytes | None:
        """Return the value of a note; None if there is none, or if it has expired."""

    async def keep(self, note: Note) -> None:
        """Write a note, over one with the same kind and key."""

    async def settle(self, note: Note) -> bytes:
        """Write a note unless there is one; return the value that then stands."""

    async def drop(self, kind: str, key: str) -> bool:
        """Remove a note; return whether there was one."""

    async def group(self, kind: str, group: str, most: int) -> list[tuple[str, bytes]]:
        """Return up to `most` keys and values of the notes of one kind in a group, by key."""

    async def due(self, kind: str, now: float, most: int, lease: float) -> list[tuple[str, bytes]]:
        """Take up to `most` notes that are due at `now`, the longest due first.

        In the same step they become due again at `now + lease`. So of several gateways one takes each note, and none
        is lost with a gateway that dies.
        """

    # ---- Retention -------------------------------------------------------------------------------------------------

    async def expire(self, now: int, bounds: Bounds, most: int) -> int:
        """Delete up to `most` entries beyond the bounds; return their number, and 0 if none is left."""

    async def figures(self) -> list[Figures]:
        """Return the figures of each tenant."""

    async def erase(self, tenant: str) -> int:
        """Delete all entries of a tenant; return their number."""

    async def rows(self, after: tuple[str, str, str], most: int) -> list[Row]:
        """Return entries in the order of `("task" or "context", scope, id)` behind `after`; empty words begin."""

    async def put_rows(self, rows: Sequence[Row]) -> int:
        """Write entries unless they are known already; return how many were written."""

    async def notes(self, after: tuple[str, str], most: int) -> list[Note]:
        """Return notes in the order of `(kind, key)` behind `after`; empty words begin.

        There may be fewer than `most` if they are large; only an empty list is the end.
        """


async def notes_of(store: Store, kind: str) -> AsyncIterator[Note]:
    """Yield the notes of a kind; other tasks of the event loop run between two pages.

    Raises:
        StateUnavailable: the store does not answer.
    """
    after = (kind, "")
    while page := await store.notes(after, PAGE):
        for note in page:
            if note.kind != kind:
                return
            yield note
        after = (kind, page[-1].key)
        await asyncio.sleep(0)


# ---- Counted for the metrics ----------------------------------------------------------------------------------------

# An operation that has another name in the metrics, whose names do not change.
_LABELS = {"record": "meet"}
METHODS = (
    "tasks", "context", "record", "open_tasks", "open_by_scope", "count", "note", "keep", "settle", "drop", "group",
    "due", "expire", "figures", "erase", "rows", "put_rows", "notes",
)  # fmt: skip
OPERATIONS = tuple(_LABELS.get(name, name) for name in METHODS)
"""The closed set of the label `operation`."""

Counts: TypeAlias = dict[str, float]
"""Counts of `ok` and `unavailable` results of an operation; incremented in place."""


class _Counted:
    def __init__(self, store: Store, share: Callable[[str], Counts], timed: Callable[[str, float], None]) -> None:
        self._store, self.local = store, store.local
        for name in METHODS:
            label = _LABELS.get(name, name)
            setattr(self, name, _counting(getattr(store, name), share(label), partial(timed, label)))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what is not counted
        return getattr(self._store, name)


def counted(store: Store, share: Callable[[str], Counts], timed: Callable[[str, float], None]) -> Store:
    """Return the same store, counting.

    Args:
        share: Returns the counts of an operation by its label.
        timed: Called with the label of an operation and its seconds.
    """
    return cast("Store", _Counted(store, share, timed))


def _counting(method: Callable[..., Any], counts: Counts, timed: Callable[[float], None]) -> Callable[..., Any]:
    async def ask(*args: Any) -> Any:  # noqa: ANN401 - the arguments and the result of the operation
        began = time.perf_counter()
        try:
            result = await method(*args)
        except StateUnavailable:
            counts["unavailable"] = counts.get("unavailable", 0) + 1
            raise
        finally:
            timed(time.perf_counter() - began)
        counts["ok"] = counts.get("ok", 0) + 1
        return result

    return ask
