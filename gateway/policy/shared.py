"""Rates that several gateways share through Redis: together they give what one would.

Each decision is one script on one key, which Redis runs on its own clock, so that neither the order of requests nor
the clocks of machines matter. It does what `Bucket.take` does, with what was spent and when kept in the key, which
goes when there is nothing left to know.

    up      Redis decides; the process's own bucket, which holds its share, is drained by what was granted here
    down    an answer did not come within `patience`: each process decides by its own share, without waiting
            → once in a `pause` one request asks Redis again, and if it answers all do

The bucket of a process is drained along, so that Redis going and coming gives nobody a new burst each time. What was
granted while Redis was away it never learns of, and what it forgets in a restart is forgotten: then a tenant may have
up to one burst too many, once.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gateway.a2a.fault import StateUnavailable
from gateway.policy.bucket import Bucket

PATIENCE = 0.05
"""Seconds for which a decision of Redis is waited for."""
PAUSE = 0.25
"""Seconds between two questions to a Redis that does not answer."""

TAKE = """
-- KEYS: the bucket: what was spent, and when that was so, in microseconds. ARGV: how many a second, how many at once.
-- Gives whether one was taken, and how many millionths of one are left.
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local spent = 0
local kept = redis.call('GET', KEYS[1])
if kept then
  local amount, seen = string.match(kept, '^(%S+) (%d+)$')
  amount = tonumber(amount or '')
  if amount then
    local passed = math.max(now - tonumber(seen), 0)
    spent = math.min(math.max(amount - passed * rate / 1000000, 0), burst)
  end
end
local taken = 0
if spent + 1 <= burst + 0.000001 then
  taken = 1
  spent = spent + 1
end
local life = math.ceil(spent / rate * 1000) + 1000
redis.call('SET', KEYS[1], string.format('%.17g %.0f', spent, now), 'PX', string.format('%.0f', life))
return {taken, math.floor(math.max(burst - spent, 0) * 1000000 + 0.5)}
"""

logger = logging.getLogger("gateway.policy")


class Rate(NamedTuple):
    """How many a second, and how many at once, of all gateways together."""

    per_second: float
    burst: float


class Link(Protocol):
    """The way to Redis, as `tasks.redis_client` goes it."""

    async def run(self, script: str, keys: Sequence[bytes], args: Sequence[bytes]) -> object:
        """What a script answers.

        Raises:
            StateUnavailable: Redis is not there.
        """


class SharedRates:
    """Takes requests from buckets in Redis, or from a share of them where it does not answer.

    Args:
        named: Makes a key of words, as `tasks.redis_address.RedisAddress.named`.
        clock: Monotonic seconds.

    Attributes:
        up: Whether Redis answered when it was last asked.
    """

    def __init__(
        self,
        link: Link,
        named: Callable[[str, str, str], bytes],
        *,
        patience: float = PATIENCE,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.up = True
        self._link = link
        self._named = named
        self._patience = patience
        self._pause = pause
        self._clock = clock
        self._ask_at = 0.0

    async def take(self, scope: str, name: str, *, rate: Rate, own: Bucket, now: float) -> tuple[float, float]:
        """Take one; gives the seconds until there will be one, 0 if it was taken, and how many are left.

        One that is cancelled may have been taken: Redis had been asked.

        Args:
            scope: `tenant` or `agent`.
            name: Which one's bucket it is.
            own: This process's share.
            now: Monotonic seconds.
        """
        if not self.up:
            asked = self._clock()
            if asked < self._ask_at:
                return own.take(now), own.left
            # The others go on by themselves while this one asks.
            self._ask_at = asked + self._pause
        try:
            async with asyncio.timeout(self._patience):
                answer = await self._link.run(
                    TAKE, (self._named("rate", scope, name),), (b"%r" % rate.per_second, b"%r" % rate.burst)
                )
        except (StateUnavailable, TimeoutError) as error:
            self._lost(error)
            return own.take(now), own.left
        if not self.up:
            self.up = True
            logger.warning("rates are shared again")
        assert isinstance(answer, list)
        taken, millionths = answer
        assert isinstance(millionths, int)
        left = millionths / 1_000_000
        if not taken:
            return max(1e-6, 1.0 - left) / rate.per_second, left
        own.mirror(now)
        return 0.0, left

    def _lost(self, error: Exception) -> None:
        self._ask_at = self._clock() + self._pause
        if self.up:
            self.up = False
            why = error.detail if isinstance(error, StateUnavailable) else f"silent for {self._patience:g} s"
            logger.warning("rates are not shared, each process gives its share of them: %s", why)
