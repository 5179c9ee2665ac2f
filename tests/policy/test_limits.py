"""The limits along the line: what is charged when, what is refused how, and who is told of it."""

import asyncio
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import BodyTooLarge, ConcurrencyLimited, RateLimited, StreamsLimited
from gateway.policy.limits import LimiterState, OverRate, Quota, QuotaEnforcer, RateLimitState, ratelimit_headers
from tests.policy.admission import ACME, CRM, ERP, GLOBEX, admitted, at_once, limits, rate_state, refusal, waiting
from tests.policy.simulated import now, run, settle
from tests.table import for_each

# ---- Requests of a tenant --------------------------------------------------------------------------------------------


def test_an_unlimited_tenant_gets_no_rate_limit_state() -> None:
    made, _ = limits({ACME: Quota(concurrency=1)})
    assert rate_state(made, ACME) is None
    assert rate_state(made, GLOBEX) is None
    assert at_once(made.admit(GLOBEX, CRM, stream=True, now=0.0)) is None


def test_each_request_is_charged_once_and_the_tenant_told_how_it_stands() -> None:
    made, hits = limits({ACME: Quota(requests=(3.0, 60.0))})
    assert [rate_state(made, ACME) for _ in range(3)] == [RateLimitState(3, 60, left, 20.0) for left in (2, 1, 0)]
    with pytest.raises(OverRate) as refused:
        rate_state(made, ACME, 5.0)
    assert refused.value.retry_after == 15.0
    assert refused.value.state == RateLimitState(3, 60, 0, 15.0)
    assert refused.value.reason == "rate_limited"
    assert refused.value.message == "more requests than the 3 in 60 s that are allowed"
    assert hits == [("requests", "tenant", ACME)]
    assert rate_state(made, ACME, 20.0) == RateLimitState(3, 60, 0, 20.0)


@for_each(
    ("quota", "replicas", "told", "burst"),
    [
        # The burst is one period unless it is written, and never less than one request.
        (Quota(requests=(600.0, 60.0)), 1, (600, 60), 600),
        (Quota(requests=(50.0, 1.0), burst=200.0), 1, (50, 1), 200),
        (Quota(requests=(50.0, 1.0), burst=5.0), 1, (50, 1), 5),
        (Quota(requests=(50.0, 1.0), burst=0.0), 1, (50, 1), 1),
        # Headers tell whole numbers: not less than one request in not less than one second.
        (Quota(requests=(5.0, 0.5)), 1, (10, 1), 5),
        (Quota(requests=(1.0, 2.5)), 1, (1, 3), 1),
        (Quota(requests=(0.5, 1.0)), 1, (1, 2), 1),
        # Shares of several processes are rounded up: together they give a little more, never less.
        (Quota(requests=(600.0, 60.0)), 4, (150, 60), 150),
        (Quota(requests=(10.0, 60.0)), 4, (3, 60), 3),
        (Quota(requests=(1.0, 60.0)), 8, (1, 60), 1),
        (Quota(requests=(100.0, 1.0), burst=201.0), 2, (50, 1), 101),
    ],
)
def test_a_rate_is_told_and_given(quota: Quota, replicas: int, told: tuple[int, int], burst: int) -> None:
    made, _ = limits({ACME: quota}, replicas=replicas)
    for left in range(burst - 1, -1, -1):
        found = rate_state(made, ACME)
        assert found is not None
        assert (found.limit, found.window, found.remaining) == (*told, left)
    with pytest.raises(OverRate):
        rate_state(made, ACME)


RATE = re.compile(rb'"requests";q=\d{1,15};w=[1-9]\d{0,14}')
LEFT = re.compile(rb'"requests";r=\d{1,15};t=\d{1,15}')


