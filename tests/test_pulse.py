"""Who stands still is found out, and nobody else is."""

import os

from gateway.pulse import LOOKS, Pulses


def looked(pulses: Pulses, times: int) -> list[list[int]]:
    return [[*pulses.still()] for _ in range(times)]


def test_who_gives_no_other_sign_for_so_many_looks_stands_still() -> None:
    pulses = Pulses(2)
    stuck = pulses.beat(pulses.place())
    pulses.begin(11)
    alive = pulses.beat(pulses.place())
    pulses.begin(12)
    stuck()
    for _ in range(LOOKS):
        alive()
        assert looked(pulses, 1) == [[]]
    alive()
    assert looked(pulses, 1) == [[11]]
    stuck()
    assert looked(pulses, 1) == [[]]


def test_who_has_not_begun_may_take_its_time() -> None:
    pulses = Pulses(1)
    pulses.begin(11)
    assert looked(pulses, 3 * LOOKS) == [[]] * 3 * LOOKS


def test_a_sign_is_another_one_each_time_and_never_none() -> None:
    pulses = Pulses(1)
    beat = pulses.beat(pulses.place())
    pulses.begin(11)
    for _ in range(600):
        beat()
        assert looked(pulses, 1) == [[]]


def test_whoever_comes_next_has_the_place_of_who_is_gone_and_nothing_of_its_signs() -> None:
    pulses = Pulses(1)
    pulses.begin(11)
    pulses.beat(0)()
    pulses.forget(11)
    pulses.forget(11)
    pulses.begin(12)
    assert looked(pulses, 3 * LOOKS) == [[]] * 3 * LOOKS


def test_a_sign_that_a_fork_gives_before_its_parent_goes_on_is_seen() -> None:
    pulses = Pulses(1)
    pid = os.fork()
    if not pid:
        pulses.beat(pulses.place())()
        os._exit(0)
    os.waitpid(pid, 0)
    pulses.begin(pid)
    assert looked(pulses, LOOKS + 1) == [[]] * LOOKS + [[pid]]
