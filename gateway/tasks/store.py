"""Where the ledger is kept: who owns which task and which context, and short notes beside them.

`sqlite.py` keeps it in a file or in memory, `redis.py` in a Redis. Every method is one atomic step.

What is written about a task or a context is written once: whoever was met with it first owns it, and nobody else ever
does. A *scope* is one backend: ids of two backends have nothing to do with each other.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

OPEN = frozenset({"", "submitted", "working", "input-required", "auth-required", "unknown"})
"""The states of a task that is not over, as `a2a.task_state.STATES` spells them; empty for one that nobody was told."""

SEEN_AGAIN = 60
"""Seconds after which what is met again with nothing new is written down all the same, for when it was seen."""


def later_state(known: str, told: str) -> str:
    """The state of a task that had one and is told of with another: what is over stays over, whatever comes late.

    Args:
        told: Empty where a frame tells none.
    """
    return told if told and (known in OPEN or told not in OPEN) else known


LONGEST_ID = 1024
"""Characters of an id that is kept; a longer one is nobody's."""


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Whose a task or a context is.

    Attributes:
        tenant: The caller's tenant as it was proven, never the A2A `tenant` field.
        principal: Who within it: the name of the issuer, which has no slash, one slash, and who it is there
            (`Principal.who`); or empty.
    """

    tenant: str
    principal: str = ""

    @property
    def subject(self) -> str:
        """The principal as the logs have it, without its issuer; or empty."""
        return self.principal.partition("/")[2].replace("\n", " for ")


class Task(msgspec.Struct, frozen=True, gc=False):
    """What is known of one task.

    Attributes:
        context: The agent's context of it, or empty.
        state: The last one that anybody was told, of `a2a.task_state.STATES`; empty for none.
        replica: Which replica of the backend made it; empty where there is none to be told apart, or nobody knows.
        dialect: What its owner spoke when it was made, such as `jsonrpc/1.0`.
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


class Sighting(msgspec.Struct, frozen=True, gc=False):
    """What an agent's frame, on its way to a client, tells of a task or a context.

    Attributes:
        owner: Whoever is being answered.
        task: Its id, or empty.
        context: The id of the context, or empty.
        state: As `Task.state`; empty where the frame tells none.
        now: Unix seconds.
        apart: Whether the principals of a tenant are told apart.
        marked: Whether the context is the owner's whoever was met with it, for its name says so.
    """

    owner: Owner
    task: str = ""
    context: str = ""
    state: str = ""
    replica: str = ""
    dialect: str = ""
    now: int = 0
    apart: bool = False
    marked: bool = False

    def is_foreign(self, task: Owner | None, context: Owner | None) -> bool:
        """Whether it names what is another's; such a frame goes to nobody.

        Args:
            task: Whose the task is known to be; None where it is not known, or none is named.
            context: Likewise.
        """
        return self._is_others(task) or (not self.marked and self._is_others(context))

    def _is_others(self, known: Owner | None) -> bool:
        owner = self.owner
        return known is not None and (
            known.tenant != owner.tenant or (self.apart and known.principal != owner.principal)
        )


class Met(msgspec.Struct, frozen=True, gc=False):
    """Whose the task and the context of a sighting are, now that they have been met; None where it named none.

    Of what is not written down, for the other one is another's, it is None as well.
    """

    task: Owner | None = None
    context: Owner | None = None


class Bounds(msgspec.Struct, frozen=True):
    """How long and how much is kept.

    Attributes:
        ended: Seconds after the last sighting for which a task that is over is kept.
        open: Likewise for a task that is not, and for a context.
        tasks: Most tasks of one tenant; those that are over go first, then those not seen for longest.
        contexts: Most contexts of one tenant; those not seen for longest go first.
    """

    ended: int = 30 * 86_400
    open: int = 90 * 86_400
    tasks: int = 100_000
    contexts: int = 100_000


class Figures(msgspec.Struct, frozen=True):
    """What a store holds of one tenant."""

    tenant: str
    tasks: int
    open: int
    contexts: int
    notes: int


