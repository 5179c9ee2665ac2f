"""Spreads the requests that come at once over the turns of the event loop, so that they delay nothing else.

The loop calls for every connection that has something to read before it looks at anything else, and then runs whatever
that has begun: a thousand requests that come together would be read, checked, decoded and sent on in one go, and every
stream would stand still for a quarter of a second. So a turn begins some of them, and the others wait in line, first
come, first served; what is under way goes on in between.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

AT_A_TURN: Final = 16
"""Requests that one turn begins: 3 ms, or twice that where each needs a new connection to its agent."""


class Turns:
    """Whose head is read now, and whose in a later turn; the line is as long as there are connections at most.

    Args:
        at_a_turn: How many at most; half as many at least.
    """

    def __init__(self, at_a_turn: int = AT_A_TURN) -> None:
        self._at_a_turn = self._left = at_a_turn
        self._low = at_a_turn // 2
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it may be now; else `wait`."""
        if not self._left or self._waiting:
            return False
        self._left -= 1
        # Not for each of them, which would be a callback for every request where few come.
        if self._left == self._low:
            loop.call_soon(self._renew, loop)
        return True

    def wait(self, callback: Callable[[], None]) -> None:
        """Have `callback` called in its turn, also where nobody has any use for it by then."""
        self._waiting.append(callback)

    def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = self._at_a_turn
        try:
            while self._waiting and self._left:
                self._left -= 1
                self._waiting.popleft()()
        finally:
            if self._waiting or self._left <= self._low:
                loop.call_soon(self._renew, loop)
