"""How much each tenant has in the store for its webhooks, so that none can fill it.

Hooks and notifications are counted where they are made and where they go. What is forgotten because its time is over,
or made by another gateway of the same store, nobody tells: so it is all counted anew now and then, and soon after
somebody was refused. In between, each of several gateways knows its own.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Final

import msgspec

from gateway.a2a.fault import StateUnavailable
from gateway.push import slip as slips
from gateway.push.hook import KIND as HOOK
from gateway.tasks.store import Store

_EVERY: Final = 3600.0
_AT_MOST: Final = 60.0
_PAGE: Final = 500


class Allowance(msgspec.Struct, frozen=True):
    """What one tenant may have.

    Attributes:
        hooks: Webhooks that the gateway calls for it.
        waiting: Notifications that wait.
        waiting_bytes: Bytes of their bodies.
    """

    hooks: int = 20_000
    waiting: int = 10_000
    waiting_bytes: int = 256 * 1024 * 1024


class Account:
    """What tenants have."""

    def __init__(self, store: Store, allowance: Allowance | None = None) -> None:
        self.allowance = Allowance() if allowance is None else allowance
        self._store = store
        self._hooks: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._refused = asyncio.Event()

    def has_room(self, tenant: str) -> bool:
        """Whether a tenant may have one more hook."""
        return self._hooks[tenant] < self.allowance.hooks or self._refuse()

    def has_room_for(self, tenant: str, size: int) -> bool:
        """Whether a tenant may have one more notification, of so many bytes."""
        allowance = self.allowance
        fits = self._waiting[tenant] < allowance.waiting and self._bytes[tenant] + size <= allowance.waiting_bytes
        return fits or self._refuse()

    def hooked(self, tenant: str, change: int = 1) -> None:
        """A tenant has one hook more (1) or fewer (-1)."""
        _change(self._hooks, tenant, change)

    def queued(self, tenant: str, size: int, change: int = 1) -> None:
        """A tenant has one notification more (1) or fewer (-1)."""
        _change(self._waiting, tenant, change)
        _change(self._bytes, tenant, change * size)

    async def run(self) -> None:
        """Count what the store has, for ever: at once, each hour, and within a minute when somebody was refused."""
        while True:
            with suppress(StateUnavailable):
                await self.count()
            await asyncio.sleep(_AT_MOST)
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVERY):
                    await self._refused.wait()

    async def count(self) -> None:
        """Count what the store has.

        Raises:
            StateUnavailable: it does not answer; what was known stands.
        """
        self._refused.clear()
        hooks: Counter[str] = Counter()
        waiting: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for kind in (HOOK, slips.KIND):
            after = (kind, "")
            while after[0] == kind:
                notes = await self._store.notes(after, _PAGE)
                for note in notes:
                    if note.kind != kind:
                        # The end of a page may be of another kind: bodies are of none that comes next.
                        break
                    if kind == HOOK:
                        hooks[note.tenant] += 1
                    else:
                        slip = slips.read(note.value)
                        waiting[note.tenant] += 1
                        sizes[note.tenant] += 0 if slip is None else slip.size
                if not notes:
                    break
                after = (notes[-1].kind, notes[-1].key)
                # Others have their turn between two pages.
                await asyncio.sleep(0)
        self._hooks, self._waiting, self._bytes = hooks, waiting, sizes

    def _refuse(self) -> bool:
        self._refused.set()
        return False


def _change(counts: Counter[str], tenant: str, change: int) -> None:
    counts[tenant] += change
    if counts[tenant] <= 0:
        del counts[tenant]
