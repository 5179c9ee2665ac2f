"""The ledger is measured by itself, where it lies in memory and where it lies in a file."""

from pathlib import Path

import pytest

from benchmarks.ledger_alone import PLACES, measured


@pytest.mark.parametrize("place", PLACES)
def test_what_it_does_for_a_call_and_for_an_event_is_told(place: str, tmp_path: Path) -> None:
    figures = measured(tmp_path, place, 300)
    assert all(each > 0 for each in figures)
    # The file is the database, and nothing else is left.
    assert [each.name for each in tmp_path.iterdir()] == (["state.db"] if place == "sqlite" else [])
