"""What a client may send for nothing: as much as clients do, and no more."""

from contextlib import suppress

import pytest
from h2.errors import ErrorCodes

from gateway.listener.http2_allowance import RESET_PERIOD, Allowance
from gateway.listener.http2_frames import FrameRefused


def spent(allowance: Allowance, now: float = 0.0) -> int:
    """How much more it bears."""
    count = 0
    with suppress(FrameRefused):
        while True:
            allowance.idle(now)
            count += 1
    return count


def test_a_flood_is_refused_and_time_gives_little_back() -> None:
    allowance = Allowance(10, 0.0)
    assert spent(allowance) == 1000
    assert spent(allowance, 1.0) == pytest.approx(20, abs=1)
    assert spent(allowance, 10_000.0) == 2000


def test_calls_and_what_the_client_is_sent_earn_more() -> None:
    allowance = Allowance(10, 0.0)
    spent(allowance)
    for _ in range(10):
        allowance.call()
        allowance.data()
    assert spent(allowance) == pytest.approx(100, abs=1)


def test_what_costs_more_counts_for_more() -> None:
    allowance = Allowance(10, 0.0)
    for _ in range(50):
        allowance.idle(0.0, 20)
    with pytest.raises(FrameRefused):
        allowance.idle(0.0, 20)


def test_calls_that_are_taken_back_count_for_a_while() -> None:
    allowance = Allowance(3, 0.0)
    for now in (0.0, 1.0, 2.0, RESET_PERIOD + 1.5):
        allowance.reset(now)
    # Those of 0 and 1 count no more.
    allowance.reset(RESET_PERIOD + 1.6)
    with pytest.raises(FrameRefused) as caught:
        allowance.reset(RESET_PERIOD + 1.7)
    assert caught.value.code is ErrorCodes.ENHANCE_YOUR_CALM
