"""Configurations that were replaced: each is closed when the last call that began with it has ended."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from gateway.background import Background
from gateway.snapshot import Snapshot

_FETCHES_GO_ON = 10.0
"""Seconds for which a replaced configuration still fetches cards and keys, for calls that began with it."""


class OutgoingSnapshots:
    """Drains and closes replaced snapshots.

    Args:
        closed: Called after one was closed.
    """

    def __init__(self, background: Background, closed: Callable[[], None] = lambda: None) -> None:
        self._background = background
        self._closed = closed
        self._draining: set[Snapshot] = set()

    def __len__(self) -> int:
        return len(self._draining)

    def drain(self, snapshot: Snapshot) -> None:
        """Close what `snapshot` has open, and no newer one uses, once its last call has ended."""
        self._draining.add(snapshot)
        self._background.start("draining a configuration", partial(self._drain, snapshot))

    async def aclose(self) -> None:
        """Close all of them now."""
        await asyncio.gather(*(snapshot.aclose() for snapshot in tuple(self._draining)))

    async def _drain(self, snapshot: Snapshot) -> None:
        with suppress(TimeoutError):
            # Card and key fetches go on for a while: an open call may wait for one.
            async with asyncio.timeout(_FETCHES_GO_ON):
                await snapshot.calls.ended()
        snapshot.resources.rest()
        await snapshot.calls.ended()
        self._draining.discard(snapshot)
        await snapshot.aclose()
        self._closed()
