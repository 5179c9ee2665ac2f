"""A concurrency limiter: slots for calls, with a bounded queue that is fair between tenants.

    granted    a slot is free
    queued     all slots are taken, and the queue has room
    refused    the queue is full, and the tenant uses its share of it
    displaced  the queue is full, the waiting tenant exceeds its share, and another tenant needs room
    timed out  the call has waited for `timeout`

A freed slot goes to a tenant, and to its longest waiting call. The tenant is chosen by start-time fair queueing: each
tenant has a virtual time, which a call advances by 1/weight, and the lowest is next. Idle tenants gain no credit. So
waiting tenants get calls in proportion to their weights.

A tenant whose calls hang would finally hold all slots. So a tenant that already uses its weighted share (plus two
slots) yields to waiting tenants that are below theirs. No slot stays free while a call waits.

Shares count slots, not estimated costs, which past calls do not predict; no slot is reserved (decision 0008).

Streams hold connections for hours, so that no slot becomes free. A call may therefore bring a function to `reclaim` a
slot. After a part of `timeout`, if its tenant is below its share, it takes a slot from the tenant that exceeds its own
most. It waits first, because slots of short calls become free by themselves (decision 0008).
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextlib import suppress

_KEPT = 256
"""Tenants that are kept at least, so that returning ones are not created again."""
_MORE = 2
"""Slots above the share of a tenant: without them, tenants with longer calls would get up to half as many."""
_PATIENCE = 0.25
"""Part of `timeout` after which a slot is reclaimed."""


class NoSlot(Exception):  # noqa: N818 - callers turn it into a fault
    """The queue is full, or the call timed out; the text says which, for logs."""


class Flow:
    """The calls of one tenant at one limiter.

    Attributes:
        held: Slots that it holds.
        waiting: Its queued calls, the oldest first.
        due: The virtual time of its next call, unless that of the limiter is later.
        listed: Whether the limiter's heap has an entry for it, possibly an outdated one.
    """

    __slots__ = ("due", "held", "limiter", "listed", "waiting", "weight")

    def __init__(self, limiter: "ConcurrencyLimiter", weight: float) -> None:
        self.limiter = limiter
        self.weight = weight
        self.held = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.due = 0.0
        self.listed = False

    def leave(self) -> None:
        """Release one slot; the next call gets it at once."""
        limiter = self.limiter
        self.held -= 1
        limiter.taken -= 1
        if not self.held and not self.waiting:
            limiter.became_idle(self)
        if limiter.waiting:
            limiter.serve()


class ConcurrencyLimiter:
    """Slots for calls, and the queue for them.

    Attributes:
        limit: Most slots; a lowered limit revokes none.
        taken: Slots in use.
        waiting: Queued calls.
        flows: By tenant; idle ones stay until `prune`.
    """

    def __init__(
        self,
        limit: float,
        queue: int,
        timeout: float,
        *,
        more: float = _MORE,
    ) -> None:
        """Make a limiter with all slots free.

        Args:
            limit: `math.inf` for no limit.
            queue: Most queued calls.
            timeout: Longest wait in seconds.
            more: Slots above its share before a tenant is passed over.
        """
        self._more = more
        self.limit = limit
        self.queue = queue
        self.timeout = timeout
        self.taken = 0
        self.waiting = 0
        self.flows: dict[str, Flow] = {}
        self._prune_at = _KEPT
        # Flows with queued calls, by virtual time; outdated entries stay until they are popped.
        self._heap: list[tuple[float, int, Flow]] = []
        self._serial = 0
        # Virtual time of the call that was granted last.
        self._now = 0.0
        # The weights of the flows that hold or want slots, and of those that want some.
        self._weight = 0.0
        self._waiting_weight = 0.0

    def change(self, limit: float, queue: int, timeout: float) -> None:
        """Change the limits; queued calls stay, and get slots that are free now."""
        self.limit, self.queue, self.timeout = limit, queue, timeout
        self.serve()

    def enter(self, tenant: str, weight: float) -> Flow | None:
        """Take a free slot, or return None. `Flow.leave` releases it."""
        if self.taken >= self.limit:
            return None
        flow = self.flows.get(tenant)
        if flow is None or flow.weight != weight:
            flow = self._flow(tenant, weight)
        if not flow.held:
            self._weight += flow.weight
        flow.held += 1
        self.taken += 1
        return flow

    async def wait(self, tenant: str, weight: float, reclaim: Callable[[Flow], None] | None = None) -> Flow:
        """Wait for a slot and take it. `Flow.leave` releases it.

        Cancellation leaves the queue, and passes on a slot that was granted at the same moment.

        Args:
            reclaim: Takes a slot from a flow at once, if it can; None if no slot is to be reclaimed for this call.

        Raises:
            NoSlot: The queue is full, the wait timed out, or another tenant needs the room.
        """
        entered = self.enter(tenant, weight)
        if entered is not None:
            return entered
        flow = self._flow(tenant, weight)
        if self.waiting >= self.queue:
            victim = self._most_above_share(flow)
            if victim is None:
                raise NoSlot("the queue is full")
            waiter = victim.waiting.pop()
            self._left(victim)
            if not waiter.done():
                waiter.set_exception(NoSlot("another tenant has less than its share of the queue"))
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._join(flow, waiter)
        timeout_timer = loop.call_later(self.timeout, self._expire, flow, waiter)
        reclaim_timer = None
        if reclaim is not None:
            reclaim_timer = loop.call_later(self.timeout * _PATIENCE, self._reclaim_for, flow, waiter, reclaim)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._drop(flow, waiter)
            elif waiter.exception() is None:
                flow.leave()
            raise
        finally:
            timeout_timer.cancel()
            if reclaim_timer is not None:
                reclaim_timer.cancel()
        return flow

    def dismiss(self, reason: Callable[[], Exception]) -> None:
        """Refuse all queued calls."""
        for flow in list(self.flows.values()):
            while flow.waiting:
                waiter = flow.waiting.pop()
                self._left(flow)
                if not waiter.done():
                    waiter.set_exception(reason())

    # ---- Order ---------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Grant free slots to queued calls."""
        while self.waiting and self.taken < self.limit:
            flow = self._next()
            waiter = flow.waiting.popleft()
            # A future that is done was cancelled, and its task has not run since.
            if not waiter.done():
                flow.held += 1
                self.taken += 1
                waiter.set_result(None)
            self._left(flow)

    def _next(self) -> Flow:
        """Return the next flow, and advance its virtual time."""
        heap, passed = self._heap, list[tuple[float, int, Flow]]()
        chosen: tuple[float, int, Flow] | None = None
        while chosen is None and heap:
            entry = heapq.heappop(heap)
            flow = entry[2]
            if not flow.waiting:
                flow.listed = False
            elif flow.held >= self.limit * flow.weight / self._weight + self._more:
                passed.append(entry)
            else:
                chosen = entry
        if chosen is None:
            chosen = passed.pop(0)
        for entry in passed:
            heapq.heappush(heap, entry)
        due, _, flow = chosen
        # Not before the limiter's own time: idle time gives no credit.
        self._now = max(self._now, due)
        flow.due = self._now + 1.0 / flow.weight
        flow.listed = False
        if len(flow.waiting) > 1:
            self._list(flow)
        return flow

    def _reclaim_for(self, flow: Flow, waiter: "asyncio.Future[None]", reclaim: Callable[[Flow], None]) -> None:
        """Reclaim a slot from the flow that exceeds its share most, for a call whose flow is below its own."""
        if waiter.done() or flow.held + 1 > self._share(flow):
            return
        above = [each for each in self.flows.values() if each.held > self._share(each)]
        if above:
            reclaim(max(above, key=lambda each: each.held / each.weight))

    def _share(self, flow: Flow) -> float:
        """Return the share of a flow among those that hold or want slots; at least one."""
        return max(1.0, self.limit * flow.weight / self._weight)

    def _list(self, flow: Flow) -> None:
        self._serial += 1
        flow.listed = True
        heapq.heappush(self._heap, (max(flow.due, self._now), self._serial, flow))

    def _most_above_share(self, newcomer: Flow) -> Flow | None:
        """Return the flow of a full queue that exceeds its share most; None if the new flow does."""
        weight = self._waiting_weight if newcomer.waiting else self._waiting_weight + newcomer.weight
        each = self.queue / weight
        if len(newcomer.waiting) + 1 > max(1.0, each * newcomer.weight):
            return None
        # With more tenants than room in the queue, no flow may exceed its share.
        flows = [entry[2] for entry in self._heap if len(entry[2].waiting) > max(1.0, each * entry[2].weight)]
        return max(flows, key=lambda flow: len(flow.waiting) / flow.weight, default=None)

    # ---- Coming and going ----------------------------------------------------------------------------------------

    def _join(self, flow: Flow, waiter: "asyncio.Future[None]") -> None:
        if not flow.waiting:
            self._waiting_weight += flow.weight
            if not flow.held:
                self._weight += flow.weight
            if not flow.listed:
                self._list(flow)
        flow.waiting.append(waiter)
        self.waiting += 1

    def _expire(self, flow: Flow, waiter: "asyncio.Future[None]") -> None:
        if not waiter.done():
            self._drop(flow, waiter)
            waiter.set_exception(NoSlot(f"no slot within {self.timeout:g} s"))

    def _drop(self, flow: Flow, waiter: "asyncio.Future[None]") -> None:
        """Leave the queue, unless a slot was granted meanwhile."""
        with suppress(ValueError):
            flow.waiting.remove(waiter)
            self._left(flow)

    def _left(self, flow: Flow) -> None:
        """Decrement the number of queued calls."""
        self.waiting -= 1
        if not flow.waiting:
            self._waiting_weight = self._waiting_weight - flow.weight if self.waiting else 0.0
            if not flow.held:
                self.became_idle(flow)

    def became_idle(self, flow: Flow) -> None:
        """Note that a flow neither holds nor wants a slot."""
        # Reset to exactly zero, or rounding errors would add up.
        self._weight = self._weight - flow.weight if self.taken or self.waiting else 0.0

    def _flow(self, tenant: str, weight: float) -> Flow:
        flow = self.flows.get(tenant)
        if flow is None:
            if len(self.flows) >= self._prune_at:
                self.prune()
            flow = self.flows[tenant] = Flow(self, weight)
        elif flow.weight != weight:
            if flow.waiting:
                self._waiting_weight += weight - flow.weight
            if flow.waiting or flow.held:
                self._weight += weight - flow.weight
            flow.weight = weight
        return flow

    def prune(self) -> None:
        """Remove flows that neither hold nor want slots, and outdated entries of the heap."""
        self.flows = {tenant: flow for tenant, flow in self.flows.items() if flow.held or flow.waiting}
        for flow in self.flows.values():
            flow.listed = bool(flow.waiting)
        self._heap = [entry for entry in self._heap if entry[2].waiting]
        heapq.heapify(self._heap)
        self._prune_at = max(_KEPT, 2 * len(self.flows))
