"""Logs when the wall clock was set. Only tokens and API keys begin and end by it.

Every timer of the gateway runs on the monotonic clock. If the wall clock jumps, tokens end early or late by that time,
beyond their leeway, so the jump is logged (safety R21). A machine that slept looks the same.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

EVERY: Final = 10.0
"""Seconds between two comparisons."""
STEP: Final = 2.0
"""Seconds by which the clocks may differ between two comparisons; slewing stays far below."""

logger = logging.getLogger("gateway.identity.clock")


class ClockWatch:
    """Compares the wall clock with the monotonic one.

    Args:
        clock: Monotonic seconds.
        wall: Wall-clock seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - the clock that is watched
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._apart = wall() - clock()

    async def run(self) -> None:
        """Compare periodically, until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            self.look()

    def look(self) -> float:
        """Log a step since the last comparison, and return it in seconds; 0 if there was none."""
        apart = self._wall() - self._clock()
        step, self._apart = apart - self._apart, apart
        if abs(step) < STEP:
            return 0.0
        logger.warning("the wall clock was set by %+.0f s, which changes when tokens are valid", step)
        return step
