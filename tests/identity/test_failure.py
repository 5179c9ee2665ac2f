"""Failures of an address: counted up to a rate, forgiven with time, forgotten within a bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity.failure import Failures, network_of

HERE, THERE = "192.0.2.1", "192.0.2.2"


def fail(failures: Failures, address: str, now: float, times: int) -> None:
    for _ in range(times):
        assert failures.delay(address, now) == 0.0
        failures.add(address, now)


@pytest.mark.parametrize("count", [1, 3, 7, 600, 9999])
def test_as_many_as_a_period_allows_may_fail_at_once(count: int) -> None:
    failures = Failures((float(count), 60.0), 10)
    fail(failures, HERE, 1000.0, count)
    assert 0 < failures.delay(HERE, 1000.0) <= 60.0 / count * 1.01


def test_time_gives_failures_back_one_by_one() -> None:
    failures = Failures((600.0, 60.0), 10)
    fail(failures, HERE, 0.0, 600)
    assert failures.delay(HERE, 0.0) == pytest.approx(0.1)
    fail(failures, HERE, 0.101, 1)
    assert failures.delay(HERE, 0.101) > 0
    fail(failures, HERE, 5.0, 48)
    fail(failures, HERE, 5000.0, 600)
    assert failures.delay(HERE, 5000.0) > 0


def test_one_address_does_not_answer_for_another() -> None:
    failures = Failures((2.0, 60.0), 10)
    fail(failures, HERE, 0.0, 2)
    assert failures.delay(HERE, 0.0) > 0
    assert failures.delay(THERE, 0.0) == 0.0


def test_what_is_remembered_is_bounded_and_the_quietest_goes_first() -> None:
    failures = Failures((1.0, 60.0), 2)
    fail(failures, HERE, 0.0, 1)
    fail(failures, THERE, 0.0, 1)
    # Who goes on trying is not quiet.
    assert failures.delay(HERE, 1.0) > 0
    fail(failures, "192.0.2.3", 1.0, 1)
    assert len(failures) == 2
    assert failures.delay(HERE, 1.0) > 0
    assert failures.delay(THERE, 1.0) == 0.0


def test_a_clock_that_stands_still_or_goes_back_forgives_nothing() -> None:
    failures = Failures((3.0, 60.0), 2)
    fail(failures, HERE, 100.0, 3)
    for now in (100.0, 99.0, 0.0):
        assert failures.delay(HERE, now) > 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8::1", "2001:db8:0:0:ffff::9"),
        ("2001:DB8:0::1", "2001:db8::2"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::FFFF:c000:0201", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::2%eth1"),
    ],
)
def test_these_are_one_neighbour(one: str, other: str) -> None:
    assert network_of(one) == network_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("192.0.2.1", "192.0.2.2"),
        ("2001:db8::1", "2001:db8:0:1::1"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2"),
        ("::ffff:192.0.2.1", "::1"),
        ("", "192.0.2.1"),
        ("not:an:address", "::1"),
    ],
)
def test_these_are_two_neighbours(one: str, other: str) -> None:
    assert network_of(one) != network_of(other)


@given(
    st.integers(1, 20),
    st.integers(1, 20),
    st.lists(st.integers(0, 8).map(lambda eighths: eighths / 8), max_size=200),
)
def test_a_bucket_never_gives_more_than_its_burst_and_what_time_brought(
    count: int, period: int, pauses: list[float]
) -> None:
    failures = Failures((float(count), float(period)), 10)
    now, looked_at = 0.0, 0
    for pause in pauses:
        now += pause
        if failures.delay(HERE, now) == 0.0:
            failures.add(HERE, now)
            looked_at += 1
    # A millisecond of rounding is forgiven.
    assert looked_at <= count + (now + 0.001) * count / period
