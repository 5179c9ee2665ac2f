"""The concurrency limiter: places for calls, and a bounded queue before them."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.concurrency import ConcurrencyLimiter, Flow, NoSlot
from tests.policy.simulated import now, run, settle

ACME, GLOBEX, INITECH = "acme", "globex", "initech"


def waiting(limiter: ConcurrencyLimiter, tenant: str, weight: float = 1.0) -> "asyncio.Task[Flow]":
    return asyncio.get_running_loop().create_task(limiter.wait(tenant, weight))


def entered(limiter: ConcurrencyLimiter, tenant: str, weight: float = 1.0) -> Flow:
    flow = limiter.enter(tenant, weight)
    assert flow is not None
    return flow


def at_rest(limiter: ConcurrencyLimiter) -> bool:
    """Whether nothing is left of all that happened."""
    limiter.prune()
    return (limiter.taken, limiter.waiting, limiter.flows) == (0, 0, {})


# ---- Places ----------------------------------------------------------------------------------------------------------


def test_a_released_place_goes_to_a_waiting_call_at_once() -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(1, 10, 1.0)
        first = entered(limiter, ACME)
        second = waiting(limiter, GLOBEX)
        await settle()
        assert limiter.waiting == 1
        first.leave()
        # Nobody can slip in before it.
        assert limiter.enter(ACME, 1.0) is None
        (await second).leave()
        assert at_rest(limiter)

    run(main())


def test_within_a_tenant_the_longest_waiting_is_first() -> None:
    async def main() -> list[int]:
        limiter, order = ConcurrencyLimiter(1, 10, 1.0), list[int]()

        async def call(number: int) -> None:
            flow = await limiter.wait(ACME, 1.0)
            order.append(number)
            flow.leave()

        first = entered(limiter, ACME)
        calls = [asyncio.get_running_loop().create_task(call(number)) for number in range(5)]
        await settle()
        first.leave()
        await asyncio.gather(*calls)
        return order

    assert run(main()) == [0, 1, 2, 3, 4]


# ---- The queue -------------------------------------------------------------------------------------------------------


def test_a_full_queue_refuses_at_once() -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(1, 2, 1.0)
        place = entered(limiter, ACME)
        calls = [waiting(limiter, ACME), waiting(limiter, ACME)]
        await settle()
        with pytest.raises(NoSlot, match="full"):
            await limiter.wait(ACME, 1.0)
        assert now() == 0.0
        place.leave()
        for call in calls:
            (await call).leave()
        assert at_rest(limiter)

    run(main())


def test_a_tenant_with_more_than_its_share_of_a_full_queue_makes_room_with_its_newest() -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(1, 4, 10.0)
        place = entered(limiter, ACME)
        hog = [waiting(limiter, ACME) for _ in range(4)]
        await settle()
        others = [waiting(limiter, GLOBEX), waiting(limiter, GLOBEX)]
        await settle()
        assert [call.done() for call in hog] == [False, False, True, True]
        for call in hog[2:]:
            assert isinstance(call.exception(), NoSlot)
        # Each has its half: neither takes more from the other.
        for tenant in (GLOBEX, ACME):
            with pytest.raises(NoSlot, match="full"):
                await limiter.wait(tenant, 1.0)
        place.leave()
        for call in (hog[0], others[0], hog[1], others[1]):
            (await call).leave()
        assert at_rest(limiter)

    run(main())


def test_shares_of_the_queue_go_by_weight() -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(1, 8, 10.0)
        place = entered(limiter, ACME)
        light = [waiting(limiter, ACME, 1.0) for _ in range(8)]
        heavy = [waiting(limiter, GLOBEX, 3.0) for _ in range(8)]
        await settle()
        assert [sum(not call.done() for call in calls) for calls in (light, heavy)] == [2, 6]
        await _end(limiter, place, light + heavy)

    run(main())


def test_a_new_tenant_displaces_a_second_call_of_another_in_a_full_queue() -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(1, 3, 10.0)
        place = entered(limiter, ACME)
        calls = [waiting(limiter, ACME) for _ in range(3)]
        await settle()
        calls += [waiting(limiter, GLOBEX), waiting(limiter, INITECH)]
        await settle()
        assert sum(call.done() for call in calls) == 2
        with pytest.raises(NoSlot, match="full"):
            await limiter.wait("umbrella", 1.0)
        await _end(limiter, place, calls)

    run(main())


# ---- Cancellation ----------------------------------------------------------------------------------------------------


def test_a_cancelled_call_leaves_nothing_behind() -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(1, 10, 1.0)
        place = entered(limiter, ACME)
        calls = [waiting(limiter, ACME), waiting(limiter, GLOBEX), waiting(limiter, GLOBEX)]
        await settle()
        for call in calls[:2]:
            call.cancel()
        # Their tasks have not run yet: they are passed over all the same.
        place.leave()
        (await calls[2]).leave()
        await asyncio.gather(*calls, return_exceptions=True)
        assert [call.cancelled() for call in calls] == [True, True, False]
        assert at_rest(limiter)
        assert now() == 0.0

    run(main())


def test_a_refusal_that_arrives_with_the_cancellation_is_a_cancellation() -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(1, 2, 1.0)
        place = entered(limiter, ACME)
        calls = [waiting(limiter, ACME), waiting(limiter, ACME)]
        await settle()
        other = waiting(limiter, GLOBEX)
        await asyncio.sleep(0)
        calls[1].cancel()
        await settle()
        assert calls[1].cancelled()
        # It had no slot to give back.
        assert (limiter.taken, limiter.waiting) == (1, 2)
        calls[0].cancel()
        place.leave()
        (await other).leave()
        assert at_rest(limiter)

    run(main())


def test_a_slot_that_is_granted_with_the_cancellation_is_given_back() -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(1, 2, 1.0)
        place = entered(limiter, ACME)
        call = waiting(limiter, ACME)
        await settle()
        place.leave()
        call.cancel()
        await settle()
        assert call.cancelled()
        assert at_rest(limiter)

    run(main())


def test_room_that_a_cancelled_call_still_takes_is_taken_from_it() -> None:
    async def main() -> None:
        limiter = ConcurrencyLimiter(1, 2, 1.0)
        place = entered(limiter, ACME)
        calls = [waiting(limiter, ACME), waiting(limiter, ACME)]
        await settle()
        # It comes before the task that is cancelled has run.
        other = waiting(limiter, GLOBEX)
        calls[1].cancel()
        await settle()
        assert [call.done() for call in (*calls, other)] == [False, True, False]
        await _end(limiter, place, [*calls, other])

    run(main())


# ---- Bounds ----------------------------------------------------------------------------------------------------------


class Crowd:
    """Calls that come, wait, leave and end as they please, and what must hold in between."""

    def __init__(self, places: int, queue: int) -> None:
        self.limiter = ConcurrencyLimiter(places, queue, 1.0)
        self.most = places
        self.held: list[Flow] = []
        self.calls: list[asyncio.Task[Flow]] = []

    def call(self, tenant: str, weight: float) -> None:
        flow = self.limiter.enter(tenant, weight)
        if flow is not None:
            self.held.append(flow)
        else:
            self.calls.append(waiting(self.limiter, tenant, weight))

    def end(self, number: int) -> None:
        if self.held:
            self.held.pop(number % len(self.held)).leave()

    def cancel(self, number: int) -> None:
        if self.calls:
            self.calls[number % len(self.calls)].cancel()

    def change(self, places: int) -> None:
        self.limiter.change(places, self.limiter.queue, 1.0)
        self.most = max(self.most, places)

    def prune(self) -> None:
        self.limiter.prune()

    def collect(self) -> None:
        for call in [call for call in self.calls if call.done()]:
            self.calls.remove(call)
            if not call.cancelled() and call.exception() is None:
                self.held.append(call.result())

    def check(self) -> None:
        limiter = self.limiter
        assert limiter.taken <= self.most
        assert limiter.waiting <= limiter.queue
        assert limiter.waiting == sum(len(flow.waiting) for flow in limiter.flows.values())
        # No place is empty while somebody waits.
        assert not limiter.waiting or limiter.taken >= limiter.limit

    async def go(self) -> None:
        self.change(self.most)
        while self.held or self.calls:
            for flow in self.held:
                flow.leave()
            self.held.clear()
            await settle()
            self.collect()
        assert at_rest(self.limiter)


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
def test_places_and_the_queue_always_add_up(places: int, queue: int, steps: list[Any]) -> None:
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


async def _end(limiter: ConcurrencyLimiter, place: Flow, calls: "list[asyncio.Task[Flow]]") -> None:
    """Give every place back, until nobody is left."""
    place.leave()
    left = list(calls)
    while left:
        await settle()
        for call in [call for call in left if call.done()]:
            left.remove(call)
            if not call.cancelled() and call.exception() is None:
                call.result().leave()
    assert at_rest(limiter)


# ---- Shares of a limiter: tenants that all want more than there is get it by their weights --------------------------

_WARM_UP, _MEASURED = 500, 4000

Lasting = Callable[[random.Random, int], float]


def served(
    limiter: ConcurrencyLimiter,
    weights: Sequence[float],
    clients: Sequence[int],
    lasting: Lasting,
    *,
    seed: int = 1,
    retry: float = 0.01,
) -> list[int]:
    """Return how many calls of each tenant were admitted, of a few thousand, with so many busy clients each.

    Args:
        lasting: The duration of a tenant's call.
        retry: Seconds after which a client that was refused tries again.
    """
    chance = random.Random(seed)
    counts = [0] * len(weights)
    total = 0

    async def client(tenant: int) -> None:
        nonlocal total
        while total < _WARM_UP + _MEASURED:
            try:
                flow = await limiter.wait(f"tenant-{tenant}", weights[tenant])
            except NoSlot:
                await asyncio.sleep(retry * chance.uniform(0.5, 1.5))
                continue
            await asyncio.sleep(lasting(chance, tenant))
            if _WARM_UP <= total < _WARM_UP + _MEASURED:
                counts[tenant] += 1
            total += 1
            flow.leave()

    async def main() -> None:
        await asyncio.gather(*(client(tenant) for tenant, count in enumerate(clients) for _ in range(count)))

    run(main())
    return counts


def by_weight(counts: Sequence[int], weights: Sequence[float], within: float) -> bool:
    shares = [count / sum(counts) * sum(weights) / weight for count, weight in zip(counts, weights, strict=True)]
    return all(1 - within <= share <= 1 + within for share in shares)


def alike(chance: random.Random, tenant: int) -> float:
    return 0.01


def varied(chance: random.Random, tenant: int) -> float:
    return chance.expovariate(100)


# ---- All want more than there is -------------------------------------------------------------------------------------


@given(
    weights=st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, 4.0, 8.0]), min_size=8, max_size=8),
    places=st.integers(1, 30),
    lasting=st.sampled_from([alike, varied]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=8)
def test_eight_overloaded_tenants_get_calls_by_their_weights(
    weights: list[float], places: int, lasting: Lasting, seed: int
) -> None:
    clients = [40] * 8
    counts = served(ConcurrencyLimiter(places, 400, 1e6), weights, clients, lasting, seed=seed)
    assert by_weight(counts, weights, 0.1), (counts, weights)


@pytest.mark.long
def test_flooding_a_short_queue_gains_nothing() -> None:
    # The queue is full nearly always, and most calls are refused.
    weights = [1.0, 1.0, 1.0, 1.0]
    counts = served(ConcurrencyLimiter(2, 8, 1e6), weights, [60, 10, 10, 10], alike, retry=0.02)
    assert by_weight(counts, weights, 0.1), counts


def test_the_weight_of_a_tenant_with_one_waiting_call_is_remembered() -> None:
    # The queue of the light one is empty between its calls; it is not new each time.
    weights = [0.25, 1.0, 1.0]
    counts = served(ConcurrencyLimiter(1, 100, 1e6), weights, [2, 20, 20], alike)
    assert by_weight(counts, weights, 0.1), counts


def test_a_tenant_below_its_share_does_not_wait() -> None:
    async def main() -> float:
        limiter, longest = ConcurrencyLimiter(4, 100, 1e6), 0.0
        loop = asyncio.get_running_loop()
        over = False

        async def flood() -> None:
            while not over:
                flow = await limiter.wait("acme", 1.0)
                await asyncio.sleep(0.01)
                flow.leave()

        floods = [loop.create_task(flood()) for _ in range(50)]
        for _ in range(200):
            await asyncio.sleep(0.0137)
            asked = loop.time()
            flow = await limiter.wait("globex", 1.0)
            longest = max(longest, loop.time() - asked)
            await asyncio.sleep(0.001)
            flow.leave()
        over = True
        await asyncio.gather(*floods)
        return longest

    # Not longer than until the next place is free, whatever waits before it.
    assert run(main()) <= 0.0101


# ---- Not all calls are alike -----------------------------------------------------------------------------------------


def test_a_tenant_whose_calls_hang_does_not_end_with_all_places() -> None:
    def lasting(chance: random.Random, tenant: int) -> float:
        return 5.0 if tenant == 0 else 0.01

    counts = served(ConcurrencyLimiter(10, 100, 1e6), [1.0, 1.0], [50, 50], lasting)
    # By turns it would be one call each: as many of the quick ones as of those that hang.
    assert counts[1] > 50 * counts[0]


def test_a_tenant_alone_has_every_place() -> None:
    async def main() -> int:
        limiter = ConcurrencyLimiter(10, 100, 1.0)
        flows = [await limiter.wait("acme", 1.0) for _ in range(5)]
        flows.append(await limiter.wait("globex", 1.0))
        flows += [await limiter.wait("acme", 1.0) for _ in range(4)]
        waiting = [asyncio.get_running_loop().create_task(limiter.wait("acme", 1.0)) for _ in range(10)]
        await asyncio.sleep(0)
        # The other one has a place and wants none: nobody else is there to have it.
        flows[5].leave()
        await asyncio.sleep(0)
        held = limiter.flows["acme"].held
        for flow in flows[:5] + flows[6:]:
            flow.leave()
        for call in waiting:
            (await call).leave()
        return held

    assert run(main()) == 10


def test_a_tenant_that_was_passed_over_catches_nothing_up() -> None:
    slow = True

    def lasting(chance: random.Random, tenant: int) -> float:
        return 3.0 if tenant == 0 and slow else 0.01

    limiter = ConcurrencyLimiter(4, 100, 1e6)
    served(limiter, [1.0, 1.0], [20, 20], lasting)
    slow = False
    counts = served(limiter, [1.0, 1.0], [20, 20], lasting)
    assert by_weight(counts, [1.0, 1.0], 0.1), counts


def test_the_first_call_after_being_passed_over_is_one_call_like_any_other() -> None:
    async def main() -> list[str]:
        limiter, order = ConcurrencyLimiter(8, 100, 1.0), list[str]()
        loop = asyncio.get_running_loop()
        hangs = [await limiter.wait("acme", 1.0) for _ in range(6)]
        quick = [await limiter.wait("globex", 1.0) for _ in range(2)]

        async def call(tenant: str) -> None:
            await limiter.wait(tenant, 1.0)
            order.append(tenant)

        calls = [loop.create_task(call(tenant)) for tenant in ["acme", "acme"] + ["globex"] * 22]
        await asyncio.sleep(0)
        for _ in range(20):
            quick[0].leave()
        await asyncio.sleep(0)
        assert order == ["globex"] * 20
        del order[:]
        for _ in range(3):
            hangs[0].leave()
            await asyncio.sleep(0)
        for task in calls:
            task.cancel()
        await asyncio.wait(calls)
        return order

    assert run(main()) == ["acme", "globex", "acme"]


# ---- Weights that change ---------------------------------------------------------------------------------------------


def test_a_new_weight_holds_from_the_next_call_on() -> None:
    limiter = ConcurrencyLimiter(3, 100, 1e6)
    served(limiter, [1.0, 1.0], [20, 20], alike)
    counts = served(limiter, [3.0, 1.0], [20, 20], alike)
    assert by_weight(counts, [3.0, 1.0], 0.1), counts
