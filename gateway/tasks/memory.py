"""The ledger in the memory of this process: gone with it, and known to no other.

Every entry costs its tenant only: what a tenant holds beyond the bounds is forgotten as soon as it is met, its tasks
that are over first, then what was not seen for longest.
"""

import heapq
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.store import (
    LONGEST_ID,
    OPEN,
    Bounds,
    Condition,
    Figures,
    Met,
    Note,
    Owner,
    Row,
    Sighting,
    Task,
    later_state,
)

MOST_NOTES = 100_000
"""Notes of one tenant; no more are taken, for what one says may not be lost unnoticed."""

# A scope and an id; a kind and a key.
_Entry: TypeAlias = tuple[str, str]
_Name: TypeAlias = tuple[str, str]


class _Context(msgspec.Struct, frozen=True, gc=False):
    owner: Owner
    seen: int


class _Holding:
    """What one tenant has; entries are in the order in which they were seen."""

    def __init__(self) -> None:
        self.over: OrderedDict[_Entry, None] = OrderedDict()
        self.open: OrderedDict[_Entry, None] = OrderedDict()
        self.contexts: OrderedDict[_Entry, None] = OrderedDict()
        self.notes: set[_Name] = set()

    def is_empty(self) -> bool:
        return not (self.over or self.open or self.contexts or self.notes)

    def tasks(self, state: str) -> OrderedDict[_Entry, None]:
        return self.open if state in OPEN else self.over


