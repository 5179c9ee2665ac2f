"""Processes that take the place of others, which were run as the configuration before said.

    BESIDE      the new ones are being started, and calls go to the old ones
    EXCHANGE    the new ones failed beside the old ones: perhaps there can only be one, so the old ones are ended, and
                the new ones started alone. This is tried once
    BACK        that failed, too: the old ones are started again, and have the calls until the new ones are ready
    OVER        the new ones are ready and have the calls; the old ones end once their own are over

A program that cannot even be run, and one that is never started again, is not given the place of one that serves.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from gateway.upstream.stdio_link import Link

TRIES = 2
"""Starts in a row that fail before it is tried without the other processes."""
PATIENCE = 10.0
"""Seconds for which calls of processes that make room for others go on."""
_LOOK_AGAIN = 0.05
_LONGEST_LOOK = 1.0

logger = logging.getLogger("gateway.upstream.stdio")


class Stage(StrEnum):
    """How far it has come."""

    BESIDE = "beside"
    EXCHANGE = "exchange"
    BACK = "back"
    OVER = "over"


class Pool(Protocol):
    """What is asked of the processes on either side."""

    name: str

    @property
    def is_ready(self) -> bool:
        """Whether calls can go to one of its own."""

    @property
    def is_hopeless(self) -> bool:
        """Whether none of its own will be started again, or none ever ran."""

    @property
    def failures(self) -> int:
        """How many starts in a row have failed, of the one that failed least."""

    @property
    def is_busy(self) -> bool:
        """Whether calls are open, or wait."""

    def start(self) -> None:
        """Start the processes."""

    def hurry(self) -> None:
        """Start those that wait after a failure."""

    def link_nowait(self, task: str | None = None, context: str | None = None) -> Link | None:
        """The pipe for a call, or None."""

    async def change(self) -> None:
        """Wait until something is another than it was."""

    async def aclose(self) -> None:
        """End every process."""


class Succession:
    """One pool in the place of another.

    Args:
        again: Makes the old pool once more.
        changed: Called whenever `stage` has changed.
    """

    def __init__(self, new: Pool, old: Pool, again: Callable[[], Pool], changed: Callable[[], None]) -> None:
        self.stage = Stage.BESIDE
        self._new = new
        self._old: Pool | None = old
        self._again = again
        self._changed = changed

    @property
    def old(self) -> Pool | None:
        """Those before, while there are any."""
        return self._old

    def link_nowait(self, task: str | None, context: str | None) -> Link | None:
        """A pipe of the old processes, where calls still go there."""
        if self._old is None or self.stage in (Stage.EXCHANGE, Stage.OVER):
            return None
        return self._old.link_nowait(task, context)

    async def run(self) -> None:
        """See it through."""
        new = self._new
        new.start()
        while not new.is_ready and not self._fails_beside(TRIES):
            await new.change()
        if not new.is_ready:
            await self._exchange()
            while not new.is_ready:
                await new.change()
        self._become(Stage.OVER)
        logger.info("%s runs as the configuration says now", new.name)
        if self._old is not None:
            await settled(self._old, math.inf)
            await self._old.aclose()
            self._old = None

    async def aclose(self) -> None:
        """End the old processes."""
        if self._old is not None:
            await self._old.aclose()
            self._old = None

    def release(self) -> None:
        """Let go of the old processes: they are another's."""
        self._old = None

    def _become(self, stage: Stage) -> None:
        self.stage = stage
        self._changed()

    def _fails_beside(self, times: int) -> bool:
        return self._new.failures >= times and not self._new.is_hopeless

    async def _exchange(self) -> None:
        new, old = self._new, self._old
        assert old is not None
        logger.warning("%s cannot be started beside the processes it is to replace: they are ended first", new.name)
        await settled(old, PATIENCE)
        self._become(Stage.EXCHANGE)
        await old.aclose()
        most = new.failures + TRIES
        while not new.is_ready and new.failures < most and not new.is_hopeless:
            new.hurry()
            await new.change()
        if not new.is_ready:
            logger.error("%s does not start as the configuration says: it runs as it did before", new.name)
            self._old = self._again()
            self._old.start()
            self._become(Stage.BACK)


async def settled(pool: Pool, seconds: float) -> None:
    """Wait until no call is open at a pool, so long at most."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    pause = _LOOK_AGAIN
    while pool.is_busy and loop.time() < until:
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_LOOK)
