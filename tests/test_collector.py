"""What a configuration is made of is gone through piece by piece, and what is kept of calls has a bound."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.collector import Collector, keep


class Left:
    """Refers to itself: only the collector finds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def generations(collector: Collector, make: int) -> list[int]:
    """Which generations were gone through, one after the other, while so many objects came to stay."""
    found: list[int] = []

    def told(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            found.append(about["generation"])

    with collector.gently():
        gc.callbacks.append(told)
        kept = [[number] for number in range(make)]
        gc.callbacks.remove(told)
    assert len(kept) == make
    return found


def test_only_what_is_young_is_gone_through_however_much_there_comes_to_be() -> None:
    before = gc.get_threshold()
    found = generations(Collector(), 400_000)
    assert 0 in found
    assert 2 not in found
    assert gc.get_threshold() == before


def test_what_has_just_become_garbage_is_not_kept() -> None:
    gc.disable()
    try:
        left = weakref.ref(Left())
        keep()
        assert left() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("grown", "idle", "whole"),
    [(1.4, True, 0), (1.6, False, 0), (1.6, True, 1), (3.9, False, 0), (4.0, False, 1), (0.5, True, 0)],
)
def test_what_calls_had_in_use_is_found_once_the_process_has_grown(grown: float, *, idle: bool, whole: int) -> None:
    in_use = [1000.0]
    collector = Collector(lambda: idle, lambda: int(in_use[0]))
    with collector.gently():
        one = Left()
        left = weakref.ref(one)
        keep()
    # It became garbage when it was kept already.
    del one
    gc.collect()
    assert left() is not None
    in_use[0] *= grown
    with collector.gently():
        assert (left() is None) == bool(whole)
    assert collector.whole == whole
    # From then on it is that which it is measured by.
    with collector.gently():
        pass
    assert collector.whole == whole
