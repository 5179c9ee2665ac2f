"""The ledger in a Redis, or a Valkey, that several gateways share.

Each decision is one script that runs within the server (`redis_scripts.py`), so two gateways that ask at a time are
told the same. All keys carry one hash tag, the prefix: whose a task is, how many its tenant has and which of them is
the oldest are decided together. So in a cluster the ledger is one shard, and no bigger than that.

What the server has acknowledged it may still lose: when a replica takes over, or when it is killed without
`appendfsync always`, the last second of it. A task that is lost is nobody's: it is denied to everybody. A server that
evicts keys when it is full forgets whose tasks are whose; `maxmemory-policy` should be `noeviction`.

Every failure is `StateUnavailable`, within half a second, or some seconds for what is large: `redis_client.py`.
"""

import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

import msgspec

from gateway.tasks import redis_entry as entry
from gateway.tasks import redis_scripts as scripts
from gateway.tasks.redis_address import read_address
from gateway.tasks.redis_client import RedisClient, Reply
from gateway.tasks.redis_entry import as_bytes, as_list, as_number, by, closed, named, short, split
from gateway.tasks.store import LARGE_KINDS, Bounds, Condition, Decision, Figures, Note, Observed, Owner, Row, Task

LARGE: Final = 32 * 1024
"""Bytes of a value from which on it is large."""

# Most work of one script: the server does nothing else meanwhile.
_AT_ONCE: Final = 100
_TENANTS: Final = 50
_MOST_KEYS: Final = 10_000
_PAGE: Final = 1024 * 1024
"""Bytes of notes after which no more are listed at once."""

_pack = msgspec.msgpack.Encoder().encode


