"""What a tenant has too much of is forgotten: notes that nothing else bounds, such as names of tasks.

A store counts no notes, so they are gone through now and then, over all tenants. In between a tenant may have more.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from gateway.tasks.store import Note, Store

_PAGE = 500


async def drop_surplus(store: Store, kind: str, most: int) -> int:
    """Forget the notes of a kind that a tenant has beyond `most`, those first that end first; gives how many.

    Raises:
        StateUnavailable: the store does not answer; what was forgotten by then is.
    """
    counts: Counter[str] = Counter()
    async for note in _notes(store, kind):
        counts[note.tenant] += 1
    beyond = {tenant: count - most for tenant, count in counts.items() if count > most}
    if not beyond:
        return 0
    ends: dict[str, list[tuple[int, str]]] = {tenant: [] for tenant in beyond}
    async for note in _notes(store, kind):
        if note.tenant in ends:
            ends[note.tenant].append((note.until, note.key))
    dropped = 0
    for tenant, found in ends.items():
        for _, key in sorted(found)[: beyond[tenant]]:
            dropped += await store.drop(kind, key)
            if dropped % _PAGE == 0:
                await asyncio.sleep(0)
    return dropped


async def _notes(store: Store, kind: str) -> AsyncIterator[Note]:
    """The notes of a kind; others have their turn between two pages."""
    after = (kind, "")
    while True:
        page = await store.notes(after, _PAGE)
        for note in page:
            if note.kind != kind:
                return
            yield note
        if not page:
            return
        after = (page[-1].kind, page[-1].key)
        await asyncio.sleep(0)
