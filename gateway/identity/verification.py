"""Bounds on the cost of credentials (`auth.verification`): cached results, failures, verifications in a loop turn.

The cache answers a credential that was verified before, valid or not, as long as its result cannot have changed (safety
K7).

Each network has a token bucket of failures (safety H14). While it has a token left, an unknown credential is checked;
afterwards it is refused without a check until the bucket is refilled. A bad credential that is repeated costs nothing:
the refusal is cached.

A signature takes 20 to 500 µs and reading the token 100 µs more. A thousand new tokens, after a start or a key
rotation, can arrive in one turn of the event loop. The queue verifies a few of them per turn, so that open streams go
on. A thread instead would cost as much CPU per token as four RS256 signatures (decision 0005).
"""

import asyncio
import socket
from collections import OrderedDict, deque
from copy import copy
from dataclasses import dataclass
from typing import Final

from gateway.a2a.fault import AuthMissing
from gateway.identity.jwks import KeySet
from gateway.policy.token_bucket import Bucket
from gateway.principal import Principal

PER_TURN: Final = 16
"""Verifications in one turn of the loop: 2.5 ms of RS256, 10 ms of ES384."""

_MAPPED = bytes(10) + b"\xff\xff"
_NETWORK_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Entry:
    result: Principal | AuthMissing
    since: float
    until: float
    key_set: KeySet | None
    version: int

    def is_valid(self, now: float) -> bool:
        # Setting the clock back ends an entry, too.
        return self.since <= now < self.until and (self.key_set is None or self.key_set.version == self.version)


class CredentialCache:
    """Principals and refusals by the SHA-256 of the credential.

    Args:
        most: Entries at most; the oldest is evicted first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, digest: bytes) -> bool:
        """Return whether there is an entry, valid or not."""
        return digest in self._entries

    def find(self, digest: bytes, now: float) -> Principal | None:
        """Return the cached principal, or None where there is no valid entry.

        Args:
            now: Wall-clock seconds.

        Raises:
            AuthMissing: the credential was refused; the same fault again.
        """
        entry = self._entries.get(digest)
        if entry is None or not entry.is_valid(now):
            return None
        if isinstance(entry.result, AuthMissing):
            raise copy(entry.result)
        return entry.result

    def put(
        self,
        digest: bytes,
        result: Principal | AuthMissing,
        *,
        since: float,
        until: float,
        key_set: KeySet | None = None,
    ) -> None:
        """Remember a result until `until`, or until the keys of `key_set` change."""
        self._entries.pop(digest, None)
        if len(self._entries) >= self._most:
            self._entries.popitem(last=False)
        # A fault that was raised holds the frames it went through; its copy does not.
        kept = copy(result) if isinstance(result, AuthMissing) else result
        self._entries[digest] = _Entry(kept, since, until, key_set, 0 if key_set is None else key_set.version)

    def drop(self, digest: bytes) -> None:
        """Forget an entry, if there is one."""
        self._entries.pop(digest, None)


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
