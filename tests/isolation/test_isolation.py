"""Short runs of the machine, the same every time; that it finds what is broken. The long run is the package's."""

from collections import Counter
from collections.abc import Iterator

import pytest

from gateway.tasks.context_prefix import ContextPrefix
from gateway.tasks.ownership import Isolation, Ownership
from gateway.tasks.store import Owner
from tests.isolation.ask import OF_TASK, SENDS, SPEECHES
from tests.isolation.model import Broken
from tests.isolation.running import Here, run_machine, standing

RUNS = 4
STEPS = 50


@pytest.fixture(scope="module")
def here() -> Iterator[Here]:
    with standing() as stands:
        yield stands


def test_no_caller_reaches_anothers_tasks_by_any_operation(here: Here) -> None:
    figures: Counter[str] = Counter()
    run_machine(here, figures, seed=1, runs=RUNS, steps=STEPS, shrinks=False)
    assert all(figures[f"of {operation}"] for operation in (*SENDS, *OF_TASK, "ListTasks")), figures
    assert all(figures[f"in {speech}"] for speech in SPEECHES), figures
    assert sum(times for name, times in figures.items() if name.startswith("ids of others")) > STEPS, figures


def test_no_caller_reaches_anothers_tasks_with_relayed_webhooks() -> None:
    with standing(push="relay") as stands:
        run_machine(stands, Counter(), seed=1, runs=RUNS // 2, steps=STEPS, shrinks=False)


def test_the_machine_finds_that_tasks_are_not_kept_apart(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ownership, "owns", lambda ownership, owner: True)
    assert found(here)[0] in "123"


def test_the_machine_finds_that_principals_are_not_kept_apart(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_owned(_isolation: Isolation, owner: Owner, by: Owner) -> bool:
        return owner.tenant == by.tenant

    monkeypatch.setattr(Isolation, "is_owned", is_owned)
    assert found(here)[0] in "13"


def test_the_machine_finds_that_contexts_are_shown_with_their_marks(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ContextPrefix, "remove", lambda prefix, data: data)
    assert found(here)[0] in "35"


def found(here: Here) -> str:
    """Return the machine's report on a gateway that is broken."""
    with pytest.raises(Broken) as broken:
        run_machine(here, Counter(), seed=1, runs=RUNS, steps=STEPS, shrinks=False)
    return str(broken.value)
