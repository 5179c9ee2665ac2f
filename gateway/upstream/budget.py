"""How many calls may be sent again: a share of those that are made, so that repeats never add up to a storm."""

from collections import deque

_WINDOW = 10.0
_FLOOR = 20
"""Repeats in any ten seconds, however few calls there are: whoever has lost a replica has that many on their way."""


class Budget:
    """The repeats of one backend.

    Args:
        share: Repeats for each call of the last ten seconds.

    Attributes:
        calls: All that were made; whoever makes one adds it.
    """

    __slots__ = ("_marks", "_share", "_taken", "calls")

    def __init__(self, share: float) -> None:
        self.calls = 0
        self._share = share
        self._taken: deque[float] = deque()
        # When repeats were asked for, and how many calls there had been: calls themselves cost one addition.
        self._marks: deque[tuple[float, int]] = deque([(0.0, 0)])

    def take(self, now: float) -> bool:
        """Take one repeat; whether there was one.

        Args:
            now: Monotonic seconds.
        """
        taken, begin = self._taken, now - _WINDOW
        while taken and taken[0] <= begin:
            taken.popleft()
        if len(taken) >= _FLOOR + self._share * self._recent(now):
            return False
        taken.append(now)
        return True

    def _recent(self, now: float) -> float:
        """About how many calls there were in the window."""
        marks, begin = self._marks, now - _WINDOW
        while len(marks) > 1 and marks[1][0] <= begin:
            marks.popleft()
        when, calls = marks[0]
        if now - marks[-1][0] >= 1.0:
            marks.append((now, self.calls))
        passed = now - when
        return (self.calls - calls) * min(1.0, _WINDOW / passed) if passed > 0 else 0.0
