"""A test that failed is made again where the loop stood still meanwhile, and only there."""

import time
from typing import Any

import pytest

from tests.doubles.undisturbed import RUNS, undisturbed
from tests.loops import both_loops

pytestmark = pytest.mark.anyio
anyio_backend = both_loops


class Runs:
    """A test that stands still for some seconds in each of its runs, and fails in the first ones.

    Args:
        failing: How many of them.
    """

    def __init__(self, failing: int, still: float) -> None:
        self._failing = failing
        self._still = still
        self.made = 0

    async def __call__(self) -> None:
        self.made += 1
        time.sleep(self._still)  # noqa: ASYNC251 - the loop is to stand still
        if self.made <= self._failing:
            pytest.fail("late")


async def test_a_failure_while_the_loop_turned_is_one() -> None:
    runs = Runs(1, 0.0)
    with pytest.raises(pytest.fail.Exception, match="late"):
        await undisturbed(60.0)(runs.__call__)()
    assert runs.made == 1


async def test_a_run_in_which_the_loop_stood_still_shows_nothing() -> None:
    runs = Runs(2, 0.05)
    await undisturbed(0.02)(runs.__call__)()
    assert runs.made == 3


async def test_what_stands_still_in_every_run_fails() -> None:
    runs = Runs(RUNS, 0.05)
    with pytest.raises(pytest.fail.Exception, match="late"):
        await undisturbed(0.02)(runs.__call__)()
    assert runs.made == RUNS


@undisturbed(1.0)
async def test_fixtures_and_loops_are_given_as_to_any_other(tmp_path: Any, anyio_backend: Any) -> None:
    assert tmp_path.exists()
    assert anyio_backend[0] == "asyncio"