@for_each(
    ("rate_state", "policy", "limit"),
    [
        (RateLimitState(600, 60, 599, 0.1), b"q=600;w=60", b"r=599;t=1"),
        # Whole seconds, never too few; a hair above one is that one.
        *((RateLimitState(1, 3600, 0, reset), b"q=1;w=3600", b"r=0;t=%d" % told) for reset, told in (
            (0.0, 0), (0.001, 1), (1.0, 1), (1.0000000001, 1), (1.01, 2), (59.999, 60), (3600.0, 3600)
        )),
        (RateLimitState(999_999_999, 1, 10**9, 0.0), b"q=999999999;w=1", b"r=1000000000;t=0"),
    ],
)  # fmt: skip
def test_a_policy_and_a_limit_are_told_as_structured_fields(
    rate_state: RateLimitState, policy: bytes, limit: bytes
) -> None:
    told = dict(ratelimit_headers(rate_state))
    assert told == {b"ratelimit-policy": b'"requests";' + policy, b"ratelimit": b'"requests";' + limit}
    # RFC 9651 §4.1: a string, then parameters that are integers.
    assert RATE.fullmatch(told[b"ratelimit-policy"])
    assert LEFT.fullmatch(told[b"ratelimit"])


def test_one_tenants_requests_are_not_anothers() -> None:
    made, _ = limits({ACME: Quota(requests=(1.0, 60.0)), GLOBEX: Quota(requests=(1.0, 60.0))})
    rate_state(made, ACME)
    assert rate_state(made, GLOBEX) is not None


def test_unnamed_tenants_have_own_limits_and_count_as_other() -> None:
    made, hits = limits({"*": Quota(requests=(1.0, 60.0), concurrency=1, queue=0), ACME: Quota()})
    for tenant in ("globex", "initech"):
        assert rate_state(made, tenant) == RateLimitState(1, 60, 0, 60.0)
        permit = admitted(made, tenant)
        with pytest.raises(OverRate):
            rate_state(made, tenant, 0.0)
        with pytest.raises(ConcurrencyLimited):
            at_once(made.admit(tenant, CRM, stream=False, now=0.0))
        permit.release()
    assert hits == [("requests", "tenant", "other"), ("concurrency", "tenant", "other")] * 2
    assert rate_state(made, ACME) is None


def test_unnamed_tenants_are_forgotten_least_recently_active_first() -> None:
    made, _ = limits({"*": Quota(requests=(1.0, 60.0))}, most_unnamed=2)
    rate_state(made, "first")
    rate_state(made, "second")
    for tenant in ("second", "first"):
        with pytest.raises(OverRate):
            rate_state(made, tenant, 0.0)
    rate_state(made, "third")
    with pytest.raises(OverRate):
        rate_state(made, "first", 0.0)
    assert rate_state(made, "second") is not None
    assert len(made.unnamed_tenants) == 2


def test_tenants_with_running_calls_are_not_forgotten() -> None:
    made, _ = limits({"*": Quota(concurrency=1, queue=0)}, most_unnamed=2)
    permits = [admitted(made, f"tenant-{number}") for number in range(30)]
    for number in range(30):
        with pytest.raises(ConcurrencyLimited):
            at_once(made.admit(f"tenant-{number}", CRM, stream=False, now=0.0))
    for permit in permits:
        permit.release()
    for number in range(30):
        admitted(made, f"later-{number}").release()
    # As many at most as there were at a time.
    assert len(made.unnamed_tenants) == 30


# ---- Requests of an agent --------------------------------------------------------------------------------------------


def test_an_agents_requests_are_those_of_all_tenants() -> None:
    made, hits = limits({}, {CRM: Quota(requests=(2.0, 60.0))})
    assert at_once(made.admit(ACME, CRM, stream=False, now=0.0)) is None
    assert at_once(made.admit(GLOBEX, CRM, stream=False, now=0.0)) is None
    with pytest.raises(RateLimited) as refused:
        at_once(made.admit(ACME, CRM, stream=False, now=0.0))
    assert refused.value.retry_after == pytest.approx(30.0)
    # One tenant does not learn the number of calls.
    assert not any(letter.isdigit() for letter in refused.value.message)
    assert hits == [("requests", "agent", CRM)]
    assert at_once(made.admit(ACME, ERP, stream=False, now=0.0)) is None
    assert at_once(made.admit(ACME, CRM, stream=False, now=30.0)) is None


