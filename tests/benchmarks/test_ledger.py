"""The benchmark of the ledger is runnable: each gateway remembers where it is to, and rounds are compared."""

import sqlite3
from datetime import date
from pathlib import Path

import pytest

from benchmarks import ledger
from benchmarks.edge.contestant import ROOT
from benchmarks.edge.load import LoadFailed
from benchmarks.fairness import agent
from benchmarks.fairness.load import loading
from benchmarks.ledger import EVENT, GET, SEND, Results, Size, contestants, measure, tables, write
from benchmarks.page import BEGIN, END

SMALL = Size(1, 0.2, 1, 2, 10, 0.005)


def test_every_place_is_measured(tmp_path: Path) -> None:
    results = measure(tmp_path, SMALL)
    assert results.used.keys() == {SEND, GET, EVENT}
    for used in results.used.values():
        assert used.keys() == set(ledger.PLACES) - set(results.absent)
    assert "### CPU: GetTask" in tables(results)
    with sqlite3.connect(tmp_path / "sqlite" / "state.db") as written:
        [(tasks,)] = written.execute("SELECT count(*) FROM task WHERE tenant = 'acme'")
    written.close()
    assert tasks > 0


def test_calls_that_are_refused_are_no_figure(tmp_path: Path) -> None:
    with (
        contestants(tmp_path, ["memory"], SMALL) as [each],
        loading(ROOT) as load,
        pytest.raises(LoadFailed, match="task_not_found"),
    ):
        ledger._called(load, each, [agent.get("t" * 36)], 0.1)


def test_differences_are_those_within_a_round() -> None:
    results = Results(
        {SEND: {"none": [100.0, 200.0, 100.0], "sqlite": [120.0, 220.0, 126.0], "redis": [170.0, 260.0, 161.0]}}
    )
    results.beside[SEND] = [10.0, 12.0, 11.0]
    text = tables(results)
    assert "| a send, for a new task, sqlite | ≤ 25 µs | +20.0 µs | holds |" in text
    assert "| a send, for a new task, redis | ≤ 60 µs | +61.0 µs | **FAILS** |" in text
    assert "| none | 100.0 (100.0 … 200.0) | - | - | - |" in text
    assert "| redis | 170.0 (161.0 … 260.0) | +61.0 | 1.61 | 11.0 |" in text


def test_what_is_written_by_hand_survives_the_next_page(tmp_path: Path) -> None:
    page = tmp_path / "performance-ledger.md"
    results = Results({GET: {"none": [100.0], "sqlite": [110.0]}}, absent=["redis"])
    write(page, results, SMALL, date(2026, 11, 22))
    page.write_text(page.read_text().replace(f"{BEGIN}\n\nTo be written.", f"{BEGIN}\n\nIn the index."))
    write(page, results, SMALL, date(2026, 11, 23))
    text = page.read_text()
    assert f"{BEGIN}\n\nIn the index.\n\n{END}" in text
    assert "2026-11-23" in text
    assert "redis did not take part" in text
