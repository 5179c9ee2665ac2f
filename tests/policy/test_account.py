"""What one tenant or one agent may have, as it is compiled from its quota."""

import math

import pytest

from gateway.policy.account import Account, Quota


def account(quota: Quota, replicas: int = 1) -> Account:
    made = Account("tenant", "acme")
    made.change(quota, replicas, 0.0)
    return made


def at_once(made: Account, now: float = 0.0) -> int:
    assert made.requests is not None
    taken = 0
    while made.requests.take(now) == 0.0:
        taken += 1
    return taken


def places(made: Account) -> int:
    taken = 0
    while made.gate is not None and made.gate.enter("", 1.0) is not None:
        taken += 1
    return taken


def test_nothing_is_limited_unless_it_is_written() -> None:
    made = account(Quota())
    assert (made.requests, made.bandwidth, made.gate) == (None, None, None)
    assert made.streams == made.body == math.inf
    assert not made.holds
    assert not made.busy
    assert made.idle


@pytest.mark.parametrize(
    ("quota", "burst"),
    [
        (Quota(requests=(600.0, 60.0)), 600),
        (Quota(requests=(60.0, 60.0)), 60),
        (Quota(requests=(50.0, 1.0), burst=200.0), 200),
        (Quota(requests=(50.0, 1.0), burst=5.0), 5),
        (Quota(requests=(0.5, 1.0)), 1),
        (Quota(requests=(50.0, 1.0), burst=0.0), 1),
    ],
)
def test_the_burst_is_one_period_unless_it_is_written_and_never_less_than_one_request(quota: Quota, burst: int) -> None:
    assert at_once(account(quota)) == burst


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        ((600.0, 60.0), (600, 60)),
        ((50.0, 1.0), (50, 1)),
        ((1000.0, 3600.0), (1000, 3600)),
        # Not less than one request in not less than one second.
        ((5.0, 0.5), (10, 1)),
        ((1.0, 2.5), (1, 3)),
        ((0.5, 1.0), (1, 2)),
    ],
)
def test_a_rate_is_told_in_whole_numbers(requests: tuple[float, float], told: tuple[int, int]) -> None:
    made = account(Quota(requests=requests))
    assert made.share == made.whole
    standing = made.standing(0.0, requests[0] / requests[1], made.whole)
    assert (standing.limit, standing.window) == told


def test_a_standing_counts_whole_requests_and_says_when_there_is_one_more() -> None:
    made = account(Quota(requests=(600.0, 60.0)))
    assert made.requests is not None
    made.requests.take(0.0)
    standing = made.standing(made.requests.left, made.requests.rate, made.share)
    assert (standing.limit, standing.window, standing.remaining) == (600, 60, 599)
    assert standing.reset == pytest.approx(0.1)
    standing = made.standing(2.25, 10.0, made.share)
    assert standing.remaining == 2
    assert standing.reset == pytest.approx(0.075)


@pytest.mark.parametrize(
    ("quota", "replicas", "requests", "calls", "streams"),
    [
        (Quota(requests=(600.0, 60.0), concurrency=64, streams=200), 4, 150, 16, 50),
        # Rounded up: together they give a little more, never less.
        (Quota(requests=(10.0, 60.0), concurrency=10, streams=10), 4, 3, 3, 3),
        (Quota(requests=(1.0, 60.0), concurrency=1, streams=1), 8, 1, 1, 1),
        (Quota(requests=(100.0, 1.0), burst=201.0, concurrency=3, streams=5), 2, 101, 2, 3),
    ],
)
def test_each_of_several_processes_gives_its_share_rounded_up(
    quota: Quota, replicas: int, requests: int, calls: int, streams: int
) -> None:
    made = account(quota, replicas)
    assert (at_once(made), places(made), made.streams) == (requests, calls, streams)
    # What Redis is asked for, and what is told then, is of all of them.
    assert quota.requests is not None
    assert made.standing(0.0, 1.0, made.whole).limit == quota.requests[0]
    assert made.share == (-(-quota.requests[0] // replicas), quota.requests[1])
    assert made.rate.per_second == quota.requests[0] / quota.requests[1]
    assert made.rate.burst == (quota.burst or quota.requests[0])


def test_a_body_is_not_shared_out_and_bandwidth_is() -> None:
    made = account(Quota(body=1000, bandwidth=1000.0), 4)
    assert made.body == 1000
    assert made.bandwidth is not None
    assert (made.bandwidth.rate, made.bandwidth.burst) == (250.0, 250.0)


def test_it_is_idle_while_it_holds_nothing() -> None:
    made = account(Quota(concurrency=2, streams=2))
    assert made.gate is not None
    assert made.holds
    flow = made.gate.enter("", 1.0)
    assert flow is not None
    assert not made.idle
    assert not made.busy
    assert made.gate.enter("", 1.0) is flow
    assert made.busy
    flow.leave()
    flow.leave()
    assert made.idle
    made.open += 1
    assert not made.idle


def test_other_figures_keep_what_was_spent_and_what_is_held() -> None:
    made = account(Quota(requests=(10.0, 60.0), concurrency=2, bandwidth=100.0))
    assert at_once(made) == 10
    assert made.bandwidth is not None
    made.bandwidth.charge(300, 0.0)
    assert places(made) == 2
    made.change(Quota(requests=(15.0, 60.0), concurrency=3, bandwidth=200.0), 1, 0.0)
    assert at_once(made) == 5
    assert made.bandwidth.debt(0.0) == pytest.approx(0.5)
    assert places(made) == 1


def test_what_is_not_limited_any_more_is_forgotten() -> None:
    made = account(Quota(requests=(10.0, 60.0), concurrency=2, streams=3, body=5, bandwidth=100.0, weight=2.0))
    gate = made.gate
    assert gate is not None
    assert places(made) == 2
    made.change(Quota(), 1, 0.0)
    assert (made.requests, made.bandwidth, made.gate) == (None, None, None)
    assert (made.streams, made.body, made.weight, made.holds) == (math.inf, math.inf, 1.0, False)
    assert gate.limit == math.inf