def test_a_refused_call_costs_the_agent_nothing() -> None:
    made, _ = limits({ACME: Quota(streams=0)}, {CRM: Quota(requests=(1.0, 60.0), concurrency=1, queue=0)})
    with pytest.raises(StreamsLimited):
        at_once(made.admit(ACME, CRM, stream=True, now=0.0))
    permit = admitted(made, GLOBEX)
    with pytest.raises(RateLimited):
        at_once(made.admit(GLOBEX, CRM, stream=False, now=0.0))
    with pytest.raises(ConcurrencyLimited):
        at_once(made.admit(GLOBEX, CRM, stream=False, now=60.0))
    permit.release()
    admitted(made, GLOBEX, at=60.0).release()


def test_a_waiting_call_is_charged_when_admitted_and_not_when_it_leaves() -> None:
    async def main() -> None:
        made, _ = limits({}, {CRM: Quota(requests=(3.0, 60.0), concurrency=1)}, clock=now)
        first = admitted(made)
        left, second, third = waiting(made), waiting(made), waiting(made)
        await settle()
        left.cancel()
        await settle()
        first.release()
        (await second).release()
        (await third).release()
        with pytest.raises(RateLimited):
            at_once(made.admit(ACME, CRM, stream=False, now=now()))

    run(main())


def test_a_call_without_agent_quota_gives_its_place_to_the_next() -> None:
    async def main() -> None:
        made, hits = limits({}, {CRM: Quota(requests=(2.0, 60.0), concurrency=1)}, clock=now)
        first = admitted(made)
        second, third = waiting(made), waiting(made)
        await settle()
        first.release()
        (await second).release()
        await settle()
        assert refusal(third).retry_after == pytest.approx(30.0)
        assert hits == [("requests", "agent", CRM)]
        await asyncio.sleep(30.1)
        admitted(made, at=now()).release()

    run(main())


# ---- Places ----------------------------------------------------------------------------------------------------------


def test_a_call_has_a_place_of_its_tenant_and_of_its_agent_until_it_is_over() -> None:
    made, hits = limits({ACME: Quota(concurrency=2, queue=0)}, {CRM: Quota(concurrency=1, queue=0)})
    permit = admitted(made)
    with pytest.raises(ConcurrencyLimited):
        at_once(made.admit(ACME, CRM, stream=False, now=0.0))
    other = admitted(made, ACME, ERP)
    with pytest.raises(ConcurrencyLimited) as refused:
        at_once(made.admit(ACME, ERP, stream=False, now=0.0))
    assert hits == [("concurrency", "agent", CRM), ("concurrency", "tenant", ACME)]
    assert refused.value.retry_after == 1.0
    assert refused.value.reason == "concurrency_limited"
    for ended in (permit, other):
        ended.release()
    admitted(made).release()


def test_a_permit_is_given_back_once_however_often_it_is_said() -> None:
    made, _ = limits({ACME: Quota(concurrency=1, queue=0, streams=1)})
    permit = admitted(made, stream=True)
    permit.release()
    permit.release()
    permit = admitted(made, stream=True)
    with pytest.raises(StreamsLimited):
        at_once(made.admit(ACME, CRM, stream=True, now=0.0))
    permit.streaming()
    permit.streaming()
    second = admitted(made)
    with pytest.raises(ConcurrencyLimited):
        at_once(made.admit(ACME, CRM, stream=False, now=0.0))
    permit.release()
    permit.release()
    second.release()
    admitted(made, stream=True).release()


