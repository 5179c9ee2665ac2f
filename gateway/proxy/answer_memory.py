"""Memory of long answers and events: how many bytes the process holds, and the threads that work on them."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from gateway.a2a.fault import Overloaded

FREE = 256 * 1024
"""Bytes of one request that are not counted: safety R20 allows each stream as many."""
ASIDE = 128 * 1024
"""Bytes of a frame from which on it is processed in a thread (safety R26)."""
MOST = 512 * 1024 * 1024
"""Bytes that one process holds, by default."""
_LONG = 4 * 1024 * 1024
"""Bytes of a frame from which on only one is processed at a time: decoded, it may take twenty times its length."""

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class AnswerMemory:
    """The bytes of long answers and events that the process holds.

    Args:
        most: Returns how many it may hold.
    """

    def __init__(self, most: Callable[[], float] = lambda: MOST) -> None:
        self.size = 0
        self._most = most
        self._turn = asyncio.Lock()

    def change(self, before: int, after: int) -> None:
        """Count the bytes that one request holds now, in place of those that it held before.

        Raises:
            Overloaded: it would be more than the process may hold; nothing has changed.
        """
        size = self.size + after - before
        if after > before and size > self._most():
            raise Overloaded(
                "the gateway holds too many long answers", retry_after=1.0, detail=f"{self.size} bytes are held"
            )
        self.size = size

    async def work(self, work: Callable[[_Given], _Made], given: _Given, size: int) -> _Made:
        """Return the result of `work` for a frame, in a thread if the frame is long.

        Args:
            size: Bytes of the frame.
        """
        if size < ASIDE:
            return work(given)
        if size < _LONG:
            return await asyncio.to_thread(work, given)
        async with self._turn:
            return await asyncio.to_thread(work, given)
