"""The benchmark of agents on stdio is runnable: the same agent answers on both wires, and rounds are compared."""

from datetime import date
from pathlib import Path

from benchmarks.page import BEGIN, END
from benchmarks.stdio import CALL, EVENT, WIRES, Results, Size, measure, tables, write

SMALL = Size(1, 0.2, 2, 10, 0.005)


def test_both_wires_are_measured(tmp_path: Path) -> None:
    results = measure(tmp_path, SMALL)
    assert results.trips.keys() == set(WIRES)
    assert all(len(trips) > 2 for trips in results.trips.values())
    assert results.used.keys() == {CALL, EVENT}
    assert all(used.keys() == set(WIRES) for used in results.used.values())


def test_what_is_written_by_hand_survives_the_next_page(tmp_path: Path) -> None:
    page = tmp_path / "performance-stdio.md"
    results = Results(
        {"http": [0.001] * 3, "stdio": [0.002] * 3},
        {CALL: {"http": [100.0, 200.0, 100.0], "stdio": [120.0, 260.0, 110.0]}},
        {CALL: {"http": [50.0] * 3, "stdio": [40.0] * 3}},
    )
    text = tables(results)
    assert "| http | 3 | 1.00 | 1.00 | 1.00 |" in text
    assert "| stdio | 120 | 40 |" in text
    assert "stdio ÷ HTTP, the gateway: 1.20" in text
    write(page, results, SMALL, date(2026, 11, 22))
    page.write_text(page.read_text().replace(f"{BEGIN}\n\nTo be written.", f"{BEGIN}\n\nIn the pipe."))
    write(page, results, SMALL, date(2026, 11, 23))
    assert f"{BEGIN}\n\nIn the pipe.\n\n{END}" in page.read_text()
    assert "2026-11-23" in page.read_text()
