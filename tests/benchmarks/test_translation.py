"""The benchmark of translation is runnable, and both sides do the same work."""

import json
from typing import Any

import pytest

from benchmarks import translation
from benchmarks.translation import PAIRS, Pair, Row, measure, table

PARTS = [pair for make in PAIRS for pair in make()]


def numbers_as_doubles(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: numbers_as_doubles(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [numbers_as_doubles(value) for value in tree]
    return float(tree) if isinstance(tree, int) and not isinstance(tree, bool) else tree


@pytest.mark.parametrize("pair", [pair for pair in PARTS if pair.theirs is not None], ids=lambda pair: pair.name)
def test_both_sides_write_the_same(pair: Pair) -> None:
    assert pair.theirs is not None
    ours, theirs = (numbers_as_doubles(json.loads(work())) for work in (pair.ours, pair.theirs))
    for params in (ours, theirs):
        # Said outright by the one, left out by the other.
        params.get("configuration", {}).pop("returnImmediately", None)
    assert ours == theirs


def test_what_is_translated_is_about_a_thousand_bytes() -> None:
    for tree in (translation.PARAMS, translation.TASK):
        assert 900 < len(json.dumps(tree, separators=(",", ":"))) < 1300


def test_a_row_is_measured_and_printed() -> None:
    row = measure(PARTS[0], rounds=1, seconds=0.0001)
    assert row.ours > 0
    assert row.theirs is not None
    assert measure(PARTS[0]._replace(theirs=None), rounds=1, seconds=0.0001).theirs is None
    written = table([Row("a", 10.0, 20.0, 30.0, 900), Row("b", 10.0, None, 30.0, 900)]).splitlines()
    assert written[1].split() == ["a", "900", "10.0", "30", "20.0", "2.0x"]
    assert written[2].split() == ["b", "900", "10.0", "30", "-", "-"]
