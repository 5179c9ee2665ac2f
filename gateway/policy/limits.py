"""The limits of tenants and agents, and the permits of calls.

    arrive       before the body is read: one request of the tenant; refused while the tenant owes bytes
    refuse_body  the length of the body is known
    admit        the agent is known: one request of the agent, a slot of tenant and agent, one of their streams
    streaming    the head of a stream is sent: the slots are released, the stream stays
    release      the call is over: everything is released

A stream counts as a call until it begins, because the agent works for it, and as a stream after that. Otherwise a few
streams that are open for an hour would use up all slots. So `concurrency` counts answers in progress, and `streams`
counts open streams.

With both limited, the tenant's slot is taken before the agent's: a call that waits for an agent then holds a slot of
its own tenant only. The agent's request is charged last, so refused calls cost the agent nothing. A tenant's own
requests are charged on arrival, except those over the rate.

Several processes with one configuration (`replicas`, workers) each apply a share of every limit, rounded up. Requests
are shared exactly with a `SharedRates`; calls and streams are not, because Redis would have to notice when a process
that holds some ends.

Decision (2026-11-22): our own buckets and limiters. The libraries (`limits`, `aiolimiter`) count in windows or delay
calls, and know no debt, no weights and no change of figures.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec

from gateway.a2a.fault import BodyTooLarge, ConcurrencyLimited, RateLimited, StreamsLimited
from gateway.policy.concurrency import ConcurrencyLimiter, Flow, NoSlot
from gateway.policy.shared_rates import Rate, SharedRates
from gateway.policy.token_bucket import Bucket

_POLICY, _LIMIT = b"ratelimit-policy", b"ratelimit"


class RateLimitState(msgspec.Struct, frozen=True):
    """The state of a tenant's rate limit.

    Attributes:
        limit: Requests per window: of all processes together, or of this one alone where each applies its share.
        window: Whole seconds, because the header fields know no others (§3.1.3).
        remaining: Requests that are left; more than `limit` if the burst is greater.
        reset: Seconds until there is one more.
    """

    limit: int
    window: int
    remaining: int
    reset: float


def ratelimit_headers(state: RateLimitState) -> list[tuple[bytes, bytes]]:
    """Return `RateLimit-Policy` and `RateLimit`, with lower-case names.

    draft-ietf-httpapi-ratelimit-headers-11, in structured fields (RFC 9651): the policy is `q` requests in `w` seconds
    (§3.1), the limit is `r` requests within the next `t` seconds (§4.1). Here `t` is the time until there are more than
    `r`, so in a refusal it equals `Retry-After` (§6). There is no partition key: the quota is the tenant's. The state
    of an agent, which others use too, is not shown (§8.2).
    """
    # Float noise above a whole second is rounded off.
    reset = math.ceil(state.reset - 1e-6)
    return [
        (_POLICY, _policy(state.limit, state.window)),
        (_LIMIT, b'"requests";r=%d;t=%d' % (state.remaining, reset)),
    ]


@lru_cache(maxsize=1024)
def _policy(limit: int, window: int) -> bytes:
    return b'"requests";q=%d;w=%d' % (limit, window)


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one tenant or agent; None is unlimited.

    Attributes:
        requests: Count and period in seconds.
        burst: Most requests at once; None for the count of one period.
        concurrency: Concurrent calls: unary ones, and streams that have not begun.
        queue: Most queued calls.
        queue_timeout: Longest wait in seconds, at each of the two limiters.
        streams: Open streams, and those that are about to begin.
        body: Bytes of a request body.
        bandwidth: Bytes per second, requests and answers together. Bytes are charged afterwards; beyond one second's
            worth new requests are refused until the debt is refilled.
        weight: Share of a tenant among those that wait for one agent, above 0.
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


class Quotas(NamedTuple):
    """The quotas of one configuration.

    Attributes:
        tenants: By the name of the tenant; `*` has those of each unnamed one.
        agents: By the key of the backend.
        named: The tenants with a name in the configuration.
        open_tasks: Most open tasks of a tenant, by its name.
        replicas: The number of gateways that share the quotas.
    """

    tenants: Mapping[str, Quota]
    agents: Mapping[str, Quota]
    named: frozenset[str]
    open_tasks: Mapping[str, int]
    replicas: int


class HeaderRate(NamedTuple):
    """A rate as headers have it: requests per whole seconds."""

    limit: int
    window: int


_NOT_LIMITED = HeaderRate(0, 0)
_UNLIMITED = Rate(math.inf, math.inf)


@dataclass(slots=True, eq=False)
class LimiterState:
    """The limits of one tenant or agent, and their current use.

    Attributes:
        scope: `tenant` or `agent`.
        label: Its name in the metric of hits.
        requests: The bucket of this process, and `share` as headers have it.
        rate: The rate of all processes, and `whole` as headers have it.
        bandwidth: The bucket of bytes.
        limiter: The concurrency limiter.
        streams: Most open streams.
        open: Open streams.
        body: Most bytes of a body.
        weight: Share among those that wait for an agent.
        holds: Whether calls hold anything of it.
    """

    scope: str
    name: str
    label: str = ""
    requests: Bucket | None = None
    share: HeaderRate = _NOT_LIMITED
    rate: Rate = _UNLIMITED
    whole: HeaderRate = _NOT_LIMITED
    bandwidth: Bucket | None = None
    limiter: ConcurrencyLimiter | None = None
    streams: float = math.inf
    open: int = 0
    body: float = math.inf
    weight: float = 1.0
    holds: bool = False
    _quota: Quota = field(default_factory=Quota)
    _replicas: int = 1

    @property
    def idle(self) -> bool:
        """Return whether no call holds or waits for anything of it."""
        return not self.open and (self.limiter is None or not (self.limiter.taken or self.limiter.waiting))

    @property
    def busy(self) -> bool:
        """Return whether one more call would have to wait."""
        limiter = self.limiter
        return limiter is not None and limiter.taken >= limiter.limit

    def change(self, quota: Quota, replicas: int, now: float) -> None:
        """Change the limits. Used quota and running calls carry over."""
        if (quota, replicas) == (self._quota, self._replicas):
            return
        self._quota, self._replicas = quota, replicas
        self._change_requests(quota, replicas, now)
        moved = None if quota.bandwidth is None else quota.bandwidth / replicas
        self.bandwidth = None if moved is None else _changed(self.bandwidth, moved, moved, now)
        self._change_concurrency(quota, replicas)
        self.streams = math.inf if quota.streams is None else math.ceil(quota.streams / replicas)
        self.body = math.inf if quota.body is None else quota.body
        self.weight = quota.weight
        self.holds = self.limiter is not None or quota.streams is not None

    def rate_limit(self, left: float, rate: float, shown: HeaderRate) -> RateLimitState:
        """Return the state of the rate limit, from the tokens that are left and their refill rate.

        Args:
            shown: `share` or `whole`, by the owner of the rate.
        """
        whole = int(left + 1e-6)
        return RateLimitState(*shown, whole, max(0.0, whole + 1 - left) / rate)

    def _change_requests(self, quota: Quota, replicas: int, now: float) -> None:
        if quota.requests is None:
            self.requests = None
            return
        count, period = quota.requests
        burst = count if quota.burst is None else quota.burst
        self.rate = Rate(count / period, max(1.0, burst))
        self.share = self.whole = _header_rate(count, period)
        if replicas > 1:
            count, burst = math.ceil(count / replicas), math.ceil(burst / replicas)
            self.share = _header_rate(count, period)
        self.requests = _changed(self.requests, count / period, max(1.0, burst), now)

    def _change_concurrency(self, quota: Quota, replicas: int) -> None:
        if quota.concurrency is None:
            if self.limiter is not None:
                # Queued calls are admitted; running calls still release their slots to this limiter.
                self.limiter.change(math.inf, quota.queue, quota.queue_timeout)
            self.limiter = None
            return
        figures = (math.ceil(quota.concurrency / replicas), math.ceil(quota.queue / replicas), quota.queue_timeout)
        if self.limiter is None:
            self.limiter = ConcurrencyLimiter(*figures)
        else:
            self.limiter.change(*figures)


def _header_rate(count: float, period: float) -> HeaderRate:
    # Header fields have whole numbers: a rate such as 1 in 2.5 s is rounded down.
    window = math.ceil(max(period, period / count))
    return HeaderRate(int(count * window / period + 1e-6), window)


def _changed(bucket: Bucket | None, rate: float, burst: float, now: float) -> Bucket:
    if bucket is None:
        return Bucket(rate, burst)
    bucket.change(rate, burst, now)
    return bucket


UNNAMED = "*"
"""The key of the quota of each tenant without an entry of its own."""
OTHER = "other"
"""Label of tenants without a name in the file, in the metric of hits."""
MOST_UNNAMED = 10_000
"""Most tenants without a name in the file that are kept at a time."""

_STREAMS_AGAIN = 5.0
"""`Retry-After` of a refused stream, in seconds; the end of a stream is unknown."""
_TRIES = 8


class Usage(NamedTuple):
    """One limit and its use, for operators.

    Attributes:
        limit: `requests`, `concurrency`, `streams`, `body` or `bandwidth`.
        most: The limit: tokens of the burst, calls, streams, bytes, bytes per second.
        used: The part of it that is in use; None where it is not counted.
        note: Further facts for the operator.
    """

    limit: str
    most: float
    used: float | None = None
    note: str = ""


def _usage(state: LimiterState, now: float) -> Iterator[Usage]:
    if state.requests is not None:
        note = f"{state.share.limit} in {state.share.window} s"
        yield Usage("requests", state.requests.burst, state.requests.used(now), note)
    if state.limiter is not None:
        yield Usage("concurrency", state.limiter.limit, state.limiter.taken, f"{state.limiter.waiting} waiting")
    if state.streams < math.inf:
        yield Usage("streams", state.streams, state.open)
    if state.body < math.inf:
        yield Usage("body", state.body, note="bytes of a request")
    if state.bandwidth is not None:
        yield Usage("bandwidth", state.bandwidth.rate, state.bandwidth.used(now), "bytes in a second")


class OverRate(RateLimited):
    """A tenant exceeds its rate.

    Attributes:
        state: For the headers of the refusal.
    """

    state: RateLimitState


class Permit:
    """The slots that one call holds until its end."""

    __slots__ = ("_agent", "_stream", "_tenant", "agent_slot", "tenant_slot")

    def __init__(self, tenant: LimiterState, agent: LimiterState) -> None:
        self._tenant = tenant
        self._agent = agent
        self.tenant_slot: Flow | None = None
        self.agent_slot: Flow | None = None
        self._stream = False

    def count(self) -> None:
        """Hold one stream."""
        self._stream = True
        self._tenant.open += 1
        self._agent.open += 1

    def streaming(self) -> None:
        """Release the slots, because the stream has begun.

        A call that did not ask for a stream counts as one from here on, also beyond the limit.
        """
        if not self._stream:
            self.count()
        self._leave()

    def release(self) -> None:
        """Release everything; further calls do nothing."""
        self._leave()
        if self._stream:
            self._stream = False
            self._tenant.open -= 1
            self._agent.open -= 1

    def _leave(self) -> None:
        # The agent's first: its next call may be of the same tenant, and holds the tenant's slot already.
        if (slot := self.agent_slot) is not None:
            self.agent_slot = None
            slot.leave()
        if (slot := self.tenant_slot) is not None:
            self.tenant_slot = None
            slot.leave()


class QuotaEnforcer:
    """Applies quotas to tenants and agents; one for a process, across all its configurations.

    Args:
        shared: Counts requests of all processes together.
        on_hit: Called for each refusal with the limit (`requests`, `concurrency`, `streams`, `body`, `bandwidth`),
            the scope (`tenant`, `agent`) and the name: an agent, a tenant of the file, or `other`.
        clock: Monotonic seconds, the same that calls are given.
        most_unnamed: Most tenants without a name in the file; idle ones are evicted, the longest idle first.

    Attributes:
        tenants, agents: State by name in the file.
        unnamed_tenants: State of tenants without a name in the file, the longest idle first.
    """

    def __init__(
        self,
        *,
        shared: SharedRates | None = None,
        on_hit: Callable[[str, str, str], None] = lambda _limit, _scope, _name: None,
        clock: Callable[[], float] = time.monotonic,
        most_unnamed: int = MOST_UNNAMED,
    ) -> None:
        self.on_hit = on_hit
        self._most_unnamed = most_unnamed
        self._shared = shared
        self._clock = clock
        self._replicas = 1
        self.tenants: dict[str, LimiterState] = {}
        self.agents: dict[str, LimiterState] = {}
        # For tenants and agents without limits.
        self._unlimited = LimiterState("", "")
        self._unnamed: Quota | None = None
        self.unnamed_tenants: OrderedDict[str, LimiterState] = OrderedDict()
        self._metered = False
        # Whether anything is limited at all; if not, a call needs nothing of this.
        self.applies = False

    def share(self, rates: SharedRates | None) -> None:
        """Share requests with other processes from now on, or not."""
        self._shared = rates

    def configure(self, tenants: Mapping[str, Quota], agents: Mapping[str, Quota], *, replicas: int = 1) -> None:
        """Change all quotas at once; used quota and running calls carry over.

        Calls that began without a limit are not counted. Accounts without a quota are removed.

        Args:
            tenants: By tenant; `*` is for each tenant without a name in the file, one state each.
            agents: By the agent or backend that `admit` names.
            replicas: Processes that share the limits.
        """
        now = self._clock()
        unnamed = tenants.get(UNNAMED)
        named: dict[str, LimiterState] = {}
        for name, quota in tenants.items():
            if name != UNNAMED:
                unnamed_state = self.unnamed_tenants.pop(name, None)
                state = self.tenants.pop(name, None) or unnamed_state or LimiterState("tenant", name)
                state.label = name
                state.change(quota, replicas, now)
                named[name] = state
        if (unnamed, replicas) != (self._unnamed, self._replicas):
            for state in self.unnamed_tenants.values():
                state.change(unnamed or Quota(), replicas, now)
        for state in self.tenants.values():
            state.label = OTHER
            state.change(unnamed or Quota(), replicas, now)
            self.unnamed_tenants[state.name] = state
        if unnamed is None:
            self.unnamed_tenants.clear()
        self.tenants, self._unnamed, self._replicas = named, unnamed, replicas
        self._configure_agents(agents, replicas, now)
        self.applies = bool(tenants or agents)
        self._metered = any(quota.bandwidth is not None for quota in (*tenants.values(), *agents.values()))

    def _configure_agents(self, agents: Mapping[str, Quota], replicas: int, now: float) -> None:
        named: dict[str, LimiterState] = {}
        for name, quota in agents.items():
            state = self.agents.pop(name, None) or LimiterState("agent", name, name)
            state.change(quota, replicas, now)
            named[name] = state
        for state in self.agents.values():
            state.change(Quota(), replicas, now)
        self.agents = named

    # ---- The steps of a call -------------------------------------------------------------------------------------

    async def arrive(self, tenant: str, now: float) -> RateLimitState | None:
        """Charge a tenant with one request; return the state of its rate limit, or None if it has none.

        Args:
            now: Monotonic seconds.

        Raises:
            OverRate: The rate is exceeded; nothing was charged.
            RateLimited: The tenant owes bytes.
        """
        state = self.tenants.get(tenant)
        if state is None:
            if self._unnamed is None:
                return None
            state = self._unnamed_tenant(tenant, self._unnamed)
        if state.bandwidth is not None and (delay := state.bandwidth.debt(now)):
            raise self._in_debt(state, delay)
        bucket = state.requests
        if bucket is None:
            return None
        rate, shown = bucket.rate, state.share
        if self._shared is None:
            delay, left = bucket.take(now), bucket.left
        else:
            scope, name = state.scope, state.name
            delay, left = await self._shared.take(scope, name, rate=state.rate, own=bucket, now=now)
            # Headers show the limit that was applied: while Redis is away that is this process's share.
            if self._shared.up:
                rate, shown = state.rate.per_second, state.whole
        if delay:
            self.on_hit("requests", state.scope, state.label)
            message = f"more requests than the {shown.limit} in {shown.window} s that are allowed"
            fault = OverRate(message, retry_after=delay)
            fault.state = RateLimitState(*shown, 0, delay)
            raise fault
        return state.rate_limit(left, rate, shown)

    def refuse_body(self, tenant: str, agent: str, size: int) -> None:
        """Refuse a body that is too long for the tenant or the agent.

        Raises:
            BodyTooLarge: It is too long.
        """
        for state in (self._tenant(tenant), self.agents.get(agent, self._unlimited)):
            if size > state.body:
                self.on_hit("body", state.scope, state.label)
                raise BodyTooLarge(f"body exceeds {state.body} bytes")

    def weight(self, tenant: str) -> float:
        """Return the weight of the tenant among those that wait for an agent."""
        return self._tenant(tenant).weight

    async def admit(self, tenant: str, agent: str, *, stream: bool, now: float) -> Permit | None:
        """Admit a call to an agent, after a wait for its slots where others hold them; None if nothing is limited.

        Cancelling it leaves nothing behind, but may have charged a shared request.

        Args:
            stream: Whether the client asks for a stream.
            now: Monotonic seconds.

        Raises:
            RateLimited: The agent's rate is exceeded, or it owes bytes.
            ConcurrencyLimited: There is no slot, no room in the queue, or the wait timed out.
            StreamsLimited: There are too many streams.
        """
        mine, theirs = self._tenant(tenant), self.agents.get(agent, self._unlimited)
        if theirs is self._unlimited and not mine.holds:
            return None
        if theirs.bandwidth is not None and (delay := theirs.bandwidth.debt(now)):
            raise self._in_debt(theirs, delay)
        if stream:
            self._refuse_stream(mine)
            self._refuse_stream(theirs)
        own = theirs.requests
        waits = own is not None and (mine.busy or theirs.busy)
        if waits and own is not None and self._shared is None:
            # Checked only; it is charged when there is a slot.
            self._refuse_rate(theirs, own.delay(now))
        holds = mine.holds or theirs.holds
        permit = Permit(mine, theirs)
        try:
            if stream and holds:
                permit.count()
            if (limiter := mine.limiter) is not None:
                permit.tenant_slot = limiter.enter("", 1.0) or await self._slot(mine, limiter, "", 1.0)
            if (limiter := theirs.limiter) is not None:
                weight = mine.weight
                permit.agent_slot = limiter.enter(tenant, weight) or await self._slot(theirs, limiter, tenant, weight)
            if own is not None:
                now = self._clock() if waits else now
                delay = own.take(now) if self._shared is None else await self._charge(self._shared, theirs, own, now)
                self._refuse_rate(theirs, delay)
        except BaseException:
            permit.release()
            raise
        return permit if holds else None

    def spend(self, tenant: str, agent: str, size: int, now: float) -> None:
        """Charge a tenant and an agent with transferred bytes.

        Args:
            now: Monotonic seconds.
        """
        if not self._metered:
            return
        for state in (self._tenant(tenant), self.agents.get(agent, self._unlimited)):
            if state.bandwidth is not None:
                state.bandwidth.charge(size, now)

    def usage(self, scope: str, name: str, now: float) -> list[Usage]:
        """Return the limits of a tenant or an agent, and how much of each is in use in this process.

        Args:
            scope: `tenant` or `agent`.
            name: The name of the tenant, or the key of the backend.
            now: Monotonic seconds.
        """
        state = (self.tenants if scope == "tenant" else self.agents).get(name)
        return [] if state is None else list(_usage(state, now))

    def usages(self, now: float) -> Iterator[tuple[str, str, Usage]]:
        """Yield scope, name and use of each limit of the configuration, as `usage`; any thread may ask.

        Tenants without a name in the configuration are left out.
        """
        for state in (*list(self.tenants.values()), *list(self.agents.values())):
            for usage in _usage(state, now):
                yield state.scope, state.label, usage

    # ---- Waiting -------------------------------------------------------------------------------------------------

    async def _slot(self, state: LimiterState, limiter: ConcurrencyLimiter, tenant: str, weight: float) -> Flow:
        try:
            return await limiter.wait(tenant, weight)
        except NoSlot as error:
            self.on_hit("concurrency", state.scope, state.label)
            raise ConcurrencyLimited(
                f"{_subject(state)} has too many open calls",
                detail=f"{error}: {limiter.taken} under way, {limiter.waiting} waiting",
                retry_after=max(1.0, math.ceil(limiter.timeout)),
            ) from None

    async def _charge(self, shared: SharedRates, state: LimiterState, own: Bucket, now: float) -> float:
        delay, _ = await shared.take(state.scope, state.name, rate=state.rate, own=own, now=now)
        return delay

    # ---- Accounts ------------------------------------------------------------------------------------------------

    def _tenant(self, tenant: str) -> LimiterState:
        state = self.tenants.get(tenant)
        if state is not None:
            return state
        return self._unlimited if self._unnamed is None else self._unnamed_tenant(tenant, self._unnamed)

    def _unnamed_tenant(self, tenant: str, quota: Quota) -> LimiterState:
        state = self.unnamed_tenants.get(tenant)
        if state is not None:
            self.unnamed_tenants.move_to_end(tenant)
            return state
        if len(self.unnamed_tenants) >= self._most_unnamed:
            self._forget()
        state = self.unnamed_tenants[tenant] = LimiterState("tenant", tenant)
        state.label = OTHER
        state.change(quota, self._replicas, self._clock())
        return state

    def _forget(self) -> None:
        # There are at most as many busy states as calls, so an idle one is found.
        for _ in range(_TRIES):
            tenant, state = self.unnamed_tenants.popitem(last=False)
            if state.idle:
                return
            self.unnamed_tenants[tenant] = state

    # ---- Refusals ------------------------------------------------------------------------------------------------

    def _refuse_rate(self, state: LimiterState, delay: float) -> None:
        """Refuse a call that an agent's rate does not allow for so many seconds."""
        if delay:
            self.on_hit("requests", state.scope, state.label)
            # One tenant does not see the rate of all tenants together.
            raise RateLimited("more requests than this agent takes", retry_after=delay)

    def _in_debt(self, state: LimiterState, delay: float) -> RateLimited:
        self.on_hit("bandwidth", state.scope, state.label)
        return RateLimited(f"more bytes than {_subject(state)} may move", retry_after=delay)

    def _refuse_stream(self, state: LimiterState) -> None:
        if state.open >= state.streams:
            self.on_hit("streams", state.scope, state.label)
            raise StreamsLimited(f"{_subject(state)} has too many open streams", retry_after=_STREAMS_AGAIN)


def _subject(state: LimiterState) -> str:
    return "this tenant" if state.scope == "tenant" else "this agent"
