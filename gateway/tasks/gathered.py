"""A store whose sightings are written together where many are met in one turn of the event loop.

In a file, a transaction costs about as much as what is written in it: locks of the file, a page of the log for each
index. A gateway that is busy meets several tasks before it looks for more to read. The first of a turn is written at
once, so whoever is alone waits for nobody; those behind it are written in one transaction when the turn is over, and
none is answered before that has been carried out.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.counted import OPERATIONS
from gateway.tasks.store import Met, Sighting, Soon, Store

MOST = 50
"""Sightings of one transaction: about a millisecond, for which other processes wait."""


class _Gathered:
    """The store, but for `meet`."""

    def __init__(self, store: Store, together: Callable[[], AbstractContextManager[Any]]) -> None:
        self.local, self.shared, self.label = store.local, store.shared, store.label
        self.open = store.open
        for name in OPERATIONS:
            if name != "meet":
                setattr(self, name, getattr(store, name))
        self._store = store
        # Not by the store of each: that is a call more for every task.
        self._meet_now = cast("Callable[[str, Sighting], Met]", store.meet)
        self._together = together
        self._is_turn = False
        self._waiting: list[tuple[str, Sighting, asyncio.Future[Met]]] = []

    async def aclose(self) -> None:
        self._write()
        await self._store.aclose()

    def meet(self, scope: str, sighting: Sighting) -> Soon[Met]:
        """As `Store.meet`; whoever is cancelled is written down all the same."""
        loop = asyncio.get_running_loop()
        if not self._is_turn:
            self._is_turn = True
            loop.call_soon(self._end_turn)
            return self._meet_now(scope, sighting)
        met: asyncio.Future[Met] = loop.create_future()
        self._waiting.append((scope, sighting, met))
        if len(self._waiting) >= MOST:
            self._write()
        return met

    def _end_turn(self) -> None:
        self._is_turn = False
        if self._waiting:
            self._write()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        if len(waiting) == 1:
            scope, sighting, answer = waiting[0]
            try:
                _tell(answer, self._meet_now(scope, sighting))
            except StateUnavailable as fault:
                _refuse(answer, fault)
            return
        found = []
        try:
            with self._together():
                for scope, sighting, _ in waiting:
                    found.append(self._meet_now(scope, sighting))
        except StateUnavailable as fault:
            for _, _, answer in waiting:
                _refuse(answer, fault)
            return
        for (_, _, answer), met in zip(waiting, found, strict=True):
            _tell(answer, met)


def gathered(store: Store, together: Callable[[], AbstractContextManager[Any]]) -> Store:
    """The same store.

    Args:
        store: Meets what it is told of at once.
        together: Makes one transaction of what is written inside; where it fails, nothing was written.
    """
    return cast("Store", _Gathered(store, together))


def _tell(answer: asyncio.Future[Met], met: Met) -> None:
    if not answer.done():
        answer.set_result(met)


def _refuse(answer: asyncio.Future[Met], fault: StateUnavailable) -> None:
    if not answer.done():
        # One of its own: each is raised somewhere else.
        answer.set_exception(StateUnavailable(fault.message, detail=fault.detail, retry_after=fault.retry_after))
