"""What the ledger in a file has met lately: tasks and contexts that are in its arrivals, and in no table yet for sure.

All of it was new when it arrived: what stands in a table from before is changed there, and never comes here. So the
ledger is the tables, without what was carried over from the arrivals of now (`epoch`), and all that is young.
"""

from typing import TypeAlias

import msgspec

from gateway.tasks.sqlite_schema import TASK
from gateway.tasks.store import OPEN, Owner, Task

Name: TypeAlias = tuple[int, str, str]
"""Kind, scope and id."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A task, or a context, as a row of the table has it."""

    kind: int
    scope: str
    id: str
    tenant: str
    principal: str
    context: str
    state: str
    replica: str
    dialect: str
    made: int
    seen: int
    aged: int = 1

    @property
    def owner(self) -> Owner:
        """Whose it is."""
        return Owner(self.tenant, self.principal)

    @property
    def task(self) -> Task:
        """What a store tells of it."""
        owner = Owner(self.tenant, self.principal)
        return Task(owner, self.context, self.state, self.replica, self.dialect, self.made, self.seen)


class Young:
    """Entries by their names, and how many there are.

    Attributes:
        tables: Tasks that were found in the tables in this epoch, by scope and id: whoever changes some there, or
            takes some away, says so in the arrivals afterwards.
        news: Those that came or changed since somebody set this to an empty dictionary; None where nobody asks.
    """

    def __init__(self) -> None:
        self.entries: dict[Name, Entry] = {}
        self.tables: dict[tuple[str, str], Task] = {}
        self.news: dict[Name, Entry] | None = None
        self._tasks: dict[str, dict[Name, Entry]] = {}
        self._open: dict[str, int] = {}

    def put(self, entry: Entry) -> Name:
        """Take in what is new, or has changed; gives its name."""
        name = (entry.kind, entry.scope, entry.id)
        before = self.entries.get(name)
        self.entries[name] = entry
        if self.news is not None:
            self.news[name] = entry
        if entry.kind != TASK:
            return name
        tenant = entry.tenant
        tasks = self._tasks.get(tenant)
        if tasks is None:
            tasks = self._tasks[tenant] = {}
        tasks[name] = entry
        is_open, was_open = entry.state in OPEN, before is not None and before.state in OPEN
        if is_open is not was_open:
            self._open[tenant] = self._open.get(tenant, 0) + (1 if is_open else -1)
        return name

    def open_tasks(self, tenant: str) -> int:
        """How many tasks of a tenant are not over."""
        return self._open.get(tenant, 0)

    def count(self, scope: str, owner: Owner, context: str) -> int:
        """How many tasks there are: as `Store.count`; looks at all of the tenant's."""
        principal = owner.principal
        return sum(
            entry.scope == scope and principal in ("", entry.principal) and context in ("", entry.context)
            for entry in self._tasks.get(owner.tenant, {}).values()
        )
