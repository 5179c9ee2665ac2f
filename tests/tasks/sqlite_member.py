"""One of several processes that use the ledger in a file at a time, at random: it writes down what it was told.

Arguments: the database, a seed, seconds, the file of what it is told, and how many ids there are of a kind.
"""

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import TextIO

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Bounds, Observed, Owner

TENANTS = "ABC"
NOW = 1_000_000


async def act(store: SqliteStore, chance: random.Random, ids: int, told: TextIO) -> None:
    """Ask for one thing, and write down whose anything was said to be."""
    task, context = f"t{chance.randrange(ids)}", f"c{chance.randrange(ids)}"
    owner = Owner(chance.choice(TENANTS), chance.choice(("ann", "bob")))
    found: list[tuple[str, Owner | None]] = []
    what = chance.random()
    if what < 0.6:
        state = chance.choice(("", "working", "completed"))
        met = await store.record("s", Observed(owner, task, context, state, now=NOW, apart=chance.random() < 0.5))
        found = [(task, met.task), (context, met.context)]
    elif what < 0.75:
        found = [(task, known.owner) for known in await store.tasks("s", [task]) if known is not None]
    elif what < 0.85:
        found = [(context, await store.context("s", context))]
    elif what < 0.95:
        assert await store.count("s", owner) <= ids
        assert await store.open_tasks(owner.tenant) <= ids
    elif what < 0.98:
        await store.expire(NOW + 100, Bounds(), 500)
    elif what < 0.99:
        await store.erase("nobody")
    else:
        await store.figures()
    for name, whose in found:
        if whose is not None:
            told.write(f"{name} {whose.tenant} {whose.principal}\n")


async def main(path: Path, seed: int, seconds: float, told: TextIO, ids: int) -> None:
    """Act until the time is over, or somebody kills this."""
    chance = random.Random(seed)
    store = SqliteStore(path)
    await store.open()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            await act(store, chance, ids, told)
        except StateUnavailable:
            # Somebody was stopped while it held the file.
            await asyncio.sleep(0.001)
    await store.aclose()


if __name__ == "__main__":
    with Path(sys.argv[4]).open("w", buffering=1, encoding="utf-8") as file:
        asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), file, int(sys.argv[5])))