class _Timetable:
    """Which notes come first. What was put off or dropped stays in it for a while.

    `current` tells when it is the turn of a note, or 0.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, _Name]] = []
        self._most = 1_000

    def put(self, at: float, name: _Name, current: Callable[[_Name], float]) -> None:
        heapq.heappush(self._heap, (at, name))
        if len(self._heap) > self._most:
            # What is put off again and again must not fill it.
            self._heap = sorted({entry for entry in self._heap if current(entry[1]) == entry[0]})
            self._most = max(1_000, 2 * len(self._heap))

    def take(self, now: float, current: Callable[[_Name], float]) -> _Name | None:
        """The first that is due, no longer in it then; None where none is."""
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if current(name) == at:
                return name
        return None


class MemoryStore:
    """Keeps the ledger in dictionaries.

    Args:
        bounds: What it keeps to until `expire` tells others.
        wall: Unix seconds, for notes that are past their time.
    """

    local = True
    shared = False
    condition = Condition()
    label = "memory"

    def __init__(
        self,
        bounds: Bounds | None = None,
        *,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - notes say when they end in Unix seconds
    ) -> None:
        self._bounds = Bounds() if bounds is None else bounds
        self._wall = wall
        self._tasks: dict[_Entry, Task] = {}
        self._contexts: dict[_Entry, _Context] = {}
        self._holdings: dict[str, _Holding] = {}
        # By scope, tenant, principal and context; the last two are empty where all of them are counted.
        self._counts: dict[tuple[str, str, str, str], int] = {}
        self._notes: dict[_Name, Note] = {}
        self._groups: dict[tuple[str, str], set[str]] = {}
        self._due: dict[str, _Timetable] = {}
        self._ends = _Timetable()

    async def open(self) -> None:
        """Nothing has to be made."""

    async def aclose(self) -> None:
        """Nothing has to be written."""

    # ---- Tasks and contexts --------------------------------------------------------------------------------------

    def tasks(self, scope: str, ids: Sequence[str]) -> list[Task | None]:
        """As `Store.tasks`."""
        return [self._tasks.get((scope, task)) for task in ids]

    def context(self, scope: str, id: str) -> Owner | None:  # noqa: A002 - the word
        """As `Store.context`."""
        known = self._contexts.get((scope, id))
        return None if known is None else known.owner

    def meet(self, scope: str, sighting: Sighting) -> Met:
        """As `Store.meet`."""
        known = self._tasks.get((scope, sighting.task))
        task_of, context_of = None if known is None else known.owner, self.context(scope, sighting.context)
        if sighting.is_foreign(task_of, context_of):
            return Met(task_of, context_of)
        task = self._meet_task(scope, sighting) if _is_kept(sighting.task) else None
        context = self._meet_context(scope, sighting) if _is_kept(sighting.context) else None
        return Met(task, context)

    def open_tasks(self, tenant: str) -> int:
        """As `Store.open_tasks`."""
        holding = self._holdings.get(tenant)
        return 0 if holding is None else len(holding.open)

    def count(self, scope: str, owner: Owner, context: str = "") -> int:
        """As `Store.count`."""
        return self._counts.get((scope, owner.tenant, owner.principal, context), 0)

    def _meet_task(self, scope: str, sighting: Sighting) -> Owner:
        entry = (scope, sighting.task)
        context = sighting.context if _is_kept(sighting.context) else ""
        known = self._tasks.get(entry)
        if known is None:
            now = sighting.now
            self._put_task(
                entry, Task(sighting.owner, context, sighting.state, sighting.replica, sighting.dialect, now, now)
            )
            self._bound(sighting.owner.tenant)
            return sighting.owner
        seen = max(known.seen, sighting.now)
        again = msgspec.structs.replace(
            known, context=known.context or context, state=later_state(known.state, sighting.state), seen=seen
        )
        self._forget_task(entry)
        self._put_task(entry, again)
        return known.owner

    def _meet_context(self, scope: str, sighting: Sighting) -> Owner:
        entry, owner = (scope, sighting.context), sighting.owner
        known = self._contexts.get(entry)
        if known is None:
            self._put_context(entry, _Context(owner, sighting.now))
            self._bound(owner.tenant)
            return owner
        if known.owner.tenant == owner.tenant:
            self._put_context(entry, _Context(known.owner, max(known.seen, sighting.now)))
        return known.owner

    def _put_task(self, entry: _Entry, task: Task) -> None:
        self._tasks[entry] = task
        self._holding(task.owner.tenant).tasks(task.state)[entry] = None
        for counted in _counted(entry[0], task):
            self._counts[counted] = self._counts.get(counted, 0) + 1

    def _put_context(self, entry: _Entry, context: _Context) -> None:
        self._contexts[entry] = context
        seen = self._holding(context.owner.tenant).contexts
        seen[entry] = None
        seen.move_to_end(entry)

    def _forget_task(self, entry: _Entry) -> None:
        task = self._tasks.pop(entry)
        del self._holdings[task.owner.tenant].tasks(task.state)[entry]
        for counted in _counted(entry[0], task):
            left = self._counts.pop(counted) - 1
            if left:
                self._counts[counted] = left

    def _forget_context(self, entry: _Entry) -> None:
        del self._holdings[self._contexts.pop(entry).owner.tenant].contexts[entry]

    def _holding(self, tenant: str) -> _Holding:
        return self._holdings.get(tenant) or self._holdings.setdefault(tenant, _Holding())

    # ---- Notes ---------------------------------------------------------------------------------------------------

    def note(self, kind: str, key: str) -> bytes | None:
        """As `Store.note`."""
        note = self._current(kind, key)
        return None if note is None else note.value

    def keep(self, note: Note) -> None:
        """As `Store.keep`.

        Raises:
            StateUnavailable: its tenant holds `MOST_NOTES` others.
        """
        name = (note.kind, note.key)
        holding = self._holding(note.tenant)
        if len(holding.notes) >= MOST_NOTES and name not in holding.notes:
            raise StateUnavailable("the gateway cannot remember more", detail=f"{MOST_NOTES} notes of {note.tenant!r}")
        self._forget_note(name)
        self._notes[name] = note
        self._holding(note.tenant).notes.add(name)
        if note.group:
            self._groups.setdefault((note.kind, note.group), set()).add(note.key)
        if note.due:
            self._due.setdefault(note.kind, _Timetable()).put(note.due, name, self._due_at)
        if note.until:
            self._ends.put(note.until, name, self._ends_at)

    def settle(self, note: Note) -> bytes:
        """As `Store.settle`."""
        known = self._current(note.kind, note.key)
        if known is not None:
            return known.value
        self.keep(note)
        return note.value

    def drop(self, kind: str, key: str) -> bool:
        """As `Store.drop`."""
        return self._forget_note((kind, key))

    def group(self, kind: str, group: str, most: int) -> list[tuple[str, bytes]]:
        """As `Store.group`."""
        notes = (self._current(kind, key) for key in sorted(self._groups.get((kind, group), ())))
        return [(note.key, note.value) for note in notes if note is not None][:most]

    def due(self, kind: str, now: float, most: int, lease: float) -> list[tuple[str, bytes]]:
        """As `Store.due`."""
        timetable = self._due.get(kind)
        taken: list[Note] = []
        while timetable is not None and len(taken) < most and (name := timetable.take(now, self._due_at)) is not None:
            note = self._current(*name)
            if note is not None:
                taken.append(note)
        for note in taken:
            self.keep(msgspec.structs.replace(note, due=now + lease))
        return [(note.key, note.value) for note in taken]

    def _current(self, kind: str, key: str) -> Note | None:
        note = self._notes.get((kind, key))
        return None if note is None or 0 < note.until <= self._wall() else note

    def _due_at(self, name: _Name) -> float:
        note = self._notes.get(name)
        return 0.0 if note is None else note.due

    def _ends_at(self, name: _Name) -> float:
        note = self._notes.get(name)
        return 0.0 if note is None else note.until

    def _forget_note(self, name: _Name) -> bool:
        note = self._notes.pop(name, None)
        if note is None:
            return False
        self._holdings[note.tenant].notes.discard(name)
        group = self._groups.get((note.kind, note.group))
        if group is not None:
            group.discard(note.key)
            if not group:
                del self._groups[note.kind, note.group]
        return True

    # ---- Upkeep --------------------------------------------------------------------------------------------------

    def expire(self, now: int, bounds: Bounds, most: int) -> int:
        """As `Store.expire`."""
        self._bounds = bounds
        left = most
        while left and (name := self._ends.take(now, self._ends_at)) is not None:
            left -= self._forget_note(name)
        for tenant in tuple(self._holdings):
            left -= self._forget_old(tenant, now, left)
            left -= self._bound(tenant, left)
            if self._holdings[tenant].is_empty():
                del self._holdings[tenant]
        return most - left

    def figures(self) -> list[Figures]:
        """As `Store.figures`."""
        return [
            Figures(tenant, len(it.over) + len(it.open), len(it.open), len(it.contexts), len(it.notes))
            for tenant, it in sorted(self._holdings.items())
            if not it.is_empty()
        ]

    def erase(self, tenant: str) -> int:
        """As `Store.erase`."""
        holding = self._holdings.get(tenant)
        if holding is None:
            return 0
        tasks, contexts, notes = [*holding.over, *holding.open], [*holding.contexts], [*holding.notes]
        for entry in tasks:
            self._forget_task(entry)
        for entry in contexts:
            self._forget_context(entry)
        for name in notes:
            self._forget_note(name)
        del self._holdings[tenant]
        return len(tasks) + len(contexts) + len(notes)

    def rows(self, after: tuple[str, str, str], most: int) -> list[Row]:
        """As `Store.rows`; looks at every entry each time."""
        entries = ((kind, *entry) for kind, of in self._kinds() for entry in of)
        first = heapq.nsmallest(most, (entry for entry in entries if entry > after))
        return [self._row(kind, (scope, id_)) for kind, scope, id_ in first]

    def put_rows(self, rows: Sequence[Row]) -> int:
        """As `Store.put_rows`."""
        written, tenants = 0, set()
        for row in rows:
            entry = (row.scope, row.id)
            if not _is_kept(row.id):
                continue
            if row.task is not None and entry not in self._tasks:
                self._put_task(entry, row.task)
                tenants.add(row.task.owner.tenant)
                written += 1
            elif row.context is not None and entry not in self._contexts:
                self._put_context(entry, _Context(row.context, row.seen))
                tenants.add(row.context.tenant)
                written += 1
        for tenant in tenants:
            self._sort(self._holdings[tenant])
        return written

    def notes(self, after: tuple[str, str], most: int) -> list[Note]:
        """As `Store.notes`; looks at every note each time."""
        first = heapq.nsmallest(most, (name for name in self._notes if name > after and self._current(*name)))
        return [self._notes[name] for name in first]

    def _forget_old(self, tenant: str, now: int, most: int) -> int:
        holding, left = self._holdings[tenant], most
        for entries, kept in ((holding.over, self._bounds.ended), (holding.open, self._bounds.open)):
            while left and entries and self._tasks[next(iter(entries))].seen < now - kept:
                self._forget_task(next(iter(entries)))
                left -= 1
        while left and (entries := holding.contexts):
            if self._contexts[next(iter(entries))].seen >= now - self._bounds.open:
                break
            self._forget_context(next(iter(entries)))
            left -= 1
        return most - left

    def _bound(self, tenant: str, most: int = 1) -> int:
        """Forget what a tenant holds beyond the bounds, up to `most` entries; gives how many."""
        holding, left = self._holdings[tenant], most
        while left and len(holding.over) + len(holding.open) > self._bounds.tasks:
            self._forget_task(next(iter(holding.over or holding.open)))
            left -= 1
        while left and len(holding.contexts) > self._bounds.contexts:
            self._forget_context(next(iter(holding.contexts)))
            left -= 1
        return most - left

    def _sort(self, holding: _Holding) -> None:
        """Put the entries of a tenant in the order they were seen, for others came in their own."""
        for entries in (holding.over, holding.open):
            for entry in sorted(entries, key=lambda entry: self._tasks[entry].seen):
                entries.move_to_end(entry)
        for entry in sorted(holding.contexts, key=lambda entry: self._contexts[entry].seen):
            holding.contexts.move_to_end(entry)

    def _kinds(self) -> tuple[tuple[str, Iterable[_Entry]], ...]:
        return ("context", self._contexts), ("task", self._tasks)

    def _row(self, kind: str, entry: _Entry) -> Row:
        if kind == "task":
            task = self._tasks[entry]
            return Row(*entry, task=task, seen=task.seen)
        context = self._contexts[entry]
        return Row(*entry, context=context.owner, seen=context.seen)


def _is_kept(id_: str) -> bool:
    return 0 < len(id_) <= LONGEST_ID


def _counted(scope: str, task: Task) -> set[tuple[str, str, str, str]]:
    """As what a task is counted: its owner's and its tenant's, with its context and without."""
    tenant, principal = task.owner.tenant, task.owner.principal
    return {(scope, tenant, who, context) for who in ("", principal) for context in ("", task.context)}
