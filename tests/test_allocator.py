"""What the allocator keeps of a burst, in a process of its own."""

import ctypes
import subprocess
import sys

import pytest

from gateway.allocator import returning

BURST = """
from pathlib import Path
from gateway.allocator import returning

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

give_back = returning()
# Each fourth piece stays: nothing is at the end of the heap, and no page of the others is in use.
pieces = [b"x" * 16_384 for _ in range(4_000)]
full = resident()
pieces[:] = pieces[::4]
kept = resident()
give_back()
print(full, kept, resident())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library does not give back")
def test_what_is_kept_of_a_burst_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", BURST], capture_output=True, text=True, check=True, timeout=60)
    full, kept, now = map(int, done.stdout.split())
    assert kept > full - (8 << 20), "the allocator gives it back by itself: nobody has to ask"
    assert now < kept - (24 << 20)


def test_where_there_is_nothing_to_be_asked_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    returning()()
