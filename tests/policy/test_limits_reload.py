"""Limits that change while calls are under way: new figures at once, nothing dropped, nothing forgotten."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import ConcurrencyLimited, RateLimited, StreamsLimited
from gateway.policy.limits import LimiterState, Limits, OverRate, Permit, Quota
from tests.policy.admission import standing
from tests.policy.simulated import now, run, settle
from tests.table import for_each

ACME, CRM = "acme", "crm"


def made(tenants: dict[str, Quota], agents: dict[str, Quota] | None = None) -> Limits:
    limits = Limits(clock=lambda: 0.0)
    limits.configure(tenants, agents or {})
    return limits


def passing(limits: Limits, tenant: str = ACME, at: float = 0.0) -> int:
    """How many requests pass at once."""
    passed = 0
    while True:
        try:
            assert standing(limits, tenant, at) is not None
        except OverRate:
            return passed
        passed += 1


def admitted(limits: Limits, tenant: str = ACME, *, stream: bool = False) -> Permit:
    permit = limits.admit(tenant, CRM, stream=stream, now=0.0)
    assert isinstance(permit, Permit)
    return permit


def waiting(limits: Limits, tenant: str = ACME) -> "asyncio.Task[Permit]":
    permit = limits.admit(tenant, CRM, stream=False, now=now())
    return asyncio.get_running_loop().create_task(cast("Coroutine[Any, Any, Permit]", permit))


def test_a_reload_that_changes_nothing_gives_nobody_a_new_burst() -> None:
    limits = made({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(5.0, 60.0))})
    assert (passing(limits), passing(limits, "globex")) == (10, 5)
    for _ in range(10):
        limits.configure({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(5.0, 60.0))}, {})
        assert (passing(limits), passing(limits, "globex")) == (0, 0)


def test_new_rates_hold_at_once() -> None:
    limits = made({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(5.0, 60.0))})
    assert (passing(limits), passing(limits, "globex")) == (10, 5)
    limits.configure({ACME: Quota(requests=(600.0, 60.0)), "*": Quota(requests=(60.0, 60.0))}, {})
    assert (passing(limits), passing(limits, "globex")) == (590, 55)
    assert (passing(limits, at=1.0), passing(limits, "globex", 1.0)) == (10, 1)


def test_what_was_spent_under_the_common_limit_is_spent_under_ones_own_and_back() -> None:
    common = Quota(requests=(10.0, 60.0))
    limits = made({"*": common})
    assert passing(limits) == 10
    limits.configure({"*": common, ACME: Quota(requests=(12.0, 60.0))}, {})
    assert passing(limits) == 2
    limits.configure({"*": common}, {})
    assert passing(limits) == 0
    limits.configure({"*": Quota(requests=(11.0, 60.0))}, {})
    assert passing(limits) == 1


def test_the_name_in_counts_is_that_of_the_file_as_it_is_now() -> None:
    hits: list[tuple[str, str, str]] = []
    limits = Limits(clock=lambda: 0.0, on_hit=lambda *hit: hits.append(hit))
    quota = Quota(requests=(1.0, 60.0))
    for tenants in ({"*": quota}, {"*": quota, ACME: quota}, {"*": quota}):
        limits.configure(tenants, {})
        passing(limits)
    assert [name for _, _, name in hits] == ["other", ACME, "other"]


def test_calls_under_way_count_under_new_figures() -> None:
    limits = made({ACME: Quota(concurrency=2, queue=0, streams=2)}, {CRM: Quota(concurrency=2, queue=0)})
    permits = [admitted(limits, stream=True), admitted(limits, stream=True)]
    limits.configure({ACME: Quota(concurrency=3, queue=0, streams=3)}, {CRM: Quota(concurrency=3, queue=0)})
    permits.append(admitted(limits, stream=True))
    limits.configure({ACME: Quota(concurrency=1, queue=0, streams=9)}, {})
    for permit in permits:
        with pytest.raises(ConcurrencyLimited):
            limits.admit(ACME, CRM, stream=True, now=0.0)
        permit.release()
    limits.configure({ACME: Quota(streams=1)}, {})
    permit = admitted(limits, stream=True)
    with pytest.raises(StreamsLimited):
        limits.admit(ACME, CRM, stream=True, now=0.0)
    permit.release()


@for_each(
    ("tenants", "agents"),
    [
        ({ACME: Quota(concurrency=5)}, {CRM: Quota(concurrency=5)}),
        ({ACME: Quota()}, {CRM: Quota()}),
        ({}, {}),
        ({"*": Quota(concurrency=5)}, {}),
    ],
)
def test_who_waits_is_let_in_as_soon_as_it_may_be(tenants: dict[str, Quota], agents: dict[str, Quota]) -> None:
    async def main() -> None:
        limits = Limits(clock=now)
        limits.configure({ACME: Quota(concurrency=2)}, {CRM: Quota(concurrency=1)})
        first = admitted(limits)
        at_the_agents, at_the_tenants = waiting(limits), waiting(limits)
        await settle()
        limits.configure(tenants, agents)
        await settle()
        for call in (at_the_agents, at_the_tenants):
            call.result().release()
        first.release()
        assert now() == 0.0
        for account in (*limits.tenants.values(), *limits.unnamed_tenants.values(), *limits.agents.values()):
            assert account.idle

    run(main())


def test_permits_of_a_limit_that_is_gone_are_given_back_in_peace() -> None:
    limits = made({ACME: Quota(concurrency=1, queue=0)}, {CRM: Quota(concurrency=1, queue=0)})
    permit = admitted(limits)
    limits.configure({}, {})
    assert limits.admit(ACME, CRM, stream=False, now=0.0) is None
    limits.configure({ACME: Quota(concurrency=1, queue=0)}, {})
    # Those that were counted by what was forgotten are not counted by what is new.
    other = admitted(limits)
    permit.release()
    with pytest.raises(ConcurrencyLimited):
        limits.admit(ACME, CRM, stream=False, now=0.0)
    other.release()
    admitted(limits).release()


def test_a_new_number_of_processes_is_a_new_share() -> None:
    limits = made({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(10.0, 60.0))})
    limits.configure({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(10.0, 60.0))}, {}, replicas=2)
    assert (passing(limits), passing(limits, "globex")) == (5, 5)
    limits.configure({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(10.0, 60.0))}, {})
    assert (passing(limits), passing(limits, "globex")) == (5, 5)


quotas = st.builds(
    Quota,
    requests=st.one_of(st.none(), st.just((1000.0, 60.0))),
    concurrency=st.one_of(st.none(), st.integers(1, 4)),
    queue=st.integers(0, 4),
    streams=st.one_of(st.none(), st.integers(1, 4)),
    bandwidth=st.one_of(st.none(), st.just(1e9)),
    weight=st.sampled_from([0.5, 1.0, 4.0]),
)
worlds = st.tuples(
    st.dictionaries(st.sampled_from(["*", "acme", "globex"]), quotas, max_size=3),
    st.dictionaries(st.sampled_from(["crm", "erp"]), quotas, max_size=2),
)


async def served(limits: Limits, tenant: str, agent: str, chance: Random) -> None:
    """One call, from its arrival to its end."""
    stream = chance.random() < 0.5
    try:
        await limits.arrive(tenant, now())
        permit = limits.admit(tenant, agent, stream=stream, now=now())
        if permit is not None and not isinstance(permit, Permit):
            permit = await permit
    except RateLimited:
        return
    try:
        await asyncio.sleep(chance.random())
        if permit is not None and stream:
            permit.streaming()
            await asyncio.sleep(chance.random())
        limits.spend(tenant, agent, 10, now())
    finally:
        if permit is not None:
            permit.release()


@given(worlds=st.lists(worlds, min_size=1, max_size=6), seed=st.integers(0, 2**32))
def test_after_any_reloads_under_load_nothing_is_held_and_nobody_waits(worlds: list[Any], seed: int) -> None:
    chance = Random(seed)

    async def main() -> None:
        limits = Limits(clock=now, most_unnamed=3)
        accounts, calls = set[LimiterState](), list[asyncio.Task[None]]()
        for tenants, agents in worlds:
            limits.configure(tenants, agents)
            for _ in range(12):
                tenant, agent = chance.choice(["acme", "globex", "initech"]), chance.choice(["crm", "erp", "hr"])
                calls.append(asyncio.get_running_loop().create_task(served(limits, tenant, agent, chance)))
                await asyncio.sleep(chance.random() * 0.2)
                if chance.random() < 0.1:
                    chance.choice(calls).cancel()
                accounts |= {*limits.tenants.values(), *limits.unnamed_tenants.values(), *limits.agents.values()}
        await asyncio.wait(calls)
        assert all(call.cancelled() or call.exception() is None for call in calls)
        assert all(account.idle for account in accounts)

    run(main())
