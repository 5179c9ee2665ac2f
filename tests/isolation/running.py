"""Runs the machine: a site on a loop of its own, and as many runs as are wanted."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.e2e.agents.grounds import grounds
from tests.isolation.machine import Isolation
from tests.isolation.site import Site, site
from tests.isolation.stage import Run

Here = tuple[Run[Any], Site]
"""A function that runs a coroutine beside a site, and the site."""


@contextmanager
def standing(**given: Any) -> Iterator[Here]:
    """A site on a loop of its own, and what runs something there.

    Args:
        given: As `site`.
    """
    with grounds() as ground:
        stands = site(**given)
        here = ground.run(stands.__aenter__)
        try:
            yield ground.run, here
        finally:
            ground.run(lambda: stands.__aexit__(None, None, None))


def run_machine(here: Here, figures: Counter[str], *, seed: int, runs: int, steps: int, shrinks: bool = True) -> None:
    """Run the machine several times; the same seed draws the same.

    Args:
        here: The result of `standing`.
        figures: Is added to.
        steps: Most of each run.
        shrinks: Whether what is found is made smaller.

    Raises:
        Broken: a promise did not hold; the example is printed.
    """

    # Each run by itself: of several, most would be the one before with a few draws changed.
    seeds = random.Random(seed)
    for _ in range(runs):
        _run_once(here, figures, seeds.getrandbits(64), steps, shrinks=shrinks)


def _run_once(here: Here, figures: Counter[str], seed: int, steps: int, *, shrinks: bool) -> None:
    @hypothesis.seed(seed)
    class Seeded(Isolation):
        def __init__(self) -> None:
            super().__init__(*here, figures)

    phases = (Phase.generate, Phase.shrink) if shrinks else (Phase.generate,)
    asked = settings(
        max_examples=1,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    run_state_machine_as_test(Seeded, settings=asked)
