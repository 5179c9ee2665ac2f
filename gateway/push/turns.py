"""Notifications that were taken up and wait to be sent: whose turn it is, and which of its own.

Tenants have turns, and none has more than half of the deliveries that are made at a time. Of those, what was tried
before has no more than half: webhooks that never answer keep the others of their tenant waiting with their first
attempts only, and not for as long as they are tried.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

import msgspec

from gateway.push.slip import Slip

MOST_HELD: Final = 512
"""Notifications of one tenant, new ones or others, that wait here; the rest wait in the store."""
_MOST_IN_ALL: Final = 8192
# With so many here, each tenant has its turn all the same.
_ALWAYS_HELD: Final = 8


class Held(msgspec.Struct, eq=False):
    """A slip that was taken up.

    Attributes:
        until: When its lease is over, in Unix seconds.
        settled: Whether it is decided what becomes of it.
    """

    key: str
    slip: Slip
    until: float
    settled: bool = False


class _Lanes:
    """What waits of one tenant: what is new, and what was tried before. They take turns, too."""

    def __init__(self) -> None:
        self.fresh: deque[Held] = deque()
        self.again: deque[Held] = deque()
        self._next_again = False

    def __bool__(self) -> bool:
        return bool(self.fresh or self.again)

    def of(self, slip: Slip) -> deque[Held]:
        return self.again if slip.tried else self.fresh

    def take(self, *, again: bool) -> Held | None:
        """The next one; `again`: whether it may be one that was tried before."""
        lanes = (self.again, self.fresh) if self._next_again else (self.fresh, self.again)
        for lane in lanes:
            if lane and (again or lane is self.fresh):
                self._next_again = lane is self.fresh
                return lane.popleft()
        return None


class Turns:
    """What was taken up, sent ones included."""

    def __init__(self) -> None:
        # By tenant, in the order of their turns.
        self._waiting: dict[str, _Lanes] = {}
        self._held: dict[str, Held] = {}
        self._sending: Counter[str] = Counter()
        self._sending_again: Counter[str] = Counter()

    @property
    def sending(self) -> int:
        """Deliveries that are being made."""
        return self._sending.total()

    def hold(self, held: Held) -> bool:
        """Let one wait for its turn; False where its tenant has so many here that it has to wait in the store."""
        known = self._held.get(held.key)
        if known is not None:
            # The store has given it out once more, and it is here still.
            known.until = held.until
            return True
        lanes = self._waiting.get(held.slip.tenant) or _Lanes()
        lane = lanes.of(held.slip)
        if len(lane) >= (MOST_HELD if len(self._held) < _MOST_IN_ALL else _ALWAYS_HELD):
            return False
        self._waiting.setdefault(held.slip.tenant, lanes)
        self._held[held.key] = held
        lane.append(held)
        return True

    def next(self, concurrency: int) -> Held | None:
        """The one whose turn it is, being sent from now on until it is `done`; None where nobody has a turn."""
        if self.sending >= concurrency:
            return None
        share = (concurrency + 1) // 2
        most_again = max(share // 2, 1)
        for tenant, lanes in self._waiting.items():
            if self._sending[tenant] >= share:
                continue
            held = lanes.take(again=self._sending_again[tenant] < most_again)
            if held is None:
                continue
            # Whoever had a turn is the last one to have the next.
            del self._waiting[tenant]
            if lanes:
                self._waiting[tenant] = lanes
            self._sending[tenant] += 1
            if held.slip.tried:
                self._sending_again[tenant] += 1
            return held
        return None

    def done(self, held: Held) -> None:
        """One that had its turn is sent, or was let go."""
        del self._held[held.key]
        tenant = held.slip.tenant
        for counts in (self._sending, self._sending_again) if held.slip.tried else (self._sending,):
            counts[tenant] -= 1
            if counts[tenant] <= 0:
                del counts[tenant]

    def __iter__(self) -> Iterator[Held]:
        """All that are here, sent ones included."""
        return iter(tuple(self._held.values()))
