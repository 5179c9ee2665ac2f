"""A timer for a deadline that moves often, mostly to a later time.

A new timer for each move would cost more than the wait. So the timer stays where it is while the deadline moves on;
a timer that rings too early is set again.
"""

import asyncio
import math
from collections.abc import Callable


class Alarm:
    """Call `ring` once, after a deadline.

    Attributes:
        deadline: In seconds of the loop, `math.inf` for never. It may be made later directly, and earlier by `set`.
    """

    __slots__ = ("_at", "_loop", "_ring", "_timer", "deadline")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self.deadline = math.inf
        self._loop = loop
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at = math.inf

    def set(self, deadline: float) -> None:
        """Set the deadline to any time."""
        self.deadline = deadline
        if deadline < self._at:
            self._watch(deadline)

    def stop(self) -> None:
        """Cancel the timer; `set` may start it again."""
        self.deadline = self._at = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = deadline
        self._timer = self._loop.call_at(deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        self._at = math.inf
        deadline = self.deadline
        if self._loop.time() >= deadline:
            self.deadline = math.inf
            self._ring()
        elif deadline < math.inf:
            self._watch(deadline)
