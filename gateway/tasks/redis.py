"""The ledger in a Redis, or a Valkey, that several gateways share.

Each decision is one script that runs within the server (`redis_scripts.py`), so two gateways that ask at the same time
get the same answer. All keys carry one hash tag, the prefix, because the owner of a task, its tenant's count and the
oldest task are decided together. So in a cluster the whole ledger is on one shard.

The server may lose writes that it has acknowledged: the last second of them when a replica takes over, or when it is
killed without `appendfsync always`. A lost task has no owner and is denied. A server that evicts keys when it is full
loses task owners; `maxmemory-policy` should be `noeviction`.

Every failure is `StateUnavailable`, within half a second, or some seconds for large requests: `redis_client.py`.
"""

import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeVar, cast

import msgspec

from gateway.tasks import redis_scripts as scripts
from gateway.tasks.redis_client import RedisClient, Reply, unavailable
from gateway.tasks.state_url import read_redis
from gateway.tasks.store import (
    LARGE_KINDS,
    LONGEST_ID,
    Bounds,
    Figures,
    Note,
    Observed,
    Owner,
    RecordedOwners,
    Row,
    Task,
)

_DIGITS: Final = 12
"""Of the time at which a note is to be forgotten, in front of its value."""

_LARGE: Final = 32 * 1024
"""Bytes from which a value counts as large."""

# Most work of one script: it blocks the server meanwhile.
_AT_ONCE: Final = 100
_TENANTS: Final = 50
_MOST_KEYS: Final = 10_000
_LATEST: Final = 10**_DIGITS - 1
_LATEST_MICROS: Final = 2**53
_PAGE: Final = 1024 * 1024
"""Bytes of notes after which a listing ends."""

T = TypeVar("T")

_pack = msgspec.msgpack.Encoder().encode


