"""Streams and bytes: what is counted while it lasts, and what is owed afterwards."""

import pytest

from gateway.a2a.fault import BodyTooLarge, ConcurrencyLimited, RateLimited, StreamsLimited
from gateway.policy.limits import Quota, RateLimitState
from tests.policy.admission import ACME, CRM, ERP, GLOBEX, admitted, limits, standing, waiting
from tests.policy.simulated import now, run, settle

# ---- Streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_that_has_begun_leaves_its_place_to_the_next_call() -> None:
    made, _ = limits({ACME: Quota(concurrency=1, queue=0)}, {CRM: Quota(concurrency=1, queue=0)})
    streams = []
    for _ in range(5):
        permit = admitted(made, stream=True)
        with pytest.raises(ConcurrencyLimited):
            made.admit(ACME, CRM, stream=True, now=0.0)
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
        made.admit(ACME, ERP, stream=True, now=0.0)
    assert refused.value.retry_after == 5.0
    second = admitted(made, GLOBEX, stream=True)
    with pytest.raises(StreamsLimited):
        made.admit("initech", CRM, stream=True, now=0.0)
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
            made.admit(ACME, CRM, stream=True, now=now())
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
        made.admit(ACME, CRM, stream=True, now=0.0)
    permits[0].release()
    with pytest.raises(StreamsLimited):
        made.admit(ACME, CRM, stream=True, now=0.0)
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


def test_what_was_moved_is_owed_before_the_next_request() -> None:
    made, hits = limits({ACME: Quota(bandwidth=1000.0, requests=(10.0, 60.0))}, {CRM: Quota(bandwidth=500.0)})
    made.spend(ACME, CRM, 3000, 0.0)
    with pytest.raises(RateLimited) as refused:
        standing(made, ACME, 0.0)
    assert refused.value.retry_after == pytest.approx(2.0)
    with pytest.raises(RateLimited) as refused:
        made.admit(GLOBEX, CRM, stream=False, now=0.0)
    assert refused.value.retry_after == pytest.approx(5.0)
    assert hits == [("bandwidth", "tenant", ACME), ("bandwidth", "agent", CRM)]
    # None of its requests was charged.
    assert standing(made, ACME, 2.5) == RateLimitState(10, 60, 9, 6.0)
    assert made.admit(GLOBEX, CRM, stream=False, now=5.5) is None


def test_what_is_not_limited_is_not_metered() -> None:
    made, _ = limits({ACME: Quota(concurrency=1), GLOBEX: Quota(bandwidth=1.0)}, {CRM: Quota(concurrency=1)})
    made.spend(ACME, CRM, 10**9, 0.0)
    assert standing(made, ACME) is None
    admitted(made).release()
    made.configure({ACME: Quota(requests=(1.0, 60.0))}, {})
    made.spend(GLOBEX, CRM, 10**9, 0.0)
    assert standing(made, GLOBEX) is None
