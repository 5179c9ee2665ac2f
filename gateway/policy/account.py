"""What one tenant, or one agent, may have, and what it has of it."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from gateway.policy.bucket import Bucket
from gateway.policy.gate import Gate
from gateway.policy.ratelimit_headers import Standing
from gateway.policy.shared import Rate

_NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class Quota:
    """What one tenant, or one agent, may have; None is unlimited.

    Attributes:
        requests: How many in how many seconds.
        burst: Most of them at once; None for as many as there are in one period.
        concurrency: Calls at a time: unary ones, and streams that have not begun.
        queue: Most calls that wait for a place.
        queue_timeout: Seconds for which one waits, at each of the two gates.
        streams: Open streams, and those that are to be.
        body: Bytes of a request's body.
        bandwidth: Bytes per second, requests and answers together. What was moved is charged afterwards, and above one
            second's worth it is owed: new requests are refused until that has been made good.
        weight: A tenant's share where several wait for one agent, above 0.
    """

    requests: tuple[float, float] | None = None
    burst: float | None = None
    concurrency: int | None = None
    queue: int = 100
    queue_timeout: float = 1.0
    streams: int | None = None
    body: int | None = None
    bandwidth: float | None = None
    weight: float = 1.0


class Told(NamedTuple):
    """A rate as headers tell it: so many requests in so many whole seconds."""

    limit: int
    window: int


class Account:
    """What one tenant, or one agent, may have and has.

    Attributes:
        scope: `tenant` or `agent`.
        name: Which one's it is.
        label: What it is called where hits are counted.
        requests: This process's share of its requests.
        share: How that is told.
        rate: What all processes share.
        whole: How that is told.
        bandwidth: What was moved.
        gate: Places for calls.
        streams: Most open streams.
        open: Streams that are open.
        body: Most bytes of a body.
        weight: Among those that wait for an agent.
        holds: Whether a call holds anything of it while it lasts.
    """

    __slots__ = (
        "_quota",
        "_replicas",
        "bandwidth",
        "body",
        "gate",
        "holds",
        "label",
        "name",
        "open",
        "rate",
        "requests",
        "scope",
        "share",
        "streams",
        "weight",
        "whole",
    )

    def __init__(self, scope: str, name: str) -> None:
        self.scope = scope
        self.name = self.label = name
        self.requests: Bucket | None = None
        self.rate = Rate(math.inf, math.inf)
        self.share = self.whole = Told(0, 0)
        self.bandwidth: Bucket | None = None
        self.gate: Gate | None = None
        self.streams = math.inf
        self.open = 0
        self.body = math.inf
        self.weight = 1.0
        self.holds = False
        self._quota = Quota()
        self._replicas = 1

    @property
    def idle(self) -> bool:
        """Whether no call holds or waits for anything of it."""
        return not self.open and (self.gate is None or not (self.gate.taken or self.gate.waiting))

    @property
    def busy(self) -> bool:
        """Whether one more call would have to wait."""
        gate = self.gate
        return gate is not None and gate.taken >= gate.limit

    def change(self, quota: Quota, replicas: int, now: float) -> None:
        """Go on with other figures; what was spent stays spent, and what is held stays held."""
        if (quota, replicas) == (self._quota, self._replicas):
            return
        self._quota, self._replicas = quota, replicas
        self._change_requests(quota, replicas, now)
        moved = None if quota.bandwidth is None else quota.bandwidth / replicas
        self.bandwidth = None if moved is None else _changed(self.bandwidth, moved, moved, now)
        self._change_gate(quota, replicas)
        self.streams = math.inf if quota.streams is None else math.ceil(quota.streams / replicas)
        self.body = math.inf if quota.body is None else quota.body
        self.weight = quota.weight
        self.holds = self.gate is not None or quota.streams is not None

    def standing(self, left: float, rate: float, told: Told) -> Standing:
        """How it stands with its requests, of which so many are left and come back at so many a second.

        Args:
            told: `share` or `whole`, whichever the rate is of.
        """
        whole = int(left + _NOTHING)
        return Standing(*told, whole, max(0.0, whole + 1 - left) / rate)

    def _change_requests(self, quota: Quota, replicas: int, now: float) -> None:
        if quota.requests is None:
            self.requests = None
            return
        count, period = quota.requests
        burst = count if quota.burst is None else quota.burst
        self.rate = Rate(count / period, max(1.0, burst))
        self.share = self.whole = _told(count, period)
        if replicas > 1:
            count, burst = math.ceil(count / replicas), math.ceil(burst / replicas)
            self.share = _told(count, period)
        self.requests = _changed(self.requests, count / period, max(1.0, burst), now)

    def _change_gate(self, quota: Quota, replicas: int) -> None:
        if quota.concurrency is None:
            if self.gate is not None:
                # Whoever waits is let in; those that are in give back to it what nobody asks for any more.
                self.gate.change(math.inf, quota.queue, quota.queue_timeout)
            self.gate = None
            return
        figures = (math.ceil(quota.concurrency / replicas), math.ceil(quota.queue / replicas), quota.queue_timeout)
        if self.gate is None:
            self.gate = Gate(*figures)
        else:
            self.gate.change(*figures)


def _told(count: float, period: float) -> Told:
    # The fields know whole numbers only: of a rate such as 1 in 2.5 s they tell the nearest that is not more.
    window = math.ceil(max(period, period / count))
    return Told(int(count * window / period + _NOTHING), window)


def _changed(bucket: Bucket | None, rate: float, burst: float, now: float) -> Bucket:
    if bucket is None:
        return Bucket(rate, burst)
    bucket.change(rate, burst, now)
    return bucket