class RedisStore:
    """Keeps the ledger in a Redis.

    Args:
        url: As `read_state` has checked it.
        wall: Unix seconds, by which notes expire.
        patience: Seconds for a reply, if there is more time than a call has.
    """

    local = False
    shared = True
    trouble = ""

    def __init__(
        self,
        url: str,
        *,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - notes outlive the process
        patience: float | None = None,
    ) -> None:
        address = read_redis(url)
        self.label = address.label
        self.client = RedisClient(address, patience=patience)
        self._wall = wall
        self._named = address.named
        self._tasks, self._contexts, *_ = self._shared = tuple(map(address.named, scripts.SHARED))
        self._notes = tuple(map(address.named, scripts.NOTES))
        self._own_keys = lru_cache(_MOST_KEYS)(
            lambda tenant: tuple(address.named(word, tenant) for word in scripts.OF_TENANT)
        )

    async def open(self) -> None:
        """As `Store.open`."""
        await self.client.open()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()

    # ---- Tasks and contexts --------------------------------------------------------------------------------------

    async def tasks(self, scope: str, ids: Sequence[str]) -> list[Task | None]:
        """As `Store.tasks`."""
        if not ids:
            return []
        start = _closed(scope)
        reply = await self.client.ask("HMGET", self._tasks, *[(start + _short(each)).encode() for each in ids])
        return [None if known is None else _read_task(known) for known in _as(list, reply)]

    async def context(self, scope: str, id: str) -> Owner | None:  # noqa: A002 - the word
        """As `Store.context`."""
        reply = await self.client.ask("HGET", self._contexts, (_closed(scope) + _short(id)).encode())
        return None if reply is None else _read_context(reply)[0]

    async def record(self, scope: str, observed: Observed) -> RecordedOwners:
        """As `Store.record`."""
        owner = observed.owner
        task, context = _short(observed.task), _short(observed.context)
        if not task and not context:
            return RecordedOwners()
        args = (
            _closed(scope), task, context, owner.tenant, owner.principal,
            observed.state, observed.replica, observed.dialect, observed.now, observed.apart, observed.prefixed,
        )  # fmt: skip
        reply = await self._run(scripts.RECORD, self._keys(owner.tenant), args)
        if reply == 1:
            return RecordedOwners(owner if task else None, owner if context else None)
        # False is Lua's nil.
        of_task, of_context = _decoded(_owners, reply)
        return RecordedOwners(
            None if isinstance(of_task, bool) else Owner(*of_task),
            None if isinstance(of_context, bool) else Owner(*of_context),
        )

    async def open_tasks(self, tenant: str) -> int:
        """As `Store.open_tasks`."""
        return _as(int, await self.client.ask("ZCARD", self._own_keys(tenant)[0]))

    async def open_by_scope(self) -> dict[tuple[str, str], int]:
        """As `Store.open_by_scope`."""
        counts: Counter[tuple[str, str]] = Counter()
        async for tenants in self._scan("SSCAN", self._named("tenants")):
            for tenant in map(bytes.decode, tenants):
                async for page in self._scan("ZSCAN", self._own_keys(tenant)[0]):
                    counts.update((tenant, _split(name.decode())[0]) for name, _ in page)
        return counts

    async def count(self, scope: str, owner: Owner, context: str = "") -> int:
        """As `Store.count`."""
        field = _closed(scope) + _closed(owner.principal) + context
        reply = await self.client.ask("HGET", self._own_keys(owner.tenant)[-1], field.encode())
        return int(_as(bytes, reply)) if reply is not None else 0

    # ---- Notes -----------------------------------------------------------------------------------------------------

    async def note(self, kind: str, key: str) -> bytes | None:
        """As `Store.note`."""
        name = _named(kind, key).encode()
        reply = await self.client.ask("HGET", self._notes[0], name, large=kind in LARGE_KINDS)
        if reply is None:
            return None
        kept = _as(bytes, reply)
        until = int(kept[:_DIGITS])
        return None if until and until <= self._wall() else kept[_DIGITS:]

    async def keep(self, note: Note) -> None:
        """As `Store.keep`."""
        await self._keep(note, once=False)

    async def settle(self, note: Note) -> bytes:
        """As `Store.settle`."""
        reply = await self._keep(note, once=True)
        return note.value if reply is None else _as(bytes, reply)

    async def _keep(self, note: Note, *, once: bool) -> Reply:
        due = max(1, _micros(note.due)) if note.due > 0 else 0
        meta = (note.tenant, note.group, due, min(max(note.until, 0), _LATEST))
        packed = _pack((_named(note.kind, note.key), meta, self._wall(), once))
        large = len(note.value) >= _LARGE
        return await self.client.run(scripts.KEEP, self._notes, (packed, note.value), large=large)

    async def drop(self, kind: str, key: str) -> bool:
        """As `Store.drop`."""
        return await self._run(scripts.DROP, self._notes, (_named(kind, key), self._wall())) == 1

    async def group(self, kind: str, group: str, most: int) -> list[tuple[str, bytes]]:
        """As `Store.group`."""
        if not group:
            return []
        reply = await self._run(scripts.GROUP, self._notes, (_closed(kind), _closed(group), most, self._wall()))
        return [(key.decode(), value) for key, value in _grouped(2, reply)]

    async def due(self, kind: str, now: float, most: int, lease: float) -> list[tuple[str, bytes]]:
        """As `Store.due`."""
        args = (_closed(kind), _micros(now), most, _micros(now + lease), self._wall())
        reply = await self._run(scripts.DUE, self._notes, args)
        return [(key.decode(), value) for key, value in _grouped(2, reply)]

    # ---- Retention ---------------------------------------------------------------------------------------------------

    async def expire(self, now: int, bounds: Bounds, most: int) -> int:
        """As `Store.expire`."""
        forgotten = await self._all(scripts.EXPIRE_NOTES, self._notes, (now,), most)
        old = (now - bounds.ended, now - bounds.open, bounds.tasks, bounds.contexts)
        async with aclosing(self._scan("SSCAN", self._named("tenants"))) as pages:
            async for page in pages:
                for few in _slices(list(map(bytes.decode, page)), _TENANTS):
                    if forgotten < most:
                        keys = self._keys(*few)
                        forgotten += await self._all(scripts.EXPIRE, keys, (few, *old), most - forgotten)
        return forgotten

    async def figures(self) -> list[Figures]:
        """Return the figures of each tenant; they are not read in one step."""
        holders: dict[bytes, str] = {}
        async for page in self._scan("HSCAN", self._notes[1]):
            holders.update((name, _decoded(_meta, meta)[0]) for name, meta in page.items())
        notes = Counter(holders.values())
        held = dict.fromkeys(notes, (0, 0, 0))
        async for tenants in self._scan("SSCAN", self._named("tenants")):
            for tenant in map(bytes.decode, tenants):
                is_open, ended, contexts, _ = self._own_keys(tenant)
                sizes = [_as(int, await self.client.ask("ZCARD", key)) for key in (is_open, ended, contexts)]
                held[tenant] = (sizes[0], sizes[1], sizes[2])
        return [
            Figures(tenant, tasks=is_open + ended, open=is_open, contexts=contexts, notes=notes[tenant])
            for tenant, (is_open, ended, contexts) in sorted(held.items())
        ]

    async def erase(self, tenant: str) -> int:
        """As `Store.erase`."""
        tasks = await self._all(scripts.ERASE, self._keys(tenant), (tenant,))
        return tasks + await self._all(scripts.ERASE_NOTES, self._notes, (_closed(tenant),))

    async def rows(self, after: tuple[str, str, str], most: int) -> list[Row]:
        """As `Store.rows`."""
        what, scope, id_ = after
        start = b"(" + (what[:1] + _named(scope, id_)).encode() if what else b"-"
        names = await self.client.ask("ZRANGEBYLEX", self._shared[2], start, b"+", b"LIMIT", b"0", b"%d" % most)
        rows = []
        for name in (_as(bytes, each) for each in _as(list, names)):
            known = await self.client.ask("HGET", self._tasks if name[:1] == b"t" else self._contexts, name[1:])
            # It may have been deleted since.
            rows += [] if known is None else [_read_row(name.decode(), known)]
        return rows

    async def put_rows(self, rows: Sequence[Row]) -> int:
        """As `Store.put_rows`."""
        by_tenant: dict[str, list[tuple[str, str, bool, tuple[object, ...]]]] = {}
        for row in rows:
            if (task := row.task) is not None:
                owner, rest = task.owner, (_short(task.context), *msgspec.structs.astuple(task)[2:])
            elif row.context is not None:
                owner, rest = row.context, (row.seen,)
            else:
                continue
            if _short(row.id):
                entry = (_closed(row.scope), row.id, task is not None, (owner.tenant, owner.principal, *rest))
                by_tenant.setdefault(owner.tenant, []).append(entry)
        written = 0
        for tenant, entries in by_tenant.items():
            for few in _slices(entries, _AT_ONCE):
                written += _as(int, await self._run(scripts.PUT_ROWS, self._keys(tenant), few))
        return written

    async def notes(self, after: tuple[str, str], most: int) -> list[Note]:
        """As `Store.notes`."""
        start = "k" + _named(*after) if after != ("", "") else ""
        packed = _pack((start, most, self._wall(), _PAGE))
        reply = await self.client.run(scripts.LIST, self._notes, (packed,), large=True)
        notes = []
        for name, value, kept in _grouped(3, reply):
            tenant, group, due, until = _decoded(_meta, kept)
            notes.append(Note(*_split(name.decode()), value, tenant, group, due / 1e6, until))
        return notes

    # ---- How it is asked -------------------------------------------------------------------------------------------

    def _keys(self, *tenants: str) -> tuple[bytes, ...]:
        """Return the keys of the scripts on tasks."""
        return (*self._shared, *chain.from_iterable(map(self._own_keys, tenants)))

    async def _run(self, script: str, keys: Sequence[bytes], args: Sequence[object]) -> Reply:
        return await self.client.run(script, keys, (_pack(args),))

    async def _all(self, script: str, keys: Sequence[bytes], args: Sequence[object], most: int = sys.maxsize) -> int:
        """Run a script until it finds no more entries to delete, and return their number.

        Args:
            args: Its arguments but the last, which is the most entries that one run forgets.
            most: The most entries that all runs forget.
        """
        forgotten = 0
        while forgotten < most:
            few = min(most - forgotten, _AT_ONCE)
            took = _as(int, await self._run(script, keys, (*args, few)))
            forgotten += took
            if took < few:
                break
        return forgotten

    async def _scan(self, command: str, key: bytes) -> AsyncGenerator[Any, None]:
        """Yield the members of a set, or a hash as dictionaries, some at a time; one may come twice."""
        cursor = 0
        while True:
            reply = await self.client.ask(command, key, b"%d" % cursor, b"COUNT", b"%d" % _TENANTS)
            cursor, page = cast("tuple[int, Any]", reply)  # redis-py reads it
            yield page
            if cursor == 0:
                return


