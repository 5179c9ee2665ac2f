"""When something that fails is left alone, and when it is tried again: for one replica, and for a backend as a whole.

States, told by what it holds:

    CLOSED     everything may go. So many failures in a row, and it opens.
    OPEN       nothing may go until a time. It lasts twice as long each time that the trial fails.
    HALF OPEN  that time is over: one call may go, the *trial*. If it is good the fuse closes, if not it opens again,
               and if nobody knows in as much time as it was open at first, the next call is the trial: sends may take
               minutes.

Failures of other calls change nothing once it is open: those were begun before.
"""

import math


class Fuse:
    """Opens after so many failures in a row.

    Args:
        after: How many; 0 for never.
        time: Seconds that it is open for the first time.
        longest: Seconds that it is open at most.

    Attributes:
        failures: In a row, up to now.
        why: What the last one was, in words; empty while there is none.
    """

    __slots__ = ("_after", "_longest", "_opened", "_time", "_times", "_trial", "_tried", "_until", "failures", "why")

    def __init__(self, after: int, time: float, longest: float = math.inf) -> None:
        self._after = after
        self._time = time
        self._longest = longest
        self._until = 0.0
        self._opened = False
        self._times = 0
        self._trial = False
        self._tried = 0.0
        self.failures = 0
        self.why = ""

    @property
    def opened(self) -> bool:
        """Whether it is open or half open."""
        return self._opened

    def left(self, now: float) -> float:
        """Seconds for which nothing may go; 0 where something may."""
        return max(self._until - now, 0.0) if self._opened else 0.0

    def admits(self, now: float) -> bool:
        """Whether a call may go."""
        if not self._opened:
            return True
        return now >= self._until and (not self._trial or now >= self._tried + self._time)

    def begin(self, now: float) -> bool:
        """A call goes; whether it is the trial, of which somebody has to say how it ended."""
        if not self._opened or (self._trial and now < self._tried + self._time):
            return False
        self._trial = True
        self._tried = now
        return True

    def succeeded(self) -> bool:
        """A call went well; whether that closed the fuse."""
        closed = self._opened
        self._opened = self._trial = False
        self.failures = self._times = 0
        self.why = ""
        return closed

    def failed(self, now: float, why: str, *, may_open: bool = True, trial: bool = True) -> bool:
        """A call failed; whether that opened the fuse.

        Args:
            may_open: Whether it may open for the first time now.
            trial: Whether it was one; a call from before may fail late, and tells nothing of now.
        """
        self.failures += 1
        self.why = why
        if self._opened:
            if not trial or not self._trial or now < self._until:
                return False
        elif not self._after or self.failures < self._after or not may_open:
            return False
        self._trial = False
        self._opened = True
        self._until = now + min(self._time * 2**self._times, self._longest)
        # Where it is doubled without end a float has one.
        self._times = min(self._times + 1, 60)
        return True

    def abandoned(self) -> None:
        """The trial ended, and nobody knows how it would have gone."""
        self._trial = False
