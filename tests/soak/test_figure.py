"""What a series of looks comes to."""

import math
import random

import pytest

from tests.soak.figure import Look, trend


def looks(values: list[float]) -> list[Look]:
    return [Look(number / 2, int(value), 0, 0, 0.0) for number, value in enumerate(values)]


def test_a_slope_is_what_is_added_in_a_second() -> None:
    found = trend(looks([1000 + 10 * number for number in range(200)]), lambda each: each.resident)
    assert found.slope == pytest.approx(20)
    assert found.error == pytest.approx(0, abs=1e-9)


def test_the_error_is_that_of_pieces_for_neighbours_are_alike() -> None:
    chance = random.Random(1)
    levels = [chance.gauss(0, 1000) for _ in range(40)]
    steps = [level for level in levels for _ in range(60)]
    alike = trend(looks(steps), lambda each: each.resident)
    chance.shuffle(steps)
    mixed = trend(looks(steps), lambda each: each.resident)
    assert alike.error > 2 * mixed.error
    assert abs(alike.slope) < 4 * alike.error


def test_of_a_few_looks_nobody_can_tell() -> None:
    assert trend(looks([1, 5, 2, 8]), lambda each: each.resident).error == math.inf