# ---- Entries as Redis has them ---------------------------------------------------------------------------------------


_task = msgspec.msgpack.Decoder(tuple[str, str, str, str, str, str, int, int])
_context = msgspec.msgpack.Decoder(tuple[str, str, int])
_meta = msgspec.msgpack.Decoder(tuple[str, str, int, int])
_owners = msgspec.msgpack.Decoder(tuple[tuple[str, str] | bool, tuple[str, str] | bool])


# ---- Words ---------------------------------------------------------------------------------------------------------


def _closed(word: str) -> str:
    """Return a word with its terminator, so that another word may follow."""
    if "\0" in word or "\1" in word:
        word = word.replace("\1", "\1\2").replace("\0", "\1\1")
    return word + "\0"


def _opened(word: str) -> str:
    """Return a word without its terminator."""
    return word[:-1].replace("\1\1", "\0").replace("\1\2", "\1")


def _named(word: str, rest: str) -> str:
    """Return two words, such as a scope and an id, as one name."""
    return _closed(word) + rest


def _split(name: str) -> tuple[str, str]:
    """Return the words of a name."""
    border = name.index("\0") + 1
    return _opened(name[:border]), name[border:]


def _short(id_: str) -> str:
    """Return the id, or an empty text if it is too long to be kept."""
    return id_ if len(id_) <= LONGEST_ID else ""