class RedisStore:
    """Keeps the ledger in a Redis.

    Args:
        url: See `redis_address.py`.
        wall: Unix seconds; what notes are past.
        patience: Seconds for a reply, where there is more time than a call has.

    Raises:
        StoreBroken: the URL cannot be read.
    """

    local = False
    shared = True
    condition = Condition()

    def __init__(
        self,
        url: str,
        *,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - notes outlive the process
        patience: float | None = None,
    ) -> None:
        address = read_address(url)
        self.label = address.label
        self.client = RedisClient(address, patience=patience)
        self._wall = wall
        self._named = address.named
        self._tasks, self._contexts, *_ = self._shared = tuple(map(address.named, scripts.SHARED))
        self._notes = tuple(map(address.named, scripts.NOTES))
        self._tenants: dict[str, tuple[bytes, ...]] = {}

    async def open(self) -> None:
        """Connect; where nothing answers, go on trying.

        Raises:
            StoreBroken: the server will never let the gateway in, or what it holds is a newer gateway's.
        """
        await self.client.open()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()

    # ---- Tasks and contexts --------------------------------------------------------------------------------------

    async def tasks(self, scope: str, ids: Sequence[str]) -> list[Task | None]:
        """Return the record of each task, or None."""
        if not ids:
            return []
        start = closed(scope)
        found = await self.client.ask("HMGET", self._tasks, *[(start + short(each)).encode() for each in ids])
        return [None if known is None else entry.read_task(known) for known in as_list(found)]

    async def context(self, scope: str, id: str) -> Owner | None:  # noqa: A002 - the word
        """Return the owner of a context, or None."""
        found = await self.client.ask("HGET", self._contexts, (closed(scope) + short(id)).encode())
        return None if found is None else entry.read_context(found)[0]

    async def record(self, scope: str, observed: Observed) -> Decision:
        """Write down what is not known yet, and tell whose it all is."""
        owner = observed.owner
        task, context = short(observed.task), short(observed.context)
        if not task and not context:
            return Decision()
        told = (
            closed(scope), task, context, owner.tenant, owner.principal,
            observed.state, observed.replica, observed.dialect, observed.now, observed.apart, observed.prefixed,
        )  # fmt: skip
        found = await self.client.run(scripts.RECORD, self._keys(owner.tenant), (_pack(told),))
        if found == 1:
            return Decision(owner if task else None, owner if context else None)
        return entry.read_decision(found)

    async def open_tasks(self, tenant: str) -> int:
        """Return the number of a tenant's tasks that are not over."""
        return as_number(await self.client.ask("ZCARD", self._keys(tenant)[len(scripts.SHARED)]))

    async def open_by_scope(self) -> dict[tuple[str, str], int]:
        """Return the number of tasks that are not over, by tenant and scope."""
        found: Counter[tuple[str, str]] = Counter()
        async for tenants in self._scan("SSCAN", self._named("tenants")):
            for tenant in map(bytes.decode, tenants):
                async for page in self._scan("ZSCAN", self._keys(tenant)[len(scripts.SHARED)]):
                    found.update((tenant, split(name.decode())[0]) for name, _ in page)
        return found

    async def count(self, scope: str, owner: Owner, context: str = "") -> int:
        """Return the number of an owner's tasks in a scope, or in one context."""
        field = closed(scope) + closed(owner.principal) + context
        found = await self.client.ask("HGET", self._keys(owner.tenant)[-1], field.encode())
        return int(as_bytes(found)) if found is not None else 0

    # ---- Notes -----------------------------------------------------------------------------------------------------

    async def note(self, kind: str, key: str) -> bytes | None:
        """The value of a note."""
        name = named(kind, key).encode()
        found = await self.client.ask("HGET", self._notes[0], name, large=kind in LARGE_KINDS)
        if found is None:
            return None
        kept = as_bytes(found)
        until = int(kept[: entry.DIGITS])
        return None if until and until <= self._wall() else kept[entry.DIGITS :]

    async def keep(self, note: Note) -> None:
        """Write a note, over one with the same kind and key."""
        await self._keep(note, once=False)

    async def settle(self, note: Note) -> bytes:
        """Write a note unless there is one; gives the value that stands then."""
        found = await self._keep(note, once=True)
        return note.value if found is None else as_bytes(found)

    async def _keep(self, note: Note, *, once: bool) -> Reply:
        told = _pack((named(note.kind, note.key), entry.told_note(note), self._wall(), once))
        large = len(note.value) >= LARGE
        return await self.client.run(scripts.KEEP, self._notes, (told, note.value), large=large)

    async def drop(self, kind: str, key: str) -> bool:
        """Remove a note; whether there was one."""
        return await self._run(scripts.DROP, self._notes, (named(kind, key), self._wall())) == 1

    async def group(self, kind: str, group: str, most: int) -> list[tuple[str, bytes]]:
        """Keys and values of the notes of one kind in a group, by key."""
        if not group:
            return []
        found = await self._run(scripts.GROUP, self._notes, (closed(kind), closed(group), most, self._wall()))
        return [(key.decode(), value) for key, value in by(2, found)]

    async def due(self, kind: str, now: float, most: int, lease: float) -> list[tuple[str, bytes]]:
        """Take up to `most` notes that are due, the longest due first."""
        told = (closed(kind), entry.micros(now), most, entry.micros(now + lease), self._wall())
        found = await self._run(scripts.DUE, self._notes, told)
        return [(key.decode(), value) for key, value in by(2, found)]

    # ---- Upkeep ----------------------------------------------------------------------------------------------------

    async def expire(self, now: int, bounds: Bounds, most: int) -> int:
        """Forget up to `most` entries that are beyond the bounds; gives how many."""
        forgotten = await self._all(scripts.EXPIRE_NOTES, self._notes, (now,), most)
        old = (now - bounds.ended, now - bounds.open, bounds.tasks, bounds.contexts)
        async with aclosing(self._scan("SSCAN", self._named("tenants"))) as pages:
            async for page in pages:
                for few in entry.slices(list(map(bytes.decode, page)), _TENANTS):
                    if forgotten < most:
                        keys = self._keys(*few)
                        forgotten += await self._all(scripts.EXPIRE, keys, (few, *old), most - forgotten)
        return forgotten

    async def figures(self) -> list[Figures]:
        """Return the figures of each tenant; they are not read in one step."""
        holders: dict[bytes, str] = {}
        async for page in self._scan("HSCAN", self._notes[1]):
            holders.update((name, entry.tenant_of(meta)) for name, meta in page.items())
        notes = Counter(holders.values())
        held = dict.fromkeys(notes, (0, 0, 0))
        async for tenants in self._scan("SSCAN", self._named("tenants")):
            for tenant in map(bytes.decode, tenants):
                is_open, ended, contexts, _ = self._keys(tenant)[len(scripts.SHARED) :]
                sizes = [as_number(await self.client.ask("ZCARD", key)) for key in (is_open, ended, contexts)]
                held[tenant] = (sizes[0], sizes[1], sizes[2])
        return [
            Figures(tenant, tasks=is_open + ended, open=is_open, contexts=contexts, notes=notes[tenant])
            for tenant, (is_open, ended, contexts) in sorted(held.items())
        ]

    async def erase(self, tenant: str) -> int:
        """Forget all that belongs to a tenant; gives how many entries there were."""
        tasks = await self._all(scripts.ERASE, self._keys(tenant), (tenant,))
        return tasks + await self._all(scripts.ERASE_NOTES, self._notes, (closed(tenant),))

    async def rows(self, after: tuple[str, str, str], most: int) -> list[Row]:
        """Entries in the order of `("task" or "context", scope, id)`, from behind `after`."""
        what, scope, id_ = after
        start = b"(" + (what[:1] + named(scope, id_)).encode() if what else b"-"
        names = await self.client.ask("ZRANGEBYLEX", self._shared[2], start, b"+", b"LIMIT", b"0", b"%d" % most)
        found = []
        for name in map(as_bytes, as_list(names)):
            known = await self.client.ask("HGET", self._tasks if name[:1] == b"t" else self._contexts, name[1:])
            # It may have been forgotten since.
            found += [] if known is None else [entry.read_row(name.decode(), known)]
        return found

    async def put_rows(self, rows: Sequence[Row]) -> int:
        """Write entries as they are, unless they are known already; gives how many were written."""
        by_tenant: dict[str, list[entry.Told]] = {}
        for row in rows:
            if (told := entry.told_row(row)) is not None:
                by_tenant.setdefault(told[0], []).append(told[1])
        written = 0
        for tenant, entries in by_tenant.items():
            for few in entry.slices(entries, _AT_ONCE):
                written += as_number(await self._run(scripts.PUT_ROWS, self._keys(tenant), few))
        return written

    async def notes(self, after: tuple[str, str], most: int) -> list[Note]:
        """Notes in the order of `(kind, key)`, from behind `after`."""
        start = "k" + named(*after) if after != ("", "") else ""
        told = _pack((start, most, self._wall(), _PAGE))
        found = await self.client.run(scripts.LIST, self._notes, (told,), large=True)
        return [entry.read_note(name.decode(), value, meta) for name, value, meta in by(3, found)]

    # ---- How it is asked -------------------------------------------------------------------------------------------

    def _keys(self, *tenants: str) -> tuple[bytes, ...]:
        """The keys of the scripts on tasks."""
        if len(tenants) > 1:
            return (*self._shared, *(key for tenant in tenants for key in self._keys(tenant)[len(scripts.SHARED) :]))
        (tenant,) = tenants
        keys = self._tenants.get(tenant)
        if keys is None:
            if len(self._tenants) >= _MOST_KEYS:
                self._tenants.clear()
            own = (self._named(word, tenant) for word in scripts.OF_TENANT)
            keys = self._tenants[tenant] = (*self._shared, *own)
        return keys

    async def _run(self, script: str, keys: Sequence[bytes], told: Sequence[object]) -> Reply:
        return await self.client.run(script, keys, (_pack(told),))

    async def _all(self, script: str, keys: Sequence[bytes], told: Sequence[object], most: int = sys.maxsize) -> int:
        """Run a script that is told last how many entries it may forget, until it finds no more; gives how many."""
        forgotten = 0
        while forgotten < most:
            few = min(most - forgotten, _AT_ONCE)
            took = as_number(await self._run(script, keys, (*told, few)))
            forgotten += took
            if took < few:
                break
        return forgotten

    async def _scan(self, command: str, key: bytes) -> AsyncGenerator[Any, None]:
        """Yield the members of a set, or a hash as dictionaries, some at a time; one may come twice."""
        cursor = 0
        while True:
            found = await self.client.ask(command, key, b"%d" % cursor, b"COUNT", b"%d" % _TENANTS)
            cursor, page = cast("tuple[int, Any]", found)  # redis-py reads it
            yield page
            if cursor == 0:
                return
