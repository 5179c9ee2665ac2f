"""The table of faults names tests that there are, says what came of them, and its page has every row."""

import re
from datetime import date
from pathlib import Path

from benchmarks.edge.contestant import ROOT
from benchmarks.reliability import PAGE, ROWS, Found, Row, page, read, table
from tests.table import for_each

ROW = Row(
    "R5", "it dies", "says so", ("tests/e2e/test_x.py::test_a", "tests/e2e/test_x.py::test_b"), ("tests/test_y.py",)
)
REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.e2e.test_x" name="test_a[one]"><system-out>
R5: told at once
R6: of another
</system-out></testcase>
<testcase classname="tests.e2e.test_x" name="test_a[two]"><system-out>
R5 (over the target): told late
</system-out></testcase>
<testcase classname="tests.e2e.test_x" name="test_b"><failure message="no"/></testcase>
<testcase classname="tests.e2e.test_other" name="test_a"><system-out>R5: not mine</system-out></testcase>
</testsuite></testsuites>
"""


def test_there_is_a_row_for_each_fault_in_order() -> None:
    assert [row.name for row in ROWS] == [f"R{number}" for number in range(1, 27)]


@for_each("row", ROWS)
def test_the_tests_of_a_row_exist(row: Row) -> None:
    for node in row.told:
        file, _, test = node.partition("::")
        text = (ROOT / file).read_text()
        assert re.search(rf"^(async )?def {test}\(", text, re.MULTILINE), node
        assert re.search(rf"figure\(\s*\"{row.name}\"", text), node
    for other in row.kept:
        assert (ROOT / other).is_file(), other


def test_results_of_a_row_are_read_from_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = read([ROW], report)
    assert found["R5"] == Found(["told at once", "told late**, over the target**"], ["test_b"])
    text = table([ROW], found)
    assert "told at once<br>told late**, over the target**<br>**FAILED: test_b**" in text
    assert "[`test_x`](../tests/e2e/test_x.py) [`test_y`](../tests/test_y.py)" in text
    assert "**no figure**" in table([ROW], {"R5": Found()})
    assert "2026-11-22" in page([ROW], found, "a machine.", date(2026, 11, 22))


def test_the_page_has_every_row_as_it_is_now() -> None:
    text = PAGE.read_text()
    for row in ROWS:
        assert f"| {row.name} | {row.fault} | {row.target} | " in text
    assert "FAILED" not in text
    assert "no figure" not in text
