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
    """Return how many tokens can be taken at once."""
    taken = 0
    while bucket.take(now) == 0.0:
        taken += 1
    return taken


# ---- Never more ------------------------------------------------------------------------------------------------------


@given(start=starts, first=figures, steps=st.lists(st.one_of(takes, pauses, figures), max_size=40))
def test_a_bucket_never_gives_more_than_its_burst_and_rate(
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


REQUESTS = 100_000


@for_each("start", [0.0, 1e5, 1e8])
def test_the_drift_of_very_many_requests_is_less_than_one(start: float) -> None:
    # A third of a second has no exact float, nor has the sum of so many.
    bucket, taken = Bucket(3.0, 7.0), 0
    for third in range(REQUESTS):
        taken += bucket.take(start + third / 3.0) == 0.0
    assert taken == REQUESTS
    assert burst_of(bucket, start + REQUESTS / 3.0) == 7


# ---- And no less -----------------------------------------------------------------------------------------------------


def test_mirrored_tokens_are_taken_from_those_that_are_left() -> None:
    bucket = Bucket(1.0, 2.5)
    for _ in range(5):
        bucket.mirror(0.0)
    assert bucket.left == 0.0
    assert bucket.delay(0.0) == pytest.approx(1.0)


# ---- Debt ------------------------------------------------------------------------------------------------------------


def test_charges_beyond_the_burst_are_debt_that_time_pays() -> None:
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
def test_bytes_exceed_the_rate_only_by_calls_under_way(rate: float, sizes: list[tuple[float, int]]) -> None:
    bucket, now, moved, last = Bucket(rate, rate), 0.0, 0, 0
    for pause, size in sizes:
        now += pause
        if bucket.debt(now) == 0.0:
            bucket.charge(size, now)
            moved, last = moved + size, size
    assert moved - last <= rate + rate * now + _ROUNDING * rate
