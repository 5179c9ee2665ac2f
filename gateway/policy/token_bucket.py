"""Token buckets of this process.

A bucket stores one figure: the spent tokens that are not refilled yet.

    spent   falls by `rate` a second, never below 0
    take    is granted while `spent` plus one fits into `burst`, and spends one
    charge  spends any number, also beyond `burst`; the bucket is then in debt until it is refilled

At most burst + rate x t tokens are granted within t seconds. A clock that stands still or goes back grants none. A
larger burst grants the difference at once, a smaller one delays the next token by one refill at most.
"""

import math

_TOLERANCE = 1e-6
"""Tolerance in tokens: float sums are inexact, and a retry exactly after `Retry-After` must succeed."""


class Bucket:
    """A token bucket, full at first.

    Args:
        rate: Tokens per second, above 0.
        burst: Capacity; for `take`, at least 1.
    """

    __slots__ = ("_seen", "_spent", "burst", "rate")

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._spent = 0.0
        self._seen = -math.inf

    def take(self, now: float) -> float:
        """Take one token; return 0, or the seconds until there is one if none was taken.

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
        """Return the seconds until a token is available; 0 if there is one."""
        missing = self._settle(now) + 1.0 - self.burst
        return missing / self.rate if missing > _TOLERANCE else 0.0

    def charge(self, size: float, now: float) -> None:
        """Spend a number of tokens, available or not."""
        self._spent = self._settle(now) + size

    def debt(self, now: float) -> float:
        """Return the seconds until the debt is refilled; 0 without debt."""
        owed = self._settle(now) - self.burst
        return owed / self.rate if owed > 0.0 else 0.0

    def used(self, now: float) -> float:
        """Return the spent tokens; unlike the other methods it changes nothing, so any thread may ask."""
        return max(0.0, self._spent - max(0.0, now - self._seen) * self.rate)

    def mirror(self, now: float) -> None:
        """Spend one token that another bucket granted, or the rest if that is less."""
        spent = self._settle(now)
        self._spent = max(spent, min(spent + 1.0, self.burst))

    @property
    def left(self) -> float:
        """Return the tokens that were available at the last call; a fraction is a token that is being refilled."""
        return max(0.0, self.burst - self._spent)

    def change(self, rate: float, burst: float, now: float) -> None:
        """Change rate and burst; debt stays."""
        debt = max(0.0, self._settle(now) - self.burst)
        self._spent = min(self._spent, burst + debt)
        self.rate, self.burst = rate, burst

    def _settle(self, now: float) -> float:
        """Return the spent tokens at `now`."""
        if now > self._seen:
            self._spent = max(0.0, self._spent - (now - self._seen) * self.rate)
            self._seen = now
        return self._spent
