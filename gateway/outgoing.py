"""Configurations that another one has taken the place of, for as long as calls that began with them last."""

import asyncio
from collections.abc import Callable
from functools import partial

from gateway.background import Background
from gateway.holdings import Holdings

LINGER = 10.0
"""Seconds for which what a configuration ran beside calls goes on: some may be waiting for a card or a key."""
_ASK_AGAIN = 1.0


class Outgoing:
    """Closes what they had open, when nobody uses it any more."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._holdings: set[Holdings] = set()

    def __len__(self) -> int:
        return len(self._holdings)

    def see_out(self, holdings: Holdings, is_used: Callable[[], bool]) -> None:
        """Close what one had open once the last call that began with it is over.

        Args:
            is_used: Whether one of these lasts still; asked now and then.
        """
        self._holdings.add(holdings)
        self._background.start("the configuration before", partial(self._see_out, holdings, is_used))

    async def aclose(self) -> None:
        """Close what all of them have open, now."""
        await asyncio.gather(*(holdings.aclose() for holdings in tuple(self._holdings)))

    async def _see_out(self, holdings: Holdings, is_used: Callable[[], bool]) -> None:
        await asyncio.sleep(LINGER)
        holdings.rest()
        pause = _ASK_AGAIN
        while is_used():
            await asyncio.sleep(pause)
            pause = min(pause * 2, LINGER)
        self._holdings.discard(holdings)
        await holdings.aclose()