def test_a_call_waits_for_a_place_of_its_tenant_then_for_one_of_the_agent() -> None:
    async def main() -> None:
        made, _ = limits({ACME: Quota(concurrency=1)}, {CRM: Quota(concurrency=1)}, clock=now)
        first = admitted(made, ACME, ERP)
        busy = admitted(made, GLOBEX)
        call = waiting(made)
        await settle()
        # It keeps no place of the agent from others while it waits for its tenant's.
        busy.release()
        busy = admitted(made, GLOBEX)
        first.release()
        await settle()
        assert not call.done()
        # Now it has its tenant's.
        with_it = waiting(made, ACME, ERP)
        await settle()
        busy.release()
        (await call).release()
        (await with_it).release()
        assert made.tenants[ACME].idle
        assert made.agents[CRM].idle

    run(main())


def test_a_call_whose_queue_time_is_over_is_refused_with_retry_after() -> None:
    async def main() -> None:
        made, hits = limits({ACME: Quota(concurrency=1, queue_timeout=2.5)}, clock=now)
        permit = admitted(made)
        call = waiting(made)
        await asyncio.wait([call])
        assert now() == 2.5
        fault = refusal(call)
        assert isinstance(fault, ConcurrencyLimited)
        assert fault.retry_after == 3.0
        assert "2.5 s" in fault.detail
        assert "2.5" not in fault.message
        assert hits == [("concurrency", "tenant", ACME)]
        permit.release()
        assert made.tenants[ACME].idle

    run(main())


def test_a_call_refused_by_the_agent_limit_frees_its_tenants_place() -> None:
    async def main() -> None:
        made, hits = limits({ACME: Quota(concurrency=1)}, {CRM: Quota(concurrency=1)}, clock=now)
        permit = admitted(made, GLOBEX)
        call = waiting(made)
        await asyncio.wait([call])
        assert isinstance(refusal(call), ConcurrencyLimited)
        assert hits == [("concurrency", "agent", CRM)]
        assert made.tenants[ACME].idle
        permit.release()
        assert made.agents[CRM].idle

    run(main())


@for_each("before", range(4))
@for_each("after", range(4))
def test_a_call_can_be_cancelled_at_any_turn_of_the_loop(before: int, after: int) -> None:
    async def main() -> None:
        made, _ = limits(
            {ACME: Quota(concurrency=1, streams=9)}, {CRM: Quota(concurrency=1, requests=(9.0, 3600.0))}, clock=now
        )
        first = admitted(made)
        call = waiting(made, stream=True)
        for _ in range(before):
            await asyncio.sleep(0)
        first.release()
        for _ in range(after):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        if not call.cancelled():
            call.result().release()
        assert made.tenants[ACME].idle
        assert made.agents[CRM].idle
        assert made.tenants[ACME].open == 0

    run(main())


def test_tenants_that_wait_for_one_agent_are_served_by_their_weights() -> None:
    weights = {f"tenant-{number}": float(number % 4 + 1) for number in range(8)}

    async def main() -> dict[str, int]:
        tenants = {name: Quota(weight=weight) for name, weight in weights.items()}
        made, _ = limits(tenants, {CRM: Quota(concurrency=10, queue=400, queue_timeout=1e6)}, clock=now)
        counts = dict.fromkeys(weights, 0)
        total = 0

        async def client(tenant: str) -> None:
            nonlocal total
            while total < 3000:
                permit = await made.admit(tenant, CRM, stream=False, now=now())
                assert permit is not None
                await asyncio.sleep(0.01)
                if 500 <= total < 3000:
                    counts[tenant] += 1
                total += 1
                permit.release()

        # One of them tries ten times as hard.
        clients = [tenant for tenant in weights for _ in range(150 if tenant == "tenant-0" else 15)]
        await asyncio.gather(*(client(tenant) for tenant in clients))
        return counts

    counts = run(main())
    for tenant, count in counts.items():
        assert count / 2500 * sum(weights.values()) / weights[tenant] == pytest.approx(1.0, abs=0.1), counts


# ---- Shares ----------------------------------------------------------------------------------------------------------