class Note(msgspec.Struct, frozen=True):
    """A short document beside the ledger: a name that a client gave a task, a webhook, a delivery that is due.

    Attributes:
        kind: What sort it is; a kind and a key name one note.
        tenant: Whose it is; goes with the tenant when that is erased. Empty for the gateway's own.
        group: By which several are listed, such as a task; empty for none.
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
"""The kind of the notes that are names of tasks; a tenant has no more of them than tasks, by and by."""

HOMES = "replica of a context"
"""The kind of those that tell where a context began; likewise no more than contexts."""

LARGE_KINDS = frozenset({"body"})
"""Kinds of notes that may be as long as what an agent posts; all others are short."""


class Row(msgspec.Struct, frozen=True):
    """One entry of the ledger, as it is carried from one store to another: a task, or else a context."""

    scope: str
    id: str
    task: Task | None = None
    context: Owner | None = None
    seen: int = 0


class Condition:
    """How a store is, as far as is known."""

    @property
    def trouble(self) -> str:
        """What keeps it from being used for longer than a moment, for operators; empty for nothing."""
        return ""


class Store(Protocol):
    """Keeps the ledger.

    Every method may raise `a2a.fault.StateUnavailable`: then nothing is known, and nothing was written.

    Attributes:
        local: Whether no network is between.
        shared: Whether several gateways on several machines may use it at a time.
        label: What it is, without credentials, for logs and metrics.
        condition: How it is.
    """

    local: bool
    shared: bool
    label: str
    condition: Condition

    async def open(self) -> None:
        """Get ready: make files and tables. One over a network comes up also where the network does not.

        Raises:
            StoreBroken: it can never work as it is written: no such folder, another program's file, a newer schema.
        """

    async def aclose(self) -> None:
        """Write what is left, and let go of everything."""

    # ---- Tasks and contexts --------------------------------------------------------------------------------------

    async def tasks(self, scope: str, ids: Sequence[str]) -> list[Task | None]:
        """What is known of each; None for one that is not known. Expired ones are not."""

    async def context(self, scope: str, id: str) -> Owner | None:  # noqa: A002 - the word
        """Whose a context is; None for one that is not known."""

    async def meet(self, scope: str, sighting: Sighting) -> Met:
        """Write down what is not known yet, in one step, and tell whose it all is.

        Nothing is written where one of the two is another's (`Sighting.is_foreign`): the frame is withheld, and whoever
        was to have it must own nothing by it. Else a task that is known gets the state, unless that is empty.
        The replica and the dialect stay what they were when it was made; a context that it had none of is filled in.
        """

    async def open_tasks(self, tenant: str) -> int:
        """How many tasks of a tenant are not over, in all scopes."""

    async def count(self, scope: str, owner: Owner, context: str = "") -> int:
        """How many tasks of an owner are known in a scope; of one context only, unless it is empty.

        Args:
            owner: With an empty principal: whoever of the tenant.
        """

    # ---- Notes -----------------------------------------------------------------------------------------------------

    async def note(self, kind: str, key: str) -> bytes | None:
        """The value of a note; None where there is none, or it is past its time."""

    async def keep(self, note: Note) -> None:
        """Write a note, over one with the same kind and key."""

    async def settle(self, note: Note) -> bytes:
        """Write a note unless there is one; gives the value that stands then."""

    async def drop(self, kind: str, key: str) -> bool:
        """Remove a note; whether there was one."""

    async def group(self, kind: str, group: str, most: int) -> list[tuple[str, bytes]]:
        """Keys and values of the notes of one kind in a group, by key; `most` at most."""

    async def due(self, kind: str, now: float, most: int, lease: float) -> list[tuple[str, bytes]]:
        """Take up to `most` notes that are due at `now`, the longest due first.

        In the same step they become due again at `now + lease`, so that of several gateways one has each, and none is
        lost with whoever took it.
        """

    # ---- Upkeep ----------------------------------------------------------------------------------------------------

    async def expire(self, now: int, bounds: Bounds, most: int) -> int:
        """Forget up to `most` entries that are beyond the bounds; gives how many. 500 are quick enough here."""

    async def figures(self) -> list[Figures]:
        """What it holds, tenant by tenant."""

    async def erase(self, tenant: str) -> int:
        """Forget all that belongs to a tenant; gives how many entries there were."""

    async def rows(self, after: tuple[str, str, str], most: int) -> list[Row]:
        """Entries in the order of `("task" or "context", scope, id)`, from behind `after`; empty words begin."""

    async def put_rows(self, rows: Sequence[Row]) -> int:
        """Write entries as they are, unless they are known already; gives how many were written."""

    async def notes(self, after: tuple[str, str], most: int) -> list[Note]:
        """Notes in the order of `(kind, key)`, from behind `after`; ("", "") is the beginning.

        Fewer than `most` where these are many bytes; only where there are none is it the end.
        """


class StoreBroken(Exception):  # noqa: N818 - it is what it is
    """A store that can never work as it is written; the text says why and what to do, without credentials."""
