"""What may be had per time: a token bucket that keeps one figure, what was spent and has not been made good.

    spent   falls by `rate` a second, never below 0
    take    is granted while `spent` and one more fit into `burst`, and spends one
    charge  spends whatever it was, also beyond `burst`: then the bucket is in debt, and time pays it

From this follows, for any instants whatever: no more is taken within t seconds than burst + rate x t. A clock that
stands still or goes back gives nothing.

New figures apply from the moment they are set, and what was spent before stays spent: a greater burst gives the
difference at once, a smaller one leaves nothing to have but makes nobody wait longer than for the next one. So whoever
sets one burst after another gives what all the raises between them come to, and no more.
"""

import math

_TOLERANCE = 1e-6
"""Of one token: sums of fractions are not exact, and whoever comes at the very moment it was told must not be early.

The error of a sum is some 1e-16 of the burst for each request, whatever the clock shows; the tolerance is not spent
again and again, as a request that used it has spent all of itself.
"""


class Bucket:
    """A bucket that is full at first.

    Args:
        rate: How many a second, above 0.
        burst: How many at once; for `take`, at least 1.
    """

    __slots__ = ("_seen", "_spent", "burst", "rate")

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._spent = 0.0
        self._seen = -math.inf

    def take(self, now: float) -> float:
        """Take one; gives 0, or the seconds until there will be one: then nothing was taken.

        Args:
            now: Monotonic seconds, as everywhere here.
        """
        # As `_settle`, in line: a call would cost as much as all the rest.
        spent = self._spent
        if now > self._seen:
            spent -= (now - self._seen) * self.rate
            if spent < 0.0:  # noqa: PLR1730 - a call of max() would double what it costs
                spent = 0.0
            self._seen = now
        if spent + 1.0 > self.burst + _TOLERANCE:
            self._spent = spent
            return (spent + 1.0 - self.burst) / self.rate
        self._spent = spent + 1.0
        return 0.0

    def delay(self, now: float) -> float:
        """Seconds until one can be taken; 0 for now."""
        missing = self._settle(now) + 1.0 - self.burst
        return missing / self.rate if missing > _TOLERANCE else 0.0

    def charge(self, size: float, now: float) -> None:
        """Spend so many, whether they are there or not."""
        self._spent = self._settle(now) + size

    def debt(self, now: float) -> float:
        """Seconds until what was charged beyond the burst has been made good; 0 where nothing is owed."""
        owed = self._settle(now) - self.burst
        return owed / self.rate if owed > 0.0 else 0.0

    def mirror(self, now: float) -> None:
        """Spend one that was had elsewhere; whatever is left, where that is less."""
        spent = self._settle(now)
        self._spent = max(spent, min(spent + 1.0, self.burst))

    @property
    def left(self) -> float:
        """How many could have been taken when it was last asked; a fraction is one that is still coming."""
        return max(0.0, self.burst - self._spent)

    def change(self, rate: float, burst: float, now: float) -> None:
        """Go on with other figures; debt stays debt."""
        debt = max(0.0, self._settle(now) - self.burst)
        self._spent = min(self._spent, burst + debt)
        self.rate, self.burst = rate, burst

    def _settle(self, now: float) -> float:
        """What is spent at `now`."""
        if now > self._seen:
            self._spent = max(0.0, self._spent - (now - self._seen) * self.rate)
            self._seen = now
        return self._spent
