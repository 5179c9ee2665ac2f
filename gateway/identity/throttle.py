"""Bounds on the cost of unknown credentials: failures of each client network, verifications in each loop turn.

Each network has a token bucket of failures (safety H14). While it has one left, an unknown credential is checked;
afterwards it is refused unseen until time has refilled the bucket. A bad credential that is repeated costs nothing: the
refusal is cached.

A signature takes 20 to 500 µs and reading the token 100 µs more. A thousand new tokens, after a start or a key
rotation, can arrive in one turn of the event loop. The queue verifies a few of them per turn, so that open streams go
on.

Decision (2026-11-20): turns, not a thread. OpenSSL releases the GIL, but handing one token over and back costs 75 to
120 µs of CPU, as much as four RS256 signatures; under load no core is idle.
"""

import asyncio
import socket
from collections import OrderedDict, deque
from typing import Final

from gateway.policy.token_bucket import Bucket

PER_TURN: Final = 16
"""Verifications in one turn of the loop: 2.5 ms of RS256, 10 ms of ES384."""

_MAPPED = bytes(10) + b"\xff\xff"
_NETWORK_BYTES = 8


class FailureLimit:
    """Token buckets of failed credentials, one for each client network.

    Args:
        rate: A number per seconds; also the burst.
        most: Networks that are remembered; the one that was quiet longest is evicted first.
    """

    def __init__(self, rate: tuple[float, float], most: int) -> None:
        self._burst, period = rate
        self._rate = self._burst / period
        self._most = most
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def delay(self, address: str, now: float) -> float:
        """Return the seconds until one more unknown credential of this address is checked; 0 for now.

        Args:
            now: Monotonic seconds.
        """
        if not self._buckets:
            return 0.0
        network = network_of(address)
        bucket = self._buckets.get(network)
        delay = 0.0 if bucket is None else bucket.delay(now)
        if delay > 0.0:
            # A flood from many other networks must not evict this one.
            self._buckets.move_to_end(network)
        return delay

    def add(self, address: str, now: float) -> None:
        """Count a failure of this address.

        Args:
            now: Monotonic seconds.
        """
        network = network_of(address)
        bucket = self._buckets.pop(network, None)
        if bucket is None:
            bucket = Bucket(self._rate, self._burst)
            if len(self._buckets) >= self._most:
                self._buckets.popitem(last=False)
        bucket.charge(1.0, now)
        self._buckets[network] = bucket


def network_of(address: str) -> str:
    """Return the network that an address counts for: itself, or its /64 in IPv6, where each site has a whole one.

    IPv4 within IPv6 (`::ffff:192.0.2.1`) is IPv4; otherwise all of IPv4 would share one network.
    """
    if ":" not in address:
        return address
    try:
        raw = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except OSError:
        return address
    if raw.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, raw[len(_MAPPED) :])
    return raw[:_NETWORK_BYTES].hex()


class VerificationQueue:
    """First come, first served, with at most `per_turn` in one turn of the running event loop."""

    def __init__(self, per_turn: int = PER_TURN) -> None:
        self._per_turn = per_turn
        # A refill is scheduled exactly while some of this turn's are taken.
        self._left = per_turn
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Return when the caller may verify one token, at once or in a later turn."""
        loop = asyncio.get_running_loop()
        if self._left == self._per_turn:
            loop.call_soon(self._refill, loop)
        if self._left > 0:
            self._left -= 1
            return
        waiter = loop.create_future()
        self._waiting.append(waiter)
        await waiter

    def _refill(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = self._per_turn
        while self._waiting and self._left > 0:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._left -= 1
        if self._left < self._per_turn:
            loop.call_soon(self._refill, loop)
