"""A soak of two minutes: replies, memory and descriptors, with figures (`-rP`)."""

from pathlib import Path

import pytest

from tests.soak.load import KINDS
from tests.soak.running import CALLERS, MIB, Length, Soaked, soak

pytestmark = pytest.mark.anyio

GROWTH = 1.0 * MIB
"""Bytes in ten minutes, where it counts for as long as that."""
MARGIN = 3 * MIB
"""Bytes that two minutes may add: Python takes a mebibyte at a time from the system, which within so little time is a
slope of five mebibytes in ten minutes wherever it comes."""
LONG_ENOUGH = 590.0
"""Seconds from which on a slope says something."""
FEW = 2 * CALLERS
"""Descriptors by which two looks at one load may differ: a connection to either side of each call."""


def wrong(found: Soaked, margin: float = MARGIN) -> list[str]:
    """Return the defects in words.

    Args:
        margin: Bytes that it may grow by where it counts for less than ten minutes.
    """
    findings, third = found.findings, max(1, len(found.looks) // 3)
    held = [each.descriptors for each in found.looks]
    resident = [each.resident for each in found.looks]
    is_long = found.counted >= LONG_ENOUGH
    growth = found.resident.slope * 600
    grown = growth >= GROWTH if is_long else resident[-1] - resident[0] > margin
    faults = {
        f"{findings.mixed} replies were mixed up": findings.mixed,
        f"{findings.failed} calls failed": findings.failed,
        "some kind of call was never made": len(findings.done) < KINDS,
        f"memory grows: {growth / MIB:.2f} MiB in 10 min": grown,
        "descriptors grow under load": max(held[-third:]) > max(held[:-third]) + FEW,
        "descriptors are left": found.after.descriptors > found.before.descriptors,
        f"something is left open: {found.left}": any(found.left.values()),
        "no file was read, or none was broken": not (found.reloads[200] and found.reloads[422]),
    }
    return [fault for fault, holds in faults.items() if holds]


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_in_two_minutes_no_reply_is_mixed_up_and_nothing_grows(tmp_path: Path) -> None:
    found = await soak(Length(10.0, 110.0, 120.0, 5.0), tmp_path)
    print(f"\n{found}")  # noqa: T201 - the figures are the result
    assert wrong(found) == []
