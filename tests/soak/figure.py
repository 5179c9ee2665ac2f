"""Resources that a gateway process holds, sampled again and again, with their trend."""

import asyncio
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY = 0.5
"""Seconds between two looks."""
_FEWEST = 8
"""Pieces from which on their scatter says something."""


@dataclass(frozen=True, slots=True)
class Look:
    """One sample of a process's resources.

    Attributes:
        at: Monotonic seconds.
        resident: Bytes of memory.
        private: Those of them that belong to no file: the program's own.
        descriptors: Files and sockets.
        busy: Seconds of CPU so far.
    """

    at: float
    resident: int
    private: int
    descriptors: int
    busy: float


def look(pid: int) -> Look:
    """Look at a process."""
    place = Path(f"/proc/{pid}")
    resident, of_files = (int(pages) * _PAGE for pages in (place / "statm").read_text().split()[1:3])
    # The text before the last bracket may have blanks in it.
    user, system = (place / "stat").read_text().rpartition(")")[2].split()[11:13]
    descriptors = len(list((place / "fd").iterdir()))
    return Look(time.monotonic(), resident, resident - of_files, descriptors, (int(user) + int(system)) / _TICKS)


async def watch(pid: int, looks: list[Look]) -> None:
    """Look at a process until this is cancelled."""
    while True:
        looks.append(look(pid))
        await asyncio.sleep(_EVERY)


@dataclass(frozen=True, slots=True)
class Trend:
    """By how much a value grows in a second.

    Attributes:
        slope: By least squares, through all looks.
        error: Its standard error, of the means of pieces: looks that follow each other are alike, and so many of them
            would make it small for nothing. `inf` where there are too few pieces to tell.
    """

    slope: float
    error: float


def trend(looks: Sequence[Look], value: Callable[[Look], float], pieces: int = 20) -> Trend:
    """Return the growth of a value, with its error."""
    points = [(each.at, value(each)) for each in looks]
    size = max(1, len(points) // pieces)
    means = [_mean(points[start : start + size]) for start in range(0, len(points) - size + 1, size)]
    return Trend(_slope(points), _error(means))


def _mean(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    middle, mean = _mean(points)
    return sum((x - middle) * (y - mean) for x, y in points) / sum((x - middle) ** 2 for x, _ in points)


def _error(points: Sequence[tuple[float, float]]) -> float:
    if len(points) < _FEWEST:
        return math.inf
    (middle, mean), slope = _mean(points), _slope(points)
    left = sum((y - mean - slope * (x - middle)) ** 2 for x, y in points)
    return math.sqrt(left / (len(points) - 2) / sum((x - middle) ** 2 for x, _ in points))
