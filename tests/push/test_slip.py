"""What the store has of a notification."""

import pytest

from gateway.push import slip as slips
from gateway.push.slip import Slip


def test_a_slip_is_read_as_it_was_written() -> None:
    slip = Slip("h" * 64, "crm", "acme", "task-7", "application/json", 1.5, tried=2, size=9)
    assert slips.read(slip.written()) == slip


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b'{"hook":5}', b"\xff"])
def test_what_is_no_slip_is_none(value: bytes) -> None:
    assert slips.read(value) is None
