"""When a process that ended is started again: with growing pauses, and not for a while where it keeps failing."""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How failures are paced, in seconds.

    Attributes:
        first: Pause after the first failure; each next one is twice as long.
        longest: No pause is longer.
        healthy: Who ran for so long has not failed at starting.
        most: Failures within `window` after which nothing is started for `rest`.
    """

    first: float = 0.5
    longest: float = 30.0
    healthy: float = 60.0
    most: int = 5
    window: float = 60.0
    rest: float = 60.0


PACE = Pace()


class Pacing:
    """The failures of one place for a process. Time is monotonic seconds, and comes as an argument."""

    def __init__(self, pace: Pace = PACE) -> None:
        self._pace = pace
        self._row = 0
        self._failures: deque[float] = deque(maxlen=pace.most)

    def ended(self, now: float, ran: float, chance: float) -> tuple[float, bool]:
        """Seconds to wait before the next start, and whether that is a rest because it keeps failing.

        Args:
            ran: Seconds for which it was ready; 0 where it never was.
            chance: A number from 0 to 1; pauses are up to a quarter shorter by it, so that not all start together.
        """
        pace = self._pace
        self._row = 0 if ran >= pace.healthy else self._row + 1
        if ran < pace.healthy:
            self._failures.append(now)
            if len(self._failures) == pace.most and now - self._failures[0] <= pace.window:
                self._failures.clear()
                return pace.rest, True
        pause = min(pace.first * 2.0 ** min(max(self._row - 1, 0), 16), pace.longest)
        return pause * (1 - chance / 4), False
