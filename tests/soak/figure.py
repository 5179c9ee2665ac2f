"""What a gateway process holds, looked at again and again, and what that comes to."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY = 0.5
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class Look:
    """What it held at a time.

    Attributes:
        at: Monotonic seconds.
        resident: Bytes of memory.
        descriptors: Files and sockets.
        busy: Seconds of CPU so far.
    """

    at: float
    resident: int
    descriptors: int
    busy: float


def look(pid: int) -> Look:
    """Look at a process."""
    place = Path(f"/proc/{pid}")
    resident = int((place / "statm").read_text().split()[1]) * _PAGE
    # What stands before the last bracket may have blanks in it.
    user, system = (place / "stat").read_text().rpartition(")")[2].split()[11:13]
    descriptors = len(list((place / "fd").iterdir()))
    return Look(time.monotonic(), resident, descriptors, (int(user) + int(system)) / _TICKS)


async def watch(pid: int, looks: list[Look]) -> None:
    """Look at a process until this is cancelled."""
    while True:
        looks.append(look(pid))
        await asyncio.sleep(_EVERY)


def slope(looks: Sequence[Look], value: Callable[[Look], float]) -> float:
    """By how much a value grows in a second, by least squares."""
    at = [each.at for each in looks]
    values = [value(each) for each in looks]
    middle, mean = sum(at) / len(at), sum(values) / len(values)
    spread = sum((x - middle) ** 2 for x in at)
    return sum((x - middle) * (y - mean) for x, y in zip(at, values, strict=True)) / spread
