"""A token bucket: never more than burst + rate x t, whatever the clock and the operator do."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.token_bucket import Bucket
from tests.table import for_each

# Sums of floats in the test; the bucket's own tolerance is a millionth of a token.
_ROUNDING = 1e-4

starts = st.sampled_from([0.0, 17.3, 86_400.0, 3e7])
rates = st.floats(0.001, 1e4)
bursts = st.floats(1.0, 500.0)
takes = st.integers(1, 30)
pauses = st.one_of(st.just(0.0), st.floats(0.0, 0.01), st.floats(0.0, 1000.0), st.floats(-10.0, 0.0))
figures = st.tuples(rates, bursts)


def burst_of(bucket: Bucket, now: float) -> int:
    """How many can be had at once."""
    taken = 0
    while bucket.take(now) == 0.0:
        taken += 1
    return taken


# ---- Never more ------------------------------------------------------------------------------------------------------


@given(start=starts, first=figures, steps=st.lists(st.one_of(takes, pauses, figures), max_size=40))
def test_it_never_gives_more_than_its_burst_and_its_rate_times_the_time(
    start: float, first: tuple[float, float], steps: Sequence[int | float | tuple[float, float]]
) -> None:
    rate, burst = first
    bucket = Bucket(rate, burst)
    now = latest = start
    # A clock that goes back before it was ever looked at has not gone back.
    bucket.delay(now)
    # Of each instant so far, what may still be taken after it.
    allowed = [burst]
    for step in steps:
        change = 0.0
        if isinstance(step, int):
            change = -float(sum(bucket.take(now) == 0.0 for _ in range(step)))
        elif isinstance(step, tuple):
            bucket.change(*step, now)
            change = max(0.0, step[1] - burst)
            rate, burst = step
        else:
            now += step
            change = max(0.0, now - latest) * rate
            latest = max(latest, now)
        allowed = [each + change for each in allowed]
        assert min(allowed) >= -_ROUNDING
        allowed.append(burst)


@for_each(("count", "period"), [(1, 60), (3, 60), (7, 60), (50, 1), (600, 60), (9999, 3600)])
def test_a_full_one_gives_its_whole_burst_at_once_and_not_one_more(count: int, period: int) -> None:
    assert burst_of(Bucket(count / period, float(count)), 1e6) == count


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = Bucket(10.0, 5.0)
    assert burst_of(bucket, 100.0) == 5
    for now in (100.0, 99.0, 0.0, 100.0):
        assert bucket.take(now) > 0
    assert burst_of(bucket, 100.2) == 2


def test_a_bucket_fills_up_to_its_burst_and_no_further() -> None:
    bucket = Bucket(10.0, 5.0)
    burst_of(bucket, 0.0)
    assert burst_of(bucket, 0.35) == 3
    assert burst_of(bucket, 1e9) == 5


@for_each("start", [0.0, 1e5, 1e8])
def test_the_drift_of_a_million_requests_is_less_than_one(start: float) -> None:
    # A third of a second has no exact float, nor has the sum of so many.
    bucket, taken = Bucket(3.0, 7.0), 0
    for third in range(1_000_000):
        taken += bucket.take(start + third / 3.0) == 0.0
    assert taken == 1_000_000
    assert burst_of(bucket, start + 1_000_000 / 3.0) == 7


# ---- And no less -----------------------------------------------------------------------------------------------------


@given(start=starts, rate=st.floats(0.01, 1000.0), burst=bursts)
def test_whoever_comes_when_it_was_told_is_let_in(start: float, rate: float, burst: float) -> None:
    bucket = Bucket(rate, burst)
    burst_of(bucket, start)
    now = start
    for _ in range(20):
        delay = bucket.take(now)
        assert 0.0 < delay <= 1.0 / rate * 1.001
        assert bucket.delay(now) == pytest.approx(delay, abs=1e-9)
        # A clock that shows a month has no finer ticks than some nanoseconds.
        now += delay + 1e-8
        assert bucket.delay(now) == 0.0
        assert bucket.take(now) == 0.0


def test_what_is_left_is_known_after_each_question() -> None:
    bucket = Bucket(2.0, 3.0)
    assert bucket.left == 3.0
    bucket.take(0.0)
    assert bucket.left == 2.0
    bucket.take(0.25)
    assert bucket.left == 1.5
    bucket.take(0.25)
    assert bucket.take(0.25) == pytest.approx(0.25)
    assert bucket.left == 0.5


def test_one_that_was_had_elsewhere_is_spent_here_as_far_as_there_is_one() -> None:
    bucket = Bucket(1.0, 2.5)
    for _ in range(5):
        bucket.mirror(0.0)
    assert bucket.left == 0.0
    assert bucket.delay(0.0) == pytest.approx(1.0)


# ---- Debt ------------------------------------------------------------------------------------------------------------


def test_what_is_charged_beyond_the_burst_is_owed_and_time_pays_it() -> None:
    bucket = Bucket(100.0, 100.0)
    bucket.charge(60, 0.0)
    assert bucket.debt(0.0) == 0.0
    bucket.charge(540, 0.0)
    assert bucket.debt(0.0) == pytest.approx(5.0)
    assert bucket.debt(2.0) == pytest.approx(3.0)
    assert bucket.debt(5.0) == 0.0
    assert bucket.left == 0.0
    assert bucket.debt(5.5) == 0.0
    assert bucket.left == pytest.approx(50.0)


@given(
    rate=st.floats(1.0, 1e6),
    sizes=st.lists(st.tuples(st.floats(0.0, 10.0), st.integers(0, 10**7)), max_size=30),
)
def test_in_the_long_run_no_more_is_moved_than_the_rate_but_for_what_was_under_way(
    rate: float, sizes: list[tuple[float, int]]
) -> None:
    bucket, now, moved, last = Bucket(rate, rate), 0.0, 0, 0
    for pause, size in sizes:
        now += pause
        if bucket.debt(now) == 0.0:
            bucket.charge(size, now)
            moved, last = moved + size, size
    assert moved - last <= rate + rate * now + _ROUNDING * rate


# ---- New figures -----------------------------------------------------------------------------------------------------


def test_what_was_spent_stays_spent_under_new_figures() -> None:
    bucket = Bucket(10.0, 10.0)
    for _ in range(4):
        bucket.take(0.0)
    bucket.change(20.0, 15.0, 0.0)
    assert burst_of(bucket, 0.0) == 11
    assert bucket.take(0.0) == pytest.approx(0.05)


def test_a_greater_burst_gives_the_difference_at_once() -> None:
    bucket = Bucket(1.0, 2.0)
    burst_of(bucket, 0.0)
    bucket.change(100.0, 6.0, 0.0)
    assert burst_of(bucket, 0.0) == 4


def test_a_smaller_burst_makes_nobody_wait_longer_than_for_the_next_one() -> None:
    bucket = Bucket(10.0, 600.0)
    burst_of(bucket, 0.0)
    bucket.change(1.0, 60.0, 0.0)
    assert bucket.take(0.0) == pytest.approx(1.0)


def test_the_time_before_new_figures_counts_at_the_old_rate() -> None:
    bucket = Bucket(1.0, 100.0)
    burst_of(bucket, 0.0)
    bucket.change(50.0, 100.0, 10.0)
    assert burst_of(bucket, 10.0) == 10


def test_the_same_figures_again_and_again_change_nothing() -> None:
    bucket = Bucket(10.0, 600.0)
    taken, now = 0, 0.0
    for second in range(100):
        now = float(second)
        bucket.change(10.0, 600.0, now)
        taken += burst_of(bucket, now)
    assert taken == 600 + 99 * 10


def test_debt_stays_debt_under_new_figures() -> None:
    bucket = Bucket(10.0, 10.0)
    bucket.charge(110, 0.0)
    bucket.change(50.0, 50.0, 0.0)
    assert bucket.debt(0.0) == pytest.approx(1.2)
    bucket.change(5.0, 5.0, 0.0)
    assert bucket.debt(0.0) == pytest.approx(12.0)
