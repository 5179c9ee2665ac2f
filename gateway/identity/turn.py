"""Spreads verifications over the turns of the event loop, so that a burst of new tokens delays nothing else.

A signature takes 20 to 500 us, reading the token before it 60 us more. A thousand tokens that nobody has seen before
(after a start, after new keys) may arrive in one turn of the loop; judged there and then they would stop every stream
for 80 to 500 ms. So a turn judges a few and the rest stands in line, first come, first served: each turn in between
sees to everything else. Whoever is remembered never stands in line.

Decision (2026-11-20): turns, not a thread. OpenSSL lets go of the GIL, but handing one token over and back costs 75 to
120 us of CPU, as much as four RS256 signatures; under load there is no idle core to gain, and a pool of threads is a
second queue in front of the same work. What a thread would give, a loop that goes on meanwhile, turns give for nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from gateway.identity.pending import Pending

AT_A_TURN: Final = 16
"""Judgements in one turn of the loop: 1.5 ms of RS256, 9 ms of ES384."""


def soon(callback: Callable[[], None]) -> object:
    """Have the running loop call back in its next turn."""
    return asyncio.get_running_loop().call_soon(callback)


class Turns:
    """Who may verify now, and who has to wait; the line is as long as there are requests being served at most.

    Args:
        at_a_turn: Judgements in one turn of the loop.
        call_soon: Calls back in the next turn of the loop.
    """

    def __init__(self, at_a_turn: int = AT_A_TURN, call_soon: Callable[[Callable[[], None]], object] = soon) -> None:
        self._at_a_turn = at_a_turn
        self._call_soon = call_soon
        self._left = at_a_turn
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._renewing = False

    def take(self) -> None:
        """Judge now.

        Raises:
            Pending: others come first; once it is settled it is this one's turn, and nothing more is to be taken.
        """
        if self._left == 0 or self._waiting:
            raise Pending("its turn has not come", self._wait)
        self._left -= 1
        self._renew_soon()

    async def _wait(self) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._renew_soon()
        # Whoever is cancelled in line is passed over; whoever is cancelled after its turn came lets it lapse.
        await mine

    def _renew_soon(self) -> None:
        if not self._renewing:
            self._renewing = True
            self._call_soon(self._renew)

    def _renew(self) -> None:
        self._renewing = False
        self._left = self._at_a_turn
        while self._waiting and self._left > 0:
            next_one = self._waiting.popleft()
            if not next_one.done():
                next_one.set_result(None)
                self._left -= 1
        if self._left < self._at_a_turn:
            self._renew_soon()
