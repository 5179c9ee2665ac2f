"""A deadline that moves with nearly every byte of a connection, and is rarely reached.

A new timer for each move would be expensive. So the timer stays while the deadline moves; a timer that fires too early
is set again.
"""

import asyncio
import math
from collections.abc import Callable

_EARLY = 0.001
"""Seconds by which timers of uvloop may fire early."""


class Deadline:
    """Calls `expired` once when the deadline has passed, and removes it.

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
        """Remove the deadline. The timer stays, for the next one."""
        self.at = math.inf

    def stop(self) -> None:
        """Remove the deadline and cancel the timer, for a long wait."""
        self.at = self._timer_at = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Stop permanently, and release the callback."""
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
