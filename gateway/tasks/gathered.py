"""A store whose sightings are written together where many are met in one turn of the event loop.

In a file, a transaction costs about as much as what is written in it: locks of the file, a page of the log for each
index. A gateway that is busy meets several tasks before it looks for more to read. What is met alone, as it was in the
turn before, is written at once and waits for nothing; what a turn meets beside it, or behind a turn that met several,
is written in one transaction when the turn is over, and nobody is answered before that has been carried out.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias, cast

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.counted import OPERATIONS, Counts
from gateway.tasks.store import Met, Sighting, Soon, Store

MOST = 50
"""Sightings of one transaction: about a millisecond, for which other processes wait."""

Together: TypeAlias = Callable[[], AbstractContextManager[Callable[[str, Sighting], Met]]]
"""One transaction, and what meets sightings in it; where it fails, nothing was written."""


class _Gathered:
    """The store, but for `meet`."""

    def __init__(self, store: Store, together: Together, counts: Counts) -> None:
        self.local, self.shared, self.label = store.local, store.shared, store.label
        self.open = store.open
        for name in OPERATIONS:
            if name != "meet":
                setattr(self, name, getattr(store, name))
        self._store = store
        self._meet_now = cast("Callable[[str, Sighting], Met]", store.meet)  # of a store that answers at once
        self._together = together
        self._counts = counts
        self._is_turn = False
        # How many the turn has met so far, and whether the one before had several.
        self._met = 0
        self._is_busy = False
        self._waiting: list[tuple[str, Sighting, asyncio.Future[Met]]] = []

    async def aclose(self) -> None:
        self._write()
        await self._store.aclose()

    def meet(self, scope: str, sighting: Sighting) -> Soon[Met]:
        """As `Store.meet`; whoever is cancelled is written down all the same."""
        loop = asyncio.get_running_loop()
        self._met += 1
        if not self._is_turn:
            self._is_turn = True
            loop.call_soon(self._end_turn)
            if not self._is_busy:
                return self._meet_now(scope, sighting)
        answer: asyncio.Future[Met] = loop.create_future()
        self._waiting.append((scope, sighting, answer))
        if len(self._waiting) >= MOST:
            self._write()
        return answer

    def _end_turn(self) -> None:
        self._is_turn, self._is_busy, self._met = False, self._met > 1, 0
        self._write()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        counts = self._counts
        try:
            if len(waiting) == 1:
                # Counted by the store.
                found = [self._meet_now(*waiting[0][:2])]
            else:
                with self._together() as meet:
                    found = [meet(scope, sighting) for scope, sighting, _ in waiting]
                counts["ok"] = counts.get("ok", 0) + len(waiting)
        except StateUnavailable as fault:
            if len(waiting) > 1:
                counts["unavailable"] = counts.get("unavailable", 0) + len(waiting)
            for _, _, answer in waiting:
                if not answer.done():
                    # One for each: it is raised, and raised again, in other places.
                    answer.set_exception(
                        StateUnavailable(fault.message, detail=fault.detail, retry_after=fault.retry_after)
                    )
            return
        for (_, _, answer), met in zip(waiting, found, strict=True):
            if not answer.done():
                answer.set_result(met)


def gathered(store: Store, together: Together, counts: Counts) -> Store:
    """The same store.

    Args:
        store: Answers at once.
        counts: Of `meet`; see `counted.py`.
    """
    return cast("Store", _Gathered(store, together, counts))
