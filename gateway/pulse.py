"""Signs of life of workers, in memory that they share with their parent: who gives none is stopped, or stuck.

The parent counts its own looks, not the time: where all of them stood still together, as in a container that was
paused, the parent stood still as well and has looked at nobody meanwhile.
"""

import mmap
from collections.abc import Callable, Iterable

EVERY = 1.0
"""Seconds between two signs."""
LOOK = 5.0
"""Seconds between two looks."""
LOOKS = 6
"""Looks at a worker that finds the same sign, after which it stands still."""

_LAST = 255


class Pulses:
    """The signs of so many workers; made before they are forked.

    Args:
        count: Most that are alive at a time.
    """

    def __init__(self, count: int) -> None:
        self._signs = mmap.mmap(-1, count)
        self._free = list(range(count))
        # By the process: its place, the sign that was there at the last look, and how many looks found that.
        self._known: dict[int, tuple[int, int, int]] = {}

    def place(self) -> int:
        """Where the next one that is forked gives its signs."""
        return self._free[0]

    def begin(self, pid: int) -> None:
        """It was forked, and may have given a sign by now; how long it takes to give the first is not looked at."""
        self._known[pid] = self._free.pop(0), 0, 0

    def forget(self, pid: int) -> None:
        """It is gone."""
        if (known := self._known.pop(pid, None)) is not None:
            # Whoever has the place next has given none.
            self._signs[known[0]] = 0
            self._free.append(known[0])

    def beat(self, place: int) -> Callable[[], None]:
        """What gives a sign; for the worker itself."""
        signs = self._signs

        def give() -> None:
            signs[place] = signs[place] % _LAST + 1

        return give

    def still(self) -> Iterable[int]:
        """Look at all of them; those that stand still."""
        for pid, (place, before, found) in list(self._known.items()):
            sign = self._signs[place]
            looks = found + 1 if sign and sign == before else 0
            self._known[pid] = place, sign, looks
            if looks >= LOOKS:
                yield pid
