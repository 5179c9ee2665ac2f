"""Until when a connection waits for its client: one timer, seldom set."""

import asyncio
import math
from collections.abc import Callable

_EARLY = 0.001
"""Seconds by which timers of uvloop ring too early."""


class Deadline:
    """When the client is late with what it owes now.

    It moves with every request and is nearly never reached. So the timer is set anew only where it would ring too late,
    and when it rings it looks whether the deadline has moved on.

    Args:
        late: Called when the deadline has passed; there is none any more then.
    """

    __slots__ = ("_alarm", "_alarm_at", "_due", "_late", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, late: Callable[[], None]) -> None:
        self._loop = loop
        self._late = late
        self._due = math.inf
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

    def within(self, seconds: float) -> None:
        """Have `late` called unless the deadline is moved or lifted before that."""
        due = self._due = self._loop.time() + seconds
        if due < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = due
            self._alarm = self._loop.call_at(due, self._ring)

    def lift(self) -> None:
        """Expect nothing."""
        self._due = math.inf

    def rest(self) -> None:
        """Let go of the timer where nothing is expected: for what may last."""
        if self._alarm is not None and self._due is math.inf:
            self._alarm.cancel()
            self._alarm = None
            self._alarm_at = math.inf

    def close(self) -> None:
        """Expect nothing any more, and let go of whoever would be told."""
        self.lift()
        self.rest()
        self._late = _nobody

    def _ring(self) -> None:
        self._alarm = None
        self._alarm_at = math.inf
        due = self._due
        if due is math.inf:
            return
        if self._loop.time() + _EARLY < due:
            self._alarm_at = due
            self._alarm = self._loop.call_at(due, self._ring)
            return
        self._due = math.inf
        self._late()


def _nobody() -> None:
    """Whom a deadline tells that is closed."""
