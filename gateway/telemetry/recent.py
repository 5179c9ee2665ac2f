"""The last requests: lines of the access log that are kept in memory, for the page of the admin listener."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

CAPACITY = 200
"""Lines that are kept."""


class Recent(NamedTuple):
    """One line of the access log.

    Attributes:
        number: Its place in the order of all lines, from 1.
        time: Unix seconds at which it was written.
        fields: The fields of the access log, cut as there; no payload and no credential.
    """

    number: int
    time: float
    fields: Mapping[str, object]


class RecentRequests:
    """Keeps the last lines of the access log, and tells those who follow that there are new ones.

    A follower that reads slowly misses lines that were replaced; nothing is queued for it.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._lines: deque[tuple[float, Mapping[str, object]]] = deque(maxlen=capacity)
        self._count = 0
        self._followers: set[asyncio.Event] = set()
        self.closed = False

    @property
    def followers(self) -> int:
        """Return how many follow."""
        return len(self._followers)

    def add(self, time: float, fields: Mapping[str, object]) -> None:
        """Keep one line in place of the oldest; the fields must not change any more."""
        self._count += 1
        self._lines.append((time, fields))
        for follower in self._followers:
            follower.set()

    def since(self, number: int = 0) -> list[Recent]:
        """Return the kept lines behind a number, the oldest first."""
        lines = list(self._lines)
        first = self._count - len(lines) + 1
        found = [Recent(first + place, *line) for place, line in enumerate(lines)]
        return found[max(0, number + 1 - first) :]

    def follow(self) -> asyncio.Event:
        """Return an event that is set whenever there is a new line, until it is given to `leave`."""
        event = asyncio.Event()
        self._followers.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Set this event no more."""
        self._followers.discard(event)

    def close(self) -> None:
        """Wake all followers for the last time."""
        self.closed = True
        for follower in self._followers:
            follower.set()