def test_each_of_several_processes_enforces_its_share() -> None:
    made, _ = limits({ACME: Quota(requests=(5.0, 60.0), concurrency=4, queue=0, streams=2)}, {}, replicas=2)
    # Told is what it is held to here, rather than what it might have elsewhere.
    assert [rate_state(made, ACME) for _ in range(3)] == [RateLimitState(3, 60, left, 20.0) for left in (2, 1, 0)]
    with pytest.raises(OverRate, match="the 3 in 60 s") as refused:
        rate_state(made, ACME, 0.0)
    assert refused.value.state == RateLimitState(3, 60, 0, 20.0)
    permits = [admitted(made, stream=True), admitted(made)]
    with pytest.raises(ConcurrencyLimited):
        at_once(made.admit(ACME, CRM, stream=False, now=0.0))
    with pytest.raises(StreamsLimited):
        at_once(made.admit(ACME, CRM, stream=True, now=0.0))
    for permit in permits:
        permit.release()


# ---- Streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_that_has_begun_leaves_its_place_to_the_next_call() -> None:
    made, _ = limits({ACME: Quota(concurrency=1, queue=0)}, {CRM: Quota(concurrency=1, queue=0)})
    streams = []
    for _ in range(5):
        permit = admitted(made, stream=True)
        with pytest.raises(ConcurrencyLimited):
            at_once(made.admit(ACME, CRM, stream=True, now=0.0))
        permit.streaming()
        streams.append(permit)
    for permit in streams:
        permit.release()
    assert made.tenants[ACME].idle
    assert made.agents[CRM].idle


def test_as_many_streams_are_open_as_may_be_of_the_tenant_and_of_the_agent() -> None:
    made, hits = limits({ACME: Quota(streams=1)}, {CRM: Quota(streams=2)})
    first = admitted(made, stream=True)
    first.streaming()
    with pytest.raises(StreamsLimited) as refused:
        at_once(made.admit(ACME, ERP, stream=True, now=0.0))
    assert refused.value.retry_after == 5.0
    second = admitted(made, GLOBEX, stream=True)
    with pytest.raises(StreamsLimited):
        at_once(made.admit("initech", CRM, stream=True, now=0.0))
    assert hits == [("streams", "tenant", ACME), ("streams", "agent", CRM)]
    # Calls that are none are not meant.
    admitted(made).release()
    second.release()
    admitted(made, "initech", stream=True).release()
    first.release()
    admitted(made, stream=True).release()


def test_a_stream_counts_while_it_waits_for_its_place() -> None:
    async def main() -> None:
        made, _ = limits({ACME: Quota(concurrency=1, streams=1)}, clock=now)
        permit = admitted(made)
        call = waiting(made, stream=True)
        await settle()
        with pytest.raises(StreamsLimited):
            at_once(made.admit(ACME, CRM, stream=True, now=now()))
        permit.release()
        (await call).release()
        assert made.tenants[ACME].open == 0

    run(main())


def test_a_call_that_turns_out_to_be_a_stream_is_one_of_them() -> None:
    made, _ = limits({ACME: Quota(streams=1)})
    permits = [admitted(made), admitted(made)]
    for permit in permits:
        # It cannot be refused any more.
        permit.streaming()
    with pytest.raises(StreamsLimited):
        at_once(made.admit(ACME, CRM, stream=True, now=0.0))
    permits[0].release()
    with pytest.raises(StreamsLimited):
        at_once(made.admit(ACME, CRM, stream=True, now=0.0))
    permits[1].release()
    admitted(made, stream=True).release()


# ---- Bytes -----------------------------------------------------------------------------------------------------------


def test_a_body_is_as_long_as_the_tenant_and_the_agent_allow() -> None:
    made, hits = limits({ACME: Quota(body=1000)}, {CRM: Quota(body=500)})
    made.refuse_body(ACME, ERP, 1000)
    made.refuse_body(GLOBEX, ERP, 10**9)
    made.refuse_body(ACME, CRM, 500)
    with pytest.raises(BodyTooLarge, match="1000 bytes"):
        made.refuse_body(ACME, ERP, 1001)
    with pytest.raises(BodyTooLarge, match="500 bytes"):
        made.refuse_body(ACME, CRM, 501)
    assert hits == [("body", "tenant", ACME), ("body", "agent", CRM)]


