"""Pauses between starts grow, are forgotten after good health, and end in a rest where failures crowd."""

from gateway.upstream.stdio_pacing import Pace, Pacing

STEADY = Pace(most=100)


def test_pauses_double_up_to_the_longest() -> None:
    pacing = Pacing(STEADY)
    assert [pacing.ended(float(now), 0.0, 0.0) for now in range(8)] == [
        (pause, False) for pause in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0)
    ]


def test_chance_shortens_a_pause_by_a_quarter_at_most() -> None:
    assert Pacing(STEADY).ended(0.0, 0.0, 1.0) == (0.375, False)


def test_who_ran_well_begins_anew() -> None:
    pacing = Pacing(STEADY)
    for now in range(5):
        pacing.ended(float(now), 1.0, 0.0)
    assert pacing.ended(100.0, 60.0, 0.0) == (0.5, False)


def test_five_failures_within_a_minute_are_a_rest_and_the_next_five_another() -> None:
    pacing = Pacing()
    told = [pacing.ended(now * 10.0, 0.0, 0.0) for now in range(10)]
    assert [rest for _, rest in told] == [False, False, False, False, True] * 2
    assert told[4] == (60.0, True)


def test_failures_that_lie_apart_are_none() -> None:
    pacing = Pacing()
    assert not any(pacing.ended(now * 16.0, 0.0, 0.0)[1] for now in range(20))
