"""The system's allocator: what is free of its memory and was never given back.

After a burst it keeps most of what that took, for the pages of a burst that is over lie between others that are in use.
Resident memory says that all of it is.

Decision, 2026-11-22: it is asked for it where memory is short, and not after each burst: meanwhile nobody else gets any
memory, which is a millisecond for 3 MiB. `MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_` and `MALLOC_ARENA_MAX`
were tried, and change nothing: they are about the end of the heap, long pieces and other threads.
"""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from typing import cast


def returning() -> Callable[[], None]:
    """What gives free pages back to the system; it does nothing where the C library has no such thing.

    It takes 0.1 ms where there are few of them.
    """
    with suppress(AttributeError, OSError):
        # glibc has it; musl and those of other systems have not.
        trim = ctypes.CDLL(None).malloc_trim
        trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
        return cast("Callable[[], None]", lambda: trim(0))
    return _nothing


def _nothing() -> None:
    pass
