"""Calls at a time: so many places, and a bounded queue before them that no tenant can fill or overtake.

    at once    a place is free, so nobody waits                → it is had
    waiting    all places are taken, and the queue has room    → in the queue of its tenant, behind its own
    refused    the queue is full, and of it the tenant has its share already
    displaced  it waits, the queue is full, its tenant has more than its share of it, and another one comes
    late       it has waited for `timeout`

A freed place goes to a tenant, and within it to who waits longest. Which one is *start-time fair queueing*, which is
stride scheduling for tenants that come and go: each has a virtual time, which one call moves by 1/weight, the lowest is
next, and who had nothing to ask for meanwhile has saved nothing. So of tenants that all wait, each gets calls in
proportion to its weight, however many it sends.

Calls are not alike: those of a tenant whose tasks hang keep their places, and calls by turns would end with all places
in its hands. So a tenant that has its share of the *places* (among those that have or want some, by weight) and two
more is passed over while another waits that has not. If there is none, the place is its own: no place is empty while
somebody waits.

Decision (2026-11-22): places and not an estimate of each tenant's cost per call, which would be forecast from calls
that say nothing of the next; and no reserved places, which would be empty most of the time.

Where places are held for hours, as streams hold connections, turns alone help nobody: none comes free. There a gate is
told with each call how to `reclaim` one. A call that has waited for a part of `timeout`, and whose tenant has less than
its share of the places, takes one from the tenant that has most above its own.

Decision (2026-11-23): not at once, for where calls are short a place comes free by itself; and not never, for then one
tenant's streams shut out all others.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextlib import suppress

_KEPT = 256
"""Tenants that are remembered at least, so that those who come and go are not made anew."""
_MORE = 2
"""Places above its share: without them, whose calls happen to last a little longer would get fewer (up to a half)."""
_PATIENCE = 0.25
"""The part of `timeout` after which a place is taken from who has more than its share."""


class NoPlace(Exception):  # noqa: N818 - it is what it is
    """The queue is full, or it was waited in for too long; the text says which, for logs."""


class Flow:
    """The calls of one tenant at one gate.

    Attributes:
        held: Places that it has.
        waiting: Its calls in the queue, the longest first.
        due: The virtual time of its next call, unless that of the gate is later.
        listed: Whether it has an entry in the gate's heap, if only an old one.
    """

    __slots__ = ("due", "gate", "held", "listed", "waiting", "weight")

    def __init__(self, gate: "Gate", weight: float) -> None:
        self.gate = gate
        self.weight = weight
        self.held = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.due = 0.0
        self.listed = False

    def leave(self) -> None:
        """Give one place back; whoever is next has it at once."""
        gate = self.gate
        self.held -= 1
        gate.taken -= 1
        if not self.held and not self.waiting:
            gate.rested(self)
        if gate.waiting:
            gate.serve()


class Gate:
    """Places for calls, and who waits for one.

    Attributes:
        limit: Most places; those above a limit that was lowered are not taken away.
        taken: Places that are taken.
        waiting: Calls in the queue.
    """

    __slots__ = (
        "_flows",
        "_heap",
        "_more",
        "_now",
        "_prune_at",
        "_serial",
        "_wanted",
        "_weight",
        "limit",
        "queue",
        "taken",
        "timeout",
        "waiting",
    )

    def __init__(
        self,
        limit: float,
        queue: int,
        timeout: float,
        *,
        more: float = _MORE,
    ) -> None:
        """A gate with all places free.

        Args:
            limit: `math.inf` for no limit.
            queue: Most calls that wait.
            timeout: Seconds for which each does, at the longest.
            more: Places that a tenant has above its share before it is passed over.
        """
        self._more = more
        self.limit = limit
        self.queue = queue
        self.timeout = timeout
        self.taken = 0
        self.waiting = 0
        self._flows: dict[str, Flow] = {}
        self._prune_at = _KEPT
        # Those with calls in the queue, by virtual time; old entries are left where they are until their turn.
        self._heap: list[tuple[float, int, Flow]] = []
        self._serial = 0
        # Virtual time: that of the call that was let in last.
        self._now = 0.0
        # The weights of the flows that have or want places, and of those that want some.
        self._weight = 0.0
        self._wanted = 0.0

    def change(self, limit: float, queue: int, timeout: float) -> None:
        """Go on with other figures: whoever has a place now is let in, and nobody is turned away who waits already."""
        self.limit, self.queue, self.timeout = limit, queue, timeout
        self.serve()

    def enter(self, tenant: str, weight: float) -> Flow | None:
        """Take a place that is free; None where there is none. It is given back with `Flow.leave`."""
        if self.taken >= self.limit:
            return None
        flow = self._flow(tenant, weight)
        if not flow.held:
            self._weight += flow.weight
        flow.held += 1
        self.taken += 1
        return flow

    def full(self, tenant: str, weight: float) -> bool:
        """Whether a call of the tenant would be refused, if it had to wait now."""
        return self.waiting >= self.queue and self._victim(self._flow(tenant, weight)) is None

    async def wait(self, tenant: str, weight: float, reclaim: Callable[[Flow], None] | None = None) -> Flow:
        """Take a place, as soon as it is this call's turn. It is given back with `Flow.leave`.

        Cancellation leaves the queue, and passes on the place that arrived in the same moment.

        Args:
            reclaim: Takes one place from a flow, at once, if it can; None where no place is taken away for this call.

        Raises:
            NoPlace: there was no room in the queue, or it is not one's turn in time, or another one's room is needed.
        """
        entered = self.enter(tenant, weight)
        if entered is not None:
            return entered
        flow = self._flow(tenant, weight)
        if self.waiting >= self.queue:
            victim = self._victim(flow)
            if victim is None:
                raise NoPlace("the queue is full")
            turn = victim.waiting.pop()
            self._left(victim)
            if not turn.done():
                turn.set_exception(NoPlace("another tenant has less than its share of the queue"))
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._join(flow, turn)
        alarm = loop.call_later(self.timeout, self._expire, flow, turn)
        insistence = None
        if reclaim is not None:
            insistence = loop.call_later(self.timeout * _PATIENCE, self._insist, flow, turn, reclaim)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._drop(flow, turn)
            elif turn.exception() is None:
                flow.leave()
            raise
        finally:
            alarm.cancel()
            if insistence is not None:
                insistence.cancel()
        return flow

    def dismiss(self, reason: Callable[[], Exception]) -> None:
        """Turn away all that wait."""
        for flow in list(self._flows.values()):
            while flow.waiting:
                turn = flow.waiting.pop()
                self._left(flow)
                if not turn.done():
                    turn.set_exception(reason())

    # ---- Whose turn it is ----------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Give free places to those that wait."""
        while self.waiting and self.taken < self.limit:
            flow = self._next()
            turn = flow.waiting.popleft()
            # One that is done was cancelled, and its task has not run since.
            if not turn.done():
                flow.held += 1
                self.taken += 1
                turn.set_result(None)
            self._left(flow)

    def _next(self) -> Flow:
        """The flow whose turn it is; its virtual time has moved on."""
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
        # Never before the gate's own: time in which it wanted nothing, or was passed over, is not made up for.
        self._now = max(self._now, due)
        flow.due = self._now + 1.0 / flow.weight
        flow.listed = False
        if len(flow.waiting) > 1:
            self._list(flow)
        return flow

    def _insist(self, flow: Flow, turn: "asyncio.Future[None]", reclaim: Callable[[Flow], None]) -> None:
        """Take a place from who has most above its share, for a call whose tenant has less than its own."""
        if turn.done() or flow.held + 1 > self._share(flow):
            return
        above = [each for each in self._flows.values() if each.held > self._share(each)]
        if above:
            reclaim(max(above, key=lambda each: each.held / each.weight))

    def _share(self, flow: Flow) -> float:
        """The places that are a flow's among those that have or want some; one at least."""
        return max(1.0, self.limit * flow.weight / self._weight)

    def _list(self, flow: Flow) -> None:
        self._serial += 1
        flow.listed = True
        heapq.heappush(self._heap, (max(flow.due, self._now), self._serial, flow))

    def _victim(self, newcomer: Flow) -> Flow | None:
        """Of a full queue, the flow that has most of what is more than its share; None if the newcomer has its own."""
        wanted = self._wanted if newcomer.waiting else self._wanted + newcomer.weight
        each = self.queue / wanted
        if len(newcomer.waiting) + 1 > max(1.0, each * newcomer.weight):
            return None
        # Where shares add up to the queue, somebody is above; where tenants are more than places in it, maybe nobody.
        flows = [entry[2] for entry in self._heap if len(entry[2].waiting) > max(1.0, each * entry[2].weight)]
        return max(flows, key=lambda flow: len(flow.waiting) / flow.weight, default=None)

    # ---- Coming and going ----------------------------------------------------------------------------------------

    def _join(self, flow: Flow, turn: "asyncio.Future[None]") -> None:
        if not flow.waiting:
            self._wanted += flow.weight
            if not flow.held:
                self._weight += flow.weight
            if not flow.listed:
                self._list(flow)
        flow.waiting.append(turn)
        self.waiting += 1

    def _expire(self, flow: Flow, turn: "asyncio.Future[None]") -> None:
        if not turn.done():
            self._drop(flow, turn)
            turn.set_exception(NoPlace(f"no place within {self.timeout:g} s"))

    def _drop(self, flow: Flow, turn: "asyncio.Future[None]") -> None:
        """Out of the queue, unless a place came to it meanwhile."""
        with suppress(ValueError):
            flow.waiting.remove(turn)
            self._left(flow)

    def _left(self, flow: Flow) -> None:
        """One less waits."""
        self.waiting -= 1
        if not flow.waiting:
            self._wanted = self._wanted - flow.weight if self.waiting else 0.0
            if not flow.held:
                self.rested(flow)

    def rested(self, flow: Flow) -> None:
        """A flow neither has nor wants a place."""
        # Exactly nothing, where nothing is left, or errors of rounding would add up.
        self._weight = self._weight - flow.weight if self.taken or self.waiting else 0.0

    def _flow(self, tenant: str, weight: float) -> Flow:
        flow = self._flows.get(tenant)
        if flow is None:
            if len(self._flows) >= self._prune_at:
                self._prune()
            flow = self._flows[tenant] = Flow(self, weight)
        elif flow.weight != weight:
            self._reweigh(flow, weight)
        return flow

    def _reweigh(self, flow: Flow, weight: float) -> None:
        if flow.waiting:
            self._wanted += weight - flow.weight
        if flow.waiting or flow.held:
            self._weight += weight - flow.weight
        flow.weight = weight

    def _prune(self) -> None:
        """Forget the flows that neither have nor want a place, and the entries of those that want none."""
        self._flows = {tenant: flow for tenant, flow in self._flows.items() if flow.held or flow.waiting}
        for flow in self._flows.values():
            flow.listed = bool(flow.waiting)
        self._heap = [entry for entry in self._heap if entry[2].waiting]
        heapq.heapify(self._heap)
        self._prune_at = max(_KEPT, 2 * len(self._flows))
