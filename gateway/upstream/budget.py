"""How many calls may be sent again: a share of those that are made, so that repeats never add up to a storm."""

from collections import deque

_WINDOW = 10.0
_PART = 1.0
_FLOOR = 20
"""Repeats in any ten seconds, however few calls there are: whoever has lost a replica has that many on their way."""


class Budget:
    """The repeats of one backend.

    Args:
        share: Repeats for each call of the last ten seconds.
    """

    __slots__ = ("_calls", "_next", "_parts", "_share", "_taken")

    def __init__(self, share: float) -> None:
        self._share = share
        self._taken: deque[float] = deque()
        # When each of the parts of the window ended, and how many calls there were in it; and the one that goes on.
        self._parts: deque[tuple[float, int]] = deque()
        self._next = 0.0
        self._calls = 0

    def call(self, now: float) -> None:
        """A call is made.

        Args:
            now: Monotonic seconds.
        """
        if now >= self._next:
            self._parts.append((now, self._calls))
            self._calls = 0
            self._next = now + _PART
            self._forget(now)
        self._calls += 1

    def take(self, now: float) -> bool:
        """Take one repeat; whether there was one."""
        self._forget(now)
        taken = self._taken
        while taken and taken[0] <= now - _WINDOW:
            taken.popleft()
        recent = sum(calls for _, calls in self._parts) + self._calls
        if len(taken) >= _FLOOR + self._share * recent:
            return False
        taken.append(now)
        return True

    def _forget(self, now: float) -> None:
        parts, begin = self._parts, now - _WINDOW
        while parts and parts[0][0] <= begin:
            parts.popleft()
        if self._next + _WINDOW <= now:
            self._calls = 0