def test_bandwidth_debt_delays_the_next_request() -> None:
    made, hits = limits({ACME: Quota(bandwidth=1000.0, requests=(10.0, 60.0))}, {CRM: Quota(bandwidth=500.0)})
    made.spend(ACME, CRM, 3000, 0.0)
    with pytest.raises(RateLimited) as refused:
        rate_state(made, ACME, 0.0)
    assert refused.value.retry_after == pytest.approx(2.0)
    with pytest.raises(RateLimited) as refused:
        at_once(made.admit(GLOBEX, CRM, stream=False, now=0.0))
    assert refused.value.retry_after == pytest.approx(5.0)
    assert hits == [("bandwidth", "tenant", ACME), ("bandwidth", "agent", CRM)]
    # None of its requests was charged.
    assert rate_state(made, ACME, 2.5) == RateLimitState(10, 60, 9, 6.0)
    assert at_once(made.admit(GLOBEX, CRM, stream=False, now=5.5)) is None


def test_unlimited_bandwidth_is_not_metered() -> None:
    made, _ = limits({ACME: Quota(concurrency=1), GLOBEX: Quota(bandwidth=1.0)}, {CRM: Quota(concurrency=1)})
    made.spend(ACME, CRM, 10**9, 0.0)
    assert rate_state(made, ACME) is None
    admitted(made).release()
    made.configure({ACME: Quota(requests=(1.0, 60.0))}, {})
    made.spend(GLOBEX, CRM, 10**9, 0.0)
    assert rate_state(made, GLOBEX) is None


# ---- Limits that change while calls are under way: new figures at once, nothing dropped, nothing forgotten -----------


def configured(tenants: dict[str, Quota], agents: dict[str, Quota] | None = None) -> QuotaEnforcer:
    limits = QuotaEnforcer(clock=lambda: 0.0)
    limits.configure(tenants, agents or {})
    return limits


def passing(limits: QuotaEnforcer, tenant: str = ACME, at: float = 0.0) -> int:
    """Return how many requests pass at once."""
    passed = 0
    while True:
        try:
            assert rate_state(limits, tenant, at) is not None
        except OverRate:
            return passed
        passed += 1


def test_a_reload_that_changes_nothing_gives_nobody_a_new_burst() -> None:
    limits = configured({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(5.0, 60.0))})
    assert (passing(limits), passing(limits, "globex")) == (10, 5)
    for _ in range(10):
        limits.configure({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(5.0, 60.0))}, {})
        assert (passing(limits), passing(limits, "globex")) == (0, 0)


def test_new_rates_hold_at_once() -> None:
    limits = configured({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(5.0, 60.0))})
    assert (passing(limits), passing(limits, "globex")) == (10, 5)
    limits.configure({ACME: Quota(requests=(600.0, 60.0)), "*": Quota(requests=(60.0, 60.0))}, {})
    assert (passing(limits), passing(limits, "globex")) == (590, 55)
    assert (passing(limits, at=1.0), passing(limits, "globex", 1.0)) == (10, 1)


def test_spent_quota_carries_over_between_common_and_own_limits() -> None:
    common = Quota(requests=(10.0, 60.0))
    limits = configured({"*": common})
    assert passing(limits) == 10
    limits.configure({"*": common, ACME: Quota(requests=(12.0, 60.0))}, {})
    assert passing(limits) == 2
    limits.configure({"*": common}, {})
    assert passing(limits) == 0
    limits.configure({"*": Quota(requests=(11.0, 60.0))}, {})
    assert passing(limits) == 1