def _micros(seconds: float) -> int:
    """Return microseconds, bounded by the largest integer that Lua's doubles hold exactly."""
    return min(round(seconds * 1e6), _LATEST_MICROS)


# ---- Tasks and contexts --------------------------------------------------------------------------------------------


def _read_task(reply: Reply) -> Task:
    """Return the task that a hash holds."""
    tenant, principal, context, state, replica, dialect, made, seen = _decoded(_task, reply)
    return Task(Owner(tenant, principal), context, state, replica, dialect, made, seen)


def _read_context(reply: Reply) -> tuple[Owner, int]:
    """Return the context that a hash holds: its owner, and when it was seen."""
    tenant, principal, seen = _decoded(_context, reply)
    return Owner(tenant, principal), seen


def _read_row(name: str, reply: Reply) -> Row:
    """Return a row by its name among the rows."""
    scope, id_ = _split(name[1:])
    if name[0] == "t":
        task = _read_task(reply)
        return Row(scope, id_, task=task, seen=task.seen)
    owner, seen = _read_context(reply)
    return Row(scope, id_, context=owner, seen=seen)


# ---- Replies -------------------------------------------------------------------------------------------------------


def _as(kind: type[T], reply: Reply) -> T:
    """Return a reply that has the expected type.

    Raises:
        StateUnavailable: it is of another one.
    """
    if not isinstance(reply, kind):
        raise unavailable("Unreadable")
    return reply


def _grouped(size: int, reply: Reply) -> Iterator[tuple[bytes, ...]]:
    """Yield a list of strings in groups of a size."""
    words = cast("list[bytes]", _as(list, reply))  # our own scripts answer with strings
    return zip(*(words[at::size] for at in range(size)), strict=True)


def _slices(items: list[T], size: int) -> Iterator[list[T]]:
    """Yield a list in chunks."""
    return (items[at : at + size] for at in range(0, len(items), size))


def _decoded(decoder: msgspec.msgpack.Decoder[T], reply: Reply) -> T:
    try:
        return decoder.decode(_as(bytes, reply))
    except msgspec.MsgspecError as error:
        raise unavailable("Unreadable") from error
