"""Configurations that another one has taken the place of, for as long as calls that began with them last."""

import asyncio
import sys
from collections.abc import Callable, Iterable
from functools import partial

from gateway.aside import aside
from gateway.background import Background
from gateway.dismantling import dismantle
from gateway.holdings import Holdings
from gateway.snapshot import Snapshot

LINGER = 10.0
"""Seconds for which what a configuration ran beside calls goes on: some may be waiting for a card or a key."""
_ASK_SOON = 0.1
_ASK_AGAIN = 1.0
_OURS = 2
"""References of who asks how many there are: the list, and the question."""


class Outgoing:
    """Takes them apart and closes what they had open, when nobody uses it any more.

    Args:
        gone: Does what is to be done when there is nothing left of one, in steps between which the loop has its turn.
    """

    def __init__(self, background: Background, gone: Callable[[], Iterable[None]] = tuple) -> None:
        self._background = background
        self._gone = gone
        self._holdings: set[Holdings] = set()

    def __len__(self) -> int:
        return len(self._holdings)

    def see_out(self, snapshot: Snapshot, is_used: Callable[[], bool]) -> None:
        """Close what one had open once the last call that began with it is over.

        Until then it is held here: whoever ends that call is not to wait until all of it is gone.

        Args:
            is_used: Whether one of these lasts still; asked now and then.
        """
        self._holdings.add(snapshot.holdings)
        work = partial(self._see_out, snapshot.holdings, [snapshot], is_used)
        self._background.start("the configuration before", work)

    async def aclose(self) -> None:
        """Close what all of them have open, now."""
        await asyncio.gather(*(holdings.aclose() for holdings in tuple(self._holdings)))

    async def _see_out(self, holdings: Holdings, last: list[Snapshot], is_used: Callable[[], bool]) -> None:
        clock = asyncio.get_running_loop().time
        rests_at, pause = clock() + LINGER, _ASK_SOON
        rests = False
        while True:
            if last and not _is_held(last):
                await aside(dismantle, last)
            if not rests and clock() >= rests_at:
                rests, pause = True, _ASK_AGAIN
                holdings.rest()
            if rests and not is_used():
                break
            await asyncio.sleep(pause if rests else min(pause, rests_at - clock()))
            pause = min(pause * 2, LINGER if rests else _ASK_AGAIN)
        await aside(dismantle, last)
        self._holdings.discard(holdings)
        await holdings.aclose()
        for _ in self._gone():
            await asyncio.sleep(0)


def _is_held(last: list[Snapshot]) -> bool:
    """Whether anybody refers to it but this list, such as a call that began with it; those of others do not count."""
    return sys.getrefcount(last[0]) > _OURS
