"""One of several processes that use the ledger in a file at a time, at random: it writes down what it was told.

Arguments: the database, a seed, seconds, the file of what it is told, and how many ids there are of a kind: 2,000 at
most. Beside what it is told it makes a file once its filter has said of anything that it is in no table.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TextIO

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite, sqlite_seen
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_carrying import Carrier
from gateway.tasks.sqlite_checkpoint import Checkpoints
from gateway.tasks.store import Bounds, Owner, Sighting

TENANTS = "ABC"
NOW = 1_000_000


def act(store: SqliteStore, chance: random.Random, ids: int, told: TextIO) -> None:
    """Ask for one thing, and write down whose anything was said to be."""
    task, context = f"t{chance.randrange(ids)}", f"c{chance.randrange(ids)}"
    owner = Owner(chance.choice(TENANTS), chance.choice(("ann", "bob")))
    found: list[tuple[str, Owner | None]] = []
    what = chance.random()
    if what < 0.6:
        state = chance.choice(("", "working", "completed"))
        met = store.meet("s", Sighting(owner, task, context, state, now=NOW, apart=chance.random() < 0.5))
        found = [(task, met.task), (context, met.context)]
    elif what < 0.75:
        found = [(task, known.owner) for known in store.tasks("s", [task]) if known is not None]
    elif what < 0.85:
        found = [(context, store.context("s", context))]
    elif what < 0.95:
        for count in (store.count("s", owner), store.open_tasks(owner.tenant)):
            # So few are never counted aside.
            assert isinstance(count, int)
            assert count <= ids
    elif what < 0.98:
        store.expire(NOW + 100, Bounds(), 500)
    elif what < 0.99:
        store.erase("nobody")
    else:
        store.figures()
    for name, whose in found:
        if whose is not None:
            told.write(f"{name} {whose.tenant} {whose.principal}\n")


def note_filter(store: SqliteStore, note: Path) -> None:
    """Make the file once there is a filter that says of something new that it is new."""
    arrivals = store._arrivals
    if arrivals is not None and not arrivals.seen.may_hold((1, "s", "new")) and not note.exists():
        note.touch()


async def main(path: Path, seed: int, seconds: float, told: TextIO, ids: int) -> None:
    """Act until the time is over, or somebody kills this."""
    chance = random.Random(seed)

    class Often(Checkpoints):
        def __init__(self, path: Path, *, astray: Callable[[], bool], carrier: Carrier) -> None:
            super().__init__(path, every=chance.choice((0.001, 0.01, 0.05)), long=20, astray=astray, carrier=carrier)

    vars(sqlite)["Checkpoints"] = Often
    vars(sqlite)["Carrier"] = partial(Carrier, many=chance.choice((0, 500, 5000)), later=chance.choice((0.0, 0.05)))
    # A filter that is in doubt is filled again at once, a few names at a time.
    vars(sqlite_seen).update(_AGAIN=0.0, _AT_A_TIME=chance.choice((7, 1_000)), _FIRST=chance.choice((100, 200_000)))
    store = SqliteStore(path)
    await store.open()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            act(store, chance, ids, told)
            note_filter(store, Path(f"{told.name}-new"))
        except StateUnavailable:
            # Somebody was stopped while it held the file.
            await asyncio.sleep(0.001)
    await store.aclose()


if __name__ == "__main__":
    with Path(sys.argv[4]).open("w", buffering=1, encoding="utf-8") as file:
        asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), file, int(sys.argv[5])))
