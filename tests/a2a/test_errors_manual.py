"""The manual tells of each of the gateway's own errors under which codes and statuses it comes."""

from pathlib import Path

import pytest

from gateway.a2a import fault as faults
from gateway.a2a.fault import Fault
from tests.a2a.test_fault import classes

MANUAL = Path(__file__).parents[2] / "docs" / "errors.md"
UNTOLD = {Fault, faults.TaskNotFound, faults.ClientGone}
"""What is none in particular, what is not built yet, and what nobody is told."""


def rows() -> list[list[str]]:
    """The cells of the table of reasons."""
    table = MANUAL.read_text().split("\n| reason |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


@pytest.mark.parametrize("kind", [kind for kind in classes() if kind not in UNTOLD], ids=lambda kind: kind.__name__)
def test_each_error_is_told_of_with_its_codes_and_statuses(kind: type[Fault]) -> None:
    found = [
        cells
        for cells in rows()
        if f"`{kind.shown or kind.reason}`" in cells[0]
        and str(kind.rpc_code) in cells[1]
        and str(kind.rpc_status) in cells[1]
        and str(kind.http_status) in cells[2]
        # No method of gRPC is wrong in itself, and none is got instead of posted.
        and (kind.grpc_status in cells[3] or kind in (faults.MethodNotFound, faults.WrongHttpMethod))
    ]
    assert found, (kind.reason, kind.rpc_status, kind.rpc_code, kind.http_status, kind.grpc_status)


def test_every_row_has_a_cell_for_each_binding() -> None:
    assert {len(cells) for cells in rows()} == {5}
