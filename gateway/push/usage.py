"""Counts of subscriptions and notifications in the store by tenant, so that none can fill it.

Subscriptions and entries are counted where they are written and deleted. Nobody tells of those that expire, or that
another gateway of the store writes: so all are counted anew each hour, and within a minute after one was refused; the
entries each half minute, also for the metrics.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from gateway.a2a.fault import StateUnavailable
from gateway.push.subscription import KIND as SUBSCRIPTION
from gateway.tasks.store import Store, notes_of

ENTRY: Final = "outbox"
"""The kind of the notes that are entries of the queue (`queue.py`)."""
BODY: Final = "body"
"""The kind of their bodies; the first of all kinds, so that no page of the others ends with bodies."""

_EVERY: Final = 3600.0
_AT_MOST: Final = 60.0
_ENTRIES_EVERY: Final = 30.0


class Quota(msgspec.Struct, frozen=True):
    """The most that one tenant may have: subscriptions, notifications that wait, and bytes of their bodies."""

    subscriptions: int = 20_000
    waiting: int = 10_000
    waiting_bytes: int = 256 * 1024 * 1024


class Usage:
    """Counts, by tenant.

    Attributes:
        quota: Replaced when the configuration is reloaded.
        waiting: Notifications in the queue, by agent, when they were counted last.
        oldest: When the oldest of them was enqueued, in Unix seconds; None where there is none.
    """

    def __init__(self, store: Store, quota: Quota | None = None) -> None:
        self.quota = Quota() if quota is None else quota
        self._store = store
        self._subscriptions: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._refused = asyncio.Event()
        self.waiting: Mapping[str, int] = {}
        self.oldest: float | None = None

    def has_room(self, tenant: str) -> bool:
        """Return whether a tenant may have one more subscription."""
        return self._answer(fits=self._subscriptions[tenant] < self.quota.subscriptions)

    def has_room_for(self, tenant: str, size: int) -> bool:
        """Return whether a tenant may have one more notification, of so many bytes."""
        quota = self.quota
        fits = self._waiting[tenant] < quota.waiting and self._bytes[tenant] + size <= quota.waiting_bytes
        return self._answer(fits=fits)

    def subscribed(self, tenant: str, change: int = 1) -> None:
        """Count one subscription more (1) or fewer (-1)."""
        _change(self._subscriptions, tenant, change)

    def queued(self, tenant: str, size: int, change: int = 1) -> None:
        """Count one notification more (1) or fewer (-1)."""
        _change(self._waiting, tenant, change)
        _change(self._bytes, tenant, change * size)

    async def watch(self) -> None:
        """Count the entries each half minute until cancelled."""
        while True:
            await asyncio.sleep(_ENTRIES_EVERY)
            with suppress(StateUnavailable):
                await self.count_entries()

    async def run(self) -> None:
        """Count the store anew at once, each hour, and within a minute after a refusal; until cancelled."""
        while True:
            with suppress(StateUnavailable):
                await self.count()
            await asyncio.sleep(_AT_MOST)
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVERY):
                    await self._refused.wait()

    async def count(self) -> None:
        """Count the store anew.

        Raises:
            StateUnavailable: it does not answer; the counts stay as they are.
        """
        self._refused.clear()
        self._subscriptions = Counter([note.tenant async for note in notes_of(self._store, SUBSCRIPTION)])
        await self.count_entries()

    async def count_entries(self) -> None:
        """Count the notifications in the queue anew.

        Raises:
            StateUnavailable: as `count`.
        """
        waiting, sizes, agents = Counter[str](), Counter[str](), Counter[str]()
        oldest: float | None = None
        async for note in notes_of(self._store, ENTRY):
            entry = _read(note.value)
            waiting[note.tenant] += 1
            sizes[note.tenant] += entry.size
            agents[entry.agent] += 1
            oldest = entry.made if oldest is None else min(oldest, entry.made)
        self._waiting, self._bytes, self.waiting, self.oldest = waiting, sizes, agents, oldest

    def _answer(self, *, fits: bool) -> bool:
        if not fits:
            self._refused.set()
        return fits


def _change(counts: Counter[str], tenant: str, change: int) -> None:
    counts[tenant] += change
    if counts[tenant] <= 0:
        del counts[tenant]


class _Entry(msgspec.Struct):
    agent: str = ""
    made: float = math.inf
    size: int = 0


def _read(entry: bytes) -> _Entry:
    """Return what is counted of an entry; of one that cannot be read, an empty one."""
    try:
        return msgspec.json.decode(entry, type=_Entry)
    except msgspec.MsgspecError:
        return _Entry()
