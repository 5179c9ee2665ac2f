"""A gate: places for calls, and a bounded queue before them."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.concurrency import ConcurrencyLimiter, Flow, NoSlot
from tests.policy.simulated import now, run, settle

ACME, GLOBEX, INITECH = "acme", "globex", "initech"


def waiting(gate: ConcurrencyLimiter, tenant: str, weight: float = 1.0) -> "asyncio.Task[Flow]":
    return asyncio.get_running_loop().create_task(gate.wait(tenant, weight))


def entered(gate: ConcurrencyLimiter, tenant: str, weight: float = 1.0) -> Flow:
    flow = gate.enter(tenant, weight)
    assert flow is not None
    return flow


def at_rest(gate: ConcurrencyLimiter) -> bool:
    """Whether nothing is left of all that happened."""
    gate.prune()
    return (gate.taken, gate.waiting, gate.flows) == (0, 0, {})


# ---- Places ----------------------------------------------------------------------------------------------------------


def test_whoever_waits_has_the_place_in_the_moment_it_is_given_back() -> None:
    async def main() -> None:
        gate = ConcurrencyLimiter(1, 10, 1.0)
        first = entered(gate, ACME)
        second = waiting(gate, GLOBEX)
        await settle()
        assert gate.waiting == 1
        first.leave()
        # Nobody can slip in before it.
        assert gate.enter(ACME, 1.0) is None
        (await second).leave()
        assert at_rest(gate)

    run(main())


def test_within_a_tenant_the_longest_waiting_is_first() -> None:
    async def main() -> list[int]:
        gate, order = ConcurrencyLimiter(1, 10, 1.0), list[int]()

        async def call(number: int) -> None:
            flow = await gate.wait(ACME, 1.0)
            order.append(number)
            flow.leave()

        first = entered(gate, ACME)
        calls = [asyncio.get_running_loop().create_task(call(number)) for number in range(5)]
        await settle()
        first.leave()
        await asyncio.gather(*calls)
        return order

    assert run(main()) == [0, 1, 2, 3, 4]


# ---- The queue -------------------------------------------------------------------------------------------------------


def test_who_finds_a_full_queue_is_refused_at_once() -> None:
    async def main() -> None:
        gate = ConcurrencyLimiter(1, 2, 1.0)
        place = entered(gate, ACME)
        calls = [waiting(gate, ACME), waiting(gate, ACME)]
        await settle()
        assert gate.full(ACME, 1.0)
        with pytest.raises(NoSlot, match="full"):
            await gate.wait(ACME, 1.0)
        assert now() == 0.0
        place.leave()
        for call in calls:
            (await call).leave()
        assert at_rest(gate)

    run(main())


def test_a_tenant_with_more_than_its_share_of_a_full_queue_makes_room_with_its_newest() -> None:
    async def main() -> None:
        gate = ConcurrencyLimiter(1, 4, 10.0)
        place = entered(gate, ACME)
        hog = [waiting(gate, ACME) for _ in range(4)]
        await settle()
        assert gate.full(ACME, 1.0)
        assert not gate.full(GLOBEX, 1.0)
        others = [waiting(gate, GLOBEX), waiting(gate, GLOBEX)]
        await settle()
        assert [call.done() for call in hog] == [False, False, True, True]
        for call in hog[2:]:
            assert isinstance(call.exception(), NoSlot)
        # Each has its half: neither takes more from the other.
        assert gate.full(GLOBEX, 1.0)
        assert gate.full(ACME, 1.0)
        place.leave()
        for call in (hog[0], others[0], hog[1], others[1]):
            (await call).leave()
        assert at_rest(gate)

    run(main())


def test_shares_of_the_queue_go_by_weight() -> None:
    async def main() -> None:
        gate = ConcurrencyLimiter(1, 8, 10.0)
        place = entered(gate, ACME)
        light = [waiting(gate, ACME, 1.0) for _ in range(8)]
        heavy = [waiting(gate, GLOBEX, 3.0) for _ in range(8)]
        await settle()
        assert [sum(not call.done() for call in calls) for calls in (light, heavy)] == [2, 6]
        await _end(gate, place, light + heavy)

    run(main())


def test_of_more_tenants_than_the_queue_has_room_for_each_new_one_displaces_who_waits_twice() -> None:
    async def main() -> None:
        gate = ConcurrencyLimiter(1, 3, 10.0)
        place = entered(gate, ACME)
        calls = [waiting(gate, ACME) for _ in range(3)]
        await settle()
        calls += [waiting(gate, GLOBEX), waiting(gate, INITECH)]
        await settle()
        assert sum(call.done() for call in calls) == 2
        assert gate.full("umbrella", 1.0)
        await _end(gate, place, calls)

    run(main())


# ---- Cancellation ----------------------------------------------------------------------------------------------------


def test_who_is_cancelled_leaves_nothing_behind() -> None:
    async def main() -> None:
        gate = ConcurrencyLimiter(1, 10, 1.0)
        place = entered(gate, ACME)
        calls = [waiting(gate, ACME), waiting(gate, GLOBEX), waiting(gate, GLOBEX)]
        await settle()
        for call in calls[:2]:
            call.cancel()
        # Their tasks have not run yet: they are passed over all the same.
        place.leave()
        (await calls[2]).leave()
        await asyncio.gather(*calls, return_exceptions=True)
        assert [call.cancelled() for call in calls] == [True, True, False]
        assert at_rest(gate)
        assert now() == 0.0

    run(main())


def test_a_place_that_arrives_with_the_cancellation_goes_to_the_next() -> None:
    async def main() -> None:
        gate = ConcurrencyLimiter(1, 10, 1.0)
        place = entered(gate, ACME)
        first, second = waiting(gate, ACME), waiting(gate, GLOBEX)
        await settle()
        place.leave()
        assert gate.taken == 1
        first.cancel()
        (await second).leave()
        assert first.cancelled()
        assert at_rest(gate)

    run(main())


def test_a_refusal_that_arrives_with_the_cancellation_is_a_cancellation() -> None:
    async def main() -> None:
        gate = ConcurrencyLimiter(1, 2, 1.0)
        place = entered(gate, ACME)
        calls = [waiting(gate, ACME), waiting(gate, ACME)]
        await settle()
        other = waiting(gate, GLOBEX)
        await asyncio.sleep(0)
        calls[1].cancel()
        await settle()
        assert calls[1].cancelled()
        calls[0].cancel()
        place.leave()
        (await other).leave()
        assert at_rest(gate)

    run(main())


def test_room_that_a_cancelled_call_still_takes_is_taken_from_it() -> None:
    async def main() -> None:
        gate = ConcurrencyLimiter(1, 2, 1.0)
        place = entered(gate, ACME)
        calls = [waiting(gate, ACME), waiting(gate, ACME)]
        await settle()
        # It comes before the task that is cancelled has run.
        other = waiting(gate, GLOBEX)
        calls[1].cancel()
        await settle()
        assert [call.done() for call in (*calls, other)] == [False, True, False]
        await _end(gate, place, [*calls, other])

    run(main())


# ---- Bounds ----------------------------------------------------------------------------------------------------------


class Crowd:
    """Calls that come, wait, leave and end as they please, and what must hold in between."""

    def __init__(self, places: int, queue: int) -> None:
        self.gate = ConcurrencyLimiter(places, queue, 1.0)
        self.most = places
        self.held: list[Flow] = []
        self.calls: list[asyncio.Task[Flow]] = []

    def call(self, tenant: str, weight: float) -> None:
        flow = self.gate.enter(tenant, weight)
        if flow is not None:
            self.held.append(flow)
        else:
            self.calls.append(waiting(self.gate, tenant, weight))

    def end(self, number: int) -> None:
        if self.held:
            self.held.pop(number % len(self.held)).leave()

    def cancel(self, number: int) -> None:
        if self.calls:
            self.calls[number % len(self.calls)].cancel()

    def change(self, places: int) -> None:
        self.gate.change(places, self.gate.queue, 1.0)
        self.most = max(self.most, places)

    def prune(self) -> None:
        self.gate.prune()

    def collect(self) -> None:
        for call in [call for call in self.calls if call.done()]:
            self.calls.remove(call)
            if not call.cancelled() and call.exception() is None:
                self.held.append(call.result())

    def check(self) -> None:
        gate = self.gate
        assert gate.taken <= self.most
        assert gate.waiting <= gate.queue
        assert gate.waiting == sum(len(flow.waiting) for flow in gate.flows.values())
        # No place is empty while somebody waits.
        assert not gate.waiting or gate.taken >= gate.limit

    async def go(self) -> None:
        self.change(self.most)
        while self.held or self.calls:
            for flow in self.held:
                flow.leave()
            self.held.clear()
            await settle()
            self.collect()
        assert at_rest(self.gate)


numbers = st.integers(0, 20)
steps = st.one_of(
    st.tuples(st.just("call"), st.sampled_from(["a", "b", "c", "d", "e"]), st.sampled_from([0.25, 1.0, 3.0])),
    st.tuples(st.just("end"), numbers),
    st.tuples(st.just("cancel"), numbers),
    st.tuples(st.just("change"), st.integers(0, 6)),
    st.tuples(st.sampled_from(["collect", "prune"])),
    st.floats(0.0, 1.5),
    st.just(0.0),
)


@given(places=st.integers(1, 4), queue=st.integers(0, 8), steps=st.lists(steps, max_size=60))
@settings(max_examples=150)
def test_places_and_the_queue_add_up_whatever_happens(places: int, queue: int, steps: list[Any]) -> None:
    async def main() -> None:
        crowd = Crowd(places, queue)
        for step in steps:
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                getattr(crowd, step[0])(*step[1:])
            crowd.check()
        await crowd.go()

    run(main())


async def _end(gate: ConcurrencyLimiter, place: Flow, calls: "list[asyncio.Task[Flow]]") -> None:
    """Give every place back, until nobody is left."""
    place.leave()
    left = list(calls)
    while left:
        await settle()
        for call in [call for call in left if call.done()]:
            left.remove(call)
            if not call.cancelled() and call.exception() is None:
                call.result().leave()
    assert at_rest(gate)
