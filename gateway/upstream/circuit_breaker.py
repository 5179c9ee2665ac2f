"""A circuit breaker: one for each replica (outlier detection) and one for each backend as a whole.

    CLOSED     every call passes; `after` failures in a row open it
    OPEN       no call passes for a while; each failure while half open doubles that time
    HALF OPEN  the time is over: one call passes, the *half-open call*. If it succeeds the breaker closes, if it
               fails the breaker opens again. After the first opening time another call is the half-open one: a send
               may take minutes.

While it is open, results of calls other than the half-open one are ignored: those calls began earlier.
"""

import math


class CircuitBreaker:
    """Open after so many failures in a row.

    Args:
        after: Failures in a row; 0 for never.
        time: Seconds of the first opening.
        longest: Seconds of the longest opening.

    Attributes:
        is_open: Whether it is open or half open.
        failures: Failures in a row until now.
        why: The reason of the last failure; empty if there is none.
    """

    __slots__ = ("_after", "_half_open_until", "_longest", "_openings", "_until", "failures", "is_open", "time", "why")

    def __init__(self, after: int, time: float, longest: float = math.inf) -> None:
        self._after = after
        self.time = time
        self._longest = longest
        self._until = 0.0
        self._openings = 0
        # A half-open call that began is waited for until then; -inf without one.
        self._half_open_until = -math.inf
        self.is_open = False
        self.failures = 0
        self.why = ""

    @property
    def can_open(self) -> bool:
        """Return whether it opens at all."""
        return self._after > 0

    def left(self, now: float) -> float:
        """Return the seconds for which no call passes."""
        return max(self._until - now, 0.0) if self.is_open else 0.0

    def admits(self, now: float) -> bool:
        """Return whether a call may pass."""
        return not self.is_open or (now >= self._until and now >= self._half_open_until)

    def begin(self, now: float) -> bool:
        """Count a call that passes; return whether it is the half-open one, whose end must be reported."""
        if not self.is_open or now < self._half_open_until:
            return False
        self._half_open_until = now + self.time
        return True

    def succeeded(self) -> bool:
        """Count a success; return whether that closed the breaker."""
        closed = self.is_open
        self.is_open = False
        self._half_open_until = -math.inf
        self.failures = self._openings = 0
        self.why = ""
        return closed

    def failed(self, now: float, why: str, *, may_open: bool = True, half_open: bool = True) -> bool:
        """Count a failure; return whether that opened the breaker.

        Args:
            may_open: Whether a closed breaker may open now.
            half_open: Whether the call was the half-open one.
        """
        self.failures += 1
        self.why = why
        if self.is_open:
            if not half_open or self._half_open_until == -math.inf or now < self._until:
                return False
        elif not self._after or self.failures < self._after or not may_open:
            return False
        self.is_open = True
        self._half_open_until = -math.inf
        self._until = now + min(self.time * 2.0**self._openings, self._longest)
        # 2**60 opening times are for ever, and a float overflows later.
        self._openings = min(self._openings + 1, 60)
        return True

    def abandoned(self) -> None:
        """End the half-open call without a result."""
        self._half_open_until = -math.inf
