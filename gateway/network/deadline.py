"""A deadline that moves with nearly every byte of a connection, and is nearly never reached.

A new timer for each move would cost more than the wait. So the timer stays where it is while the deadline moves on; a
timer that fires too early is set again.
"""

import asyncio
import math
from collections.abc import Callable

_EARLY = 0.001
"""Seconds by which timers of uvloop may fire early."""


class Deadline:
    """Call `expired` once the deadline has passed; there is none any more then.

    Attributes:
        at: In seconds of the loop, `math.inf` for never. It may be made later directly, and earlier by `set`.
    """

    __slots__ = ("_expired", "_loop", "_timer", "_timer_at", "at")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self.at = math.inf
        self._loop = loop
        self._expired = expired
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def set(self, at: float) -> None:
        """Set the deadline to any time."""
        self.at = at
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._start_timer(at)

    def within(self, seconds: float) -> None:
        """Set the deadline to so many seconds from now."""
        self.set(self._loop.time() + seconds)

    def lift(self) -> None:
        """Have no deadline. The timer stays, for the next one."""
        self.at = math.inf

    def stop(self) -> None:
        """Have no deadline, and cancel the timer: for what may last."""
        self.at = self._timer_at = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Stop for good, and release the callback."""
        self.stop()
        self._expired = _nobody

    def _start_timer(self, at: float) -> None:
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = math.inf
        at = self.at
        if at == math.inf:
            return
        if self._loop.time() + _EARLY < at:
            self._start_timer(at)
            return
        self.at = math.inf
        self._expired()


def _nobody() -> None:
    """Do nothing: the callback of a closed deadline."""
