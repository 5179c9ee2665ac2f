"""Who gets the places of a gate: tenants that all want more than there is get it by their weights."""

import asyncio
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.concurrency import ConcurrencyLimiter, NoSlot
from tests.policy.simulated import run
from tests.table import for_each

_WARM_UP, _MEASURED = 500, 4000

Lasting = Callable[[random.Random, int], float]


def served(
    gate: ConcurrencyLimiter,
    weights: Sequence[float],
    clients: Sequence[int],
    lasting: Lasting,
    *,
    seed: int = 1,
    retry: float = 0.01,
) -> list[int]:
    """How many calls each tenant got in, of a few thousand, where each has so many clients that never rest.

    Args:
        lasting: How long a call of a tenant takes.
        retry: Seconds after which a client that was refused tries again.
    """
    chance = random.Random(seed)
    counts = [0] * len(weights)
    total = 0

    async def client(tenant: int) -> None:
        nonlocal total
        while total < _WARM_UP + _MEASURED:
            try:
                flow = await gate.wait(f"tenant-{tenant}", weights[tenant])
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


@for_each("lasting", [alike, varied])
def test_who_sends_ten_times_as_much_gets_no_more(lasting: Lasting) -> None:
    weights = [1.0] * 8
    counts = served(ConcurrencyLimiter(10, 400, 1e6), weights, [150, *[15] * 7], lasting)
    assert by_weight(counts, weights, 0.1), counts


@pytest.mark.long
def test_who_floods_a_queue_that_is_too_short_gets_no_more() -> None:
    # The queue is full nearly always, and most calls are refused.
    weights = [1.0, 1.0, 1.0, 1.0]
    counts = served(ConcurrencyLimiter(2, 8, 1e6), weights, [60, 10, 10, 10], alike, retry=0.02)
    assert by_weight(counts, weights, 0.1), counts


def test_who_waits_one_call_at_a_time_has_its_weight_remembered() -> None:
    # The queue of the light one is empty between its calls; it is not new each time.
    weights = [0.25, 1.0, 1.0]
    counts = served(ConcurrencyLimiter(1, 100, 1e6), weights, [2, 20, 20], alike)
    assert by_weight(counts, weights, 0.1), counts


def test_who_wants_less_than_its_share_gets_it_all_at_once() -> None:
    async def main() -> float:
        gate, longest = ConcurrencyLimiter(4, 100, 1e6), 0.0
        loop = asyncio.get_running_loop()
        over = False

        async def flood() -> None:
            while not over:
                flow = await gate.wait("acme", 1.0)
                await asyncio.sleep(0.01)
                flow.leave()

        floods = [loop.create_task(flood()) for _ in range(50)]
        for _ in range(200):
            await asyncio.sleep(0.0137)
            asked = loop.time()
            flow = await gate.wait("globex", 1.0)
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
        gate = ConcurrencyLimiter(10, 100, 1.0)
        flows = [await gate.wait("acme", 1.0) for _ in range(5)]
        flows.append(await gate.wait("globex", 1.0))
        flows += [await gate.wait("acme", 1.0) for _ in range(4)]
        waiting = [asyncio.get_running_loop().create_task(gate.wait("acme", 1.0)) for _ in range(10)]
        await asyncio.sleep(0)
        # The other one has a place and wants none: nobody else is there to have it.
        flows[5].leave()
        await asyncio.sleep(0)
        held = gate.flows["acme"].held
        for flow in flows[:5] + flows[6:]:
            flow.leave()
        for call in waiting:
            (await call).leave()
        return held

    assert run(main()) == 10


def test_who_was_passed_over_makes_nothing_up() -> None:
    slow = True

    def lasting(chance: random.Random, tenant: int) -> float:
        return 3.0 if tenant == 0 and slow else 0.01

    gate = ConcurrencyLimiter(4, 100, 1e6)
    served(gate, [1.0, 1.0], [20, 20], lasting)
    slow = False
    counts = served(gate, [1.0, 1.0], [20, 20], lasting)
    assert by_weight(counts, [1.0, 1.0], 0.1), counts


def test_the_first_call_after_being_passed_over_is_one_call_like_any_other() -> None:
    async def main() -> list[str]:
        gate, order = ConcurrencyLimiter(8, 100, 1.0), list[str]()
        loop = asyncio.get_running_loop()
        hangs = [await gate.wait("acme", 1.0) for _ in range(6)]
        quick = [await gate.wait("globex", 1.0) for _ in range(2)]

        async def call(tenant: str) -> None:
            await gate.wait(tenant, 1.0)
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
    gate = ConcurrencyLimiter(3, 100, 1e6)
    served(gate, [1.0, 1.0], [20, 20], alike)
    counts = served(gate, [3.0, 1.0], [20, 20], alike)
    assert by_weight(counts, [3.0, 1.0], 0.1), counts
