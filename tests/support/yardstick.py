"""The speed of this machine right now, so that a limit in seconds means the same on every machine.

The measure is the CPU time of a fixed piece of work like the gateway's own: plain Python, a pattern sought in bytes,
JSON read. While another process has the processor no CPU time passes; that a processor is slower, or shared, shows.
"""

import json
import re
import time
from collections.abc import Callable

REFERENCE = 0.005
"""Seconds of CPU that the work takes where the limits were set: CPython 3.11, that machine at its fastest."""
ATTEMPTS = 3
"""The least of so many counts is taken: whatever disturbs one can only add to it."""

_DOCUMENT = json.dumps(
    [{"id": number, "text": 'a "b" [c]\\' * 8, "of": {"n": [0.5, None, True]}} for number in range(1_000)]
).encode()
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[][{}]')


def slowness() -> float:
    """Return how many times slower than the reference this machine is now; never less than 1."""
    return max(1.0, _least(_work) / REFERENCE)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Seconds of CPU that `work` takes, by the measure: those of the reference machine.

    It is done `ATTEMPTS` times, so it must not be quicker for having been done before.
    """
    before = slowness()
    spent = _least(work)
    return spent / max(before, slowness())


def growth(small: Callable[[], object], large: Callable[[], object]) -> float:
    """Return how many times the CPU time of `small` `large` takes; done in turn, since the machine changes its pace."""
    counts = [(_count(small), _count(large)) for _ in range(ATTEMPTS)]
    return min(second for _, second in counts) / min(first for first, _ in counts)


def _least(work: Callable[[], object]) -> float:
    return min(_count(work) for _ in range(ATTEMPTS))


def _count(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _work() -> None:
    total = 0
    for number in range(60_000):
        total += number & 7
    for found in _STRUCTURE.finditer(_DOCUMENT):
        total += found.end()
    json.loads(_DOCUMENT)
