"""Rates that several gateways share through Redis.

A decision of Redis is one script on one key, by the clock of Redis. So neither the order of requests nor the clocks of
machines matter. The script does the same as `Bucket.take`. The key expires when the bucket is full again.

    up      Redis decides; the local bucket with this process's share is drained by the same tokens
    down    no answer within `patience`: each process decides by its own share, without waiting;
            once per `pause` one request tries Redis again

The drained local bucket keeps an outage from granting a new burst. Redis never learns of tokens that were granted
during an outage, and a restart empties it: then a tenant may get one burst too many, once.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gateway.a2a.fault import StateUnavailable
from gateway.policy.token_bucket import Bucket

PATIENCE = 0.05
"""Timeout of a decision of Redis, in seconds."""
PAUSE = 0.25
"""Seconds between two attempts while Redis does not answer."""

TAKE = """
-- KEYS: the bucket: spent tokens, and the time of that figure in microseconds. ARGV: tokens per second, burst.
-- Returns 1 if a token was taken, else 0, and the millionths of a token that are left.
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
    """Rate per second and burst, of all gateways together."""

    per_second: float
    burst: float


class Link(Protocol):
    """The connection to Redis, as in `tasks.redis_client`."""

    async def run(self, script: str, keys: Sequence[bytes], args: Sequence[bytes]) -> object:
        """Return the answer of the script.

        Raises:
            StateUnavailable: Redis does not answer.
        """


class SharedRates:
    """Takes tokens from buckets in Redis, or from this process's share while Redis does not answer.

    Args:
        named: Returns a key for words, as `tasks.state_url.RedisAddress.named`.
        clock: Monotonic seconds.

    Attributes:
        up: Whether Redis answered the last time.
        patience: Seconds that a call waits for Redis.
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
        self.patience = patience
        self._pause = pause
        self._clock = clock
        self._retry_at = 0.0

    async def take(self, scope: str, name: str, *, rate: Rate, own: Bucket, now: float) -> tuple[float, float]:
        """Take one token; return the seconds until there is one (0 if taken) and the number that is left.

        A cancelled call may have taken one.

        Args:
            scope: `tenant` or `agent`.
            name: The owner of the bucket.
            own: This process's share.
            now: Monotonic seconds.
        """
        if not self.up:
            began = self._clock()
            if began < self._retry_at:
                return own.take(now), own.left
            # Other requests decide locally while this one tries Redis.
            self._retry_at = began + self._pause
        try:
            async with asyncio.timeout(self.patience):
                answer = await self._link.run(
                    TAKE, (self._named("rate", scope, name),), (b"%r" % rate.per_second, b"%r" % rate.burst)
                )
        except (StateUnavailable, TimeoutError) as error:
            self._lost(error)
            return own.take(now), own.left
        if not self.up:
            self.up = True
            logger.warning("rate limits are shared through Redis again")
        assert isinstance(answer, list)
        taken, millionths = answer
        assert isinstance(millionths, int)
        left = millionths / 1_000_000
        if not taken:
            return max(1e-6, 1.0 - left) / rate.per_second, left
        own.mirror(now)
        return 0.0, left

    def _lost(self, error: Exception) -> None:
        self._retry_at = self._clock() + self._pause
        if self.up:
            self.up = False
            why = error.detail if isinstance(error, StateUnavailable) else f"silent for {self.patience:g} s"
            logger.warning("rate limits are not shared, each process applies its share: %s", why)
