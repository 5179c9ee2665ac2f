"""One tenant misbehaves, and another one hardly notices: short versions of what `benchmarks/fairness` measures.

How fast this machine is says nothing here: what is compared was measured alone just before, the bounds are wide, and as
whatever else the machine does can only add to it, one good run of a few is enough. Nothing may be lost in any of them.
"""

from collections.abc import Callable, Iterator

import pytest

from benchmarks.fairness import scenario
from benchmarks.fairness.bench import Bench, Row, Size, bench, typical
from benchmarks.fairness.plan import ANSWERED
from benchmarks.fairness.site import HANGING, RATE, STUCK

SHORT = Size(seconds=1.0, rounds=1, pace=50.0, lead=0.3)
ATTEMPTS = 4
SLACK = 1.0
"""Seconds that a busy machine may add; who waits behind calls that hang waits for longer."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("fairness"), SHORT) as made:
        yield made


def calm(run: Callable[[Bench], Row], found: Bench) -> Row:
    """A run in which the steady tenant hardly waited longer than alone."""
    for _ in range(ATTEMPTS):
        row = run(found)
        assert row.lost == 0
        assert all(window.answered == window.begun > 0 for window in row.alone)
        if typical(row.beside) <= 5 * typical(row.alone) + SLACK:
            return row
    pytest.fail(f"{typical(row.beside):.3f} s in place of {typical(row.alone):.3f} s")


def test_a_tenant_with_hanging_agents_costs_another_tenant_nothing(found: Bench) -> None:
    [own] = calm(scenario.hung, found).others
    assert own.under_way > HANGING / 2
    [shared] = calm(scenario.stuck, found).others
    assert shared.under_way >= STUCK
    assert shared.told.keys() <= {"concurrency_limited"}


def test_a_tenant_at_ten_times_its_limit_costs_another_tenant_nothing(found: Bench) -> None:
    [outcome] = calm(scenario.eager, found).others
    # The tokens of that time, however late this process was, and of a full bucket.
    assert 0 < outcome.count(ANSWERED) <= RATE * (SHORT.seconds + 1.0) + RATE
    assert outcome.count("rate_limited") > outcome.count(ANSWERED)
    assert outcome.told.keys() == {ANSWERED, "rate_limited"}