def test_the_name_in_counts_is_that_of_the_file_as_it_is_now() -> None:
    hits: list[tuple[str, str, str]] = []
    limits = QuotaEnforcer(clock=lambda: 0.0, on_hit=lambda *hit: hits.append(hit))
    quota = Quota(requests=(1.0, 60.0))
    for tenants in ({"*": quota}, {"*": quota, ACME: quota}, {"*": quota}):
        limits.configure(tenants, {})
        passing(limits)
    assert [name for _, _, name in hits] == ["other", ACME, "other"]


def test_calls_under_way_count_under_new_figures() -> None:
    limits = configured({ACME: Quota(concurrency=2, queue=0, streams=2)}, {CRM: Quota(concurrency=2, queue=0)})
    permits = [admitted(limits, stream=True), admitted(limits, stream=True)]
    limits.configure({ACME: Quota(concurrency=3, queue=0, streams=3)}, {CRM: Quota(concurrency=3, queue=0)})
    permits.append(admitted(limits, stream=True))
    limits.configure({ACME: Quota(concurrency=1, queue=0, streams=9)}, {})
    for permit in permits:
        with pytest.raises(ConcurrencyLimited):
            at_once(limits.admit(ACME, CRM, stream=True, now=0.0))
        permit.release()
    limits.configure({ACME: Quota(streams=1)}, {})
    permit = admitted(limits, stream=True)
    with pytest.raises(StreamsLimited):
        at_once(limits.admit(ACME, CRM, stream=True, now=0.0))
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
def test_waiting_calls_are_admitted_as_soon_as_limits_allow(
    tenants: dict[str, Quota], agents: dict[str, Quota]
) -> None:
    async def main() -> None:
        limits = QuotaEnforcer(clock=now)
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
        for state in (*limits.tenants.values(), *limits.unnamed_tenants.values(), *limits.agents.values()):
            assert state.idle

    run(main())


def test_permits_of_a_limit_that_is_gone_are_given_back_in_peace() -> None:
    limits = configured({ACME: Quota(concurrency=1, queue=0)}, {CRM: Quota(concurrency=1, queue=0)})
    permit = admitted(limits)
    limits.configure({}, {})
    assert at_once(limits.admit(ACME, CRM, stream=False, now=0.0)) is None
    limits.configure({ACME: Quota(concurrency=1, queue=0)}, {})
    # Those that were counted by what was forgotten are not counted by what is new.
    other = admitted(limits)
    permit.release()
    with pytest.raises(ConcurrencyLimited):
        at_once(limits.admit(ACME, CRM, stream=False, now=0.0))
    other.release()
    admitted(limits).release()


def test_a_new_number_of_processes_is_a_new_share() -> None:
    limits = configured({ACME: Quota(requests=(10.0, 60.0)), "*": Quota(requests=(10.0, 60.0))})
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


async def serve(limits: QuotaEnforcer, tenant: str, agent: str, chance: Random) -> None:
    """One call, from its arrival to its end."""
    stream = chance.random() < 0.5
    try:
        await limits.arrive(tenant, now())
        permit = await limits.admit(tenant, agent, stream=stream, now=now())
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
        limits = QuotaEnforcer(clock=now, most_unnamed=3)
        states, calls = set[LimiterState](), list[asyncio.Task[None]]()
        for tenants, agents in worlds:
            limits.configure(tenants, agents)
            for _ in range(12):
                tenant, agent = chance.choice(["acme", "globex", "initech"]), chance.choice(["crm", "erp", "hr"])
                calls.append(asyncio.get_running_loop().create_task(serve(limits, tenant, agent, chance)))
                await asyncio.sleep(chance.random() * 0.2)
                if chance.random() < 0.1:
                    chance.choice(calls).cancel()
                states |= {*limits.tenants.values(), *limits.unnamed_tenants.values(), *limits.agents.values()}
        await asyncio.wait(calls)
        assert all(call.cancelled() or call.exception() is None for call in calls)
        assert all(state.idle for state in states)

    run(main())
