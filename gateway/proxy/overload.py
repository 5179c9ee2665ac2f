"""Overload protection: refuses new calls and streams while the process is short of open files or memory.

| resource | from | refused |
|---|---|---|
| open files | 85 % of the limit | calls; connections end with their answer |
| memory | 80 % of the limit | streams, which may last |
| memory | 90 % of the limit | calls |

Refusals end at 5 % less, to avoid flapping. Running calls continue; health and metrics are always answered. The figures
are read four times a second; a burst of a thousand files between two readings can still exhaust them.

Long answers and events are counted as they are held, and worked on in threads: `AnswerMemory`.
"""

import asyncio
import math
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from gateway.a2a.fault import Overloaded
from gateway.a2a.operation import Operation
from gateway.telemetry.metrics import Sample

FREE = 256 * 1024
"""Bytes of one request that are not counted: safety R20 allows each stream as many."""
ASIDE = 128 * 1024
"""Bytes of a frame from which on it is processed in a thread (safety R26)."""
MOST = 512 * 1024 * 1024
"""Bytes that one process holds, by default."""
_LONG = 4 * 1024 * 1024
"""Bytes of a frame from which on only one is processed at a time: decoded, it may take twenty times its length."""

EVERY = 0.25
_FILES = 0.85
_MEMORY_STREAMS = 0.8
_MEMORY_CALLS = 0.9
_BACK = 0.05
_NONE = 1 << 60
"""A system limit of this many bytes or more counts as no limit."""
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_PAGE = resource.getpagesize()

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class Overload:
    """The open files and the memory of the process, against their limits.

    Args:
        allowed: Returns the bytes that the configuration allows all processes of the gateway; None for no limit.
        processes: The number of processes.
        changed: Called when open files become short, and when they no longer are.

    Attributes:
        streams: Whether new streams are refused.
        calls: Whether new calls are refused.
        most_memory: Bytes of memory that this process may have; infinity for no limit.
    """

    def __init__(
        self,
        allowed: Callable[[], int | None] = lambda: None,
        *,
        processes: int = 1,
        changed: Callable[[bool], None] = lambda _short: None,
    ) -> None:
        self.streams = False
        self.calls = False
        self._allowed = allowed
        self._processes = processes
        self._changed = changed
        self._files = 0
        self._most_files = math.inf
        self._memory = 0
        self.most_memory = math.inf
        self._short_of_files = False
        self._short_of_memory = False

    def refuse(self) -> None:
        """Refuse a request while the process is overloaded.

        Raises:
            Overloaded: it is.
        """
        if self.calls:
            raise Overloaded("the gateway has too much to do", retry_after=1.0)

    def refuse_stream(self, operation: Operation) -> None:
        """Refuse a stream while memory is short.

        Raises:
            Overloaded: it is, and the call would be a stream.
        """
        if self.streams and operation.streams:
            raise Overloaded("the gateway begins no more streams", retry_after=5.0)

    def answer_memory(self, limit: int) -> float:
        """Return the bytes that long answers may take: half of the memory, or less if configured.

        Args:
            limit: `gateway.answers_limit`.
        """
        return min(limit, self.most_memory / 2)

    async def run(self) -> None:
        """Read the figures four times a second."""
        while True:
            self.look()
            await asyncio.sleep(EVERY)

    def look(self) -> None:
        """Read the figures."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_files = math.inf if most == resource.RLIM_INFINITY else most
        self._files = open_files()
        self.most_memory = min(self._allowed() or math.inf, memory_limit()) / self._processes
        self._memory = resident_memory()
        before = self._short_of_files
        self._short_of_files = _short(self._files / self._most_files, _FILES, before)
        memory = self._memory / self.most_memory
        self.streams = _short(memory, _MEMORY_STREAMS, self.streams)
        self._short_of_memory = _short(memory, _MEMORY_CALLS, self._short_of_memory)
        self.calls = self._short_of_files or self._short_of_memory
        if self._short_of_files != before:
            self._changed(self._short_of_files)

    def samples(self) -> tuple[Sample, ...]:
        """Return the figures for the metrics."""
        return (
            Sample("open_files", "Open files of the process, sockets included.", (), (((), self._files),)),
            Sample("open_files_limit", "Open files that the system grants.", (), (((), self._most_files),)),
            Sample("memory_bytes", "Resident memory of the process.", (), (((), self._memory),)),
            Sample("memory_limit_bytes", "What it may have; +Inf for no bound.", (), (((), self.most_memory),)),
            Sample(
                "shedding",
                "1 while no more of them are begun. Series: 2 (streams, calls).",
                ("what",),
                ((("streams",), float(self.streams or self.calls)), (("calls",), float(self.calls))),
            ),
        )


def _short(share: float, most: float, is_short: bool) -> bool:  # noqa: FBT001 - a state, no option
    return share >= (most - _BACK if is_short else most)


def open_files() -> int:
    """Return the number of open files of the process."""
    folder = Path("/proc/self/fd")
    with suppress(OSError):
        # Since Linux 6.2 the size of the folder is their number; before, they are counted.
        return folder.stat().st_size or len(os.listdir(folder))  # noqa: PTH208 - an entry each would be made a path
    return 0


def resident_memory() -> int:
    """Return the bytes of memory that the process occupies."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    return 0


def memory_limit() -> float:
    """Return the memory limit of the container."""
    for file in _LIMITS:
        with suppress(OSError, ValueError):
            granted = int(file.read_bytes())
            return math.inf if granted >= _NONE else granted
    return math.inf


# ---- Long answers ----------------------------------------------------------------------------------------------------


class AnswerMemory:
    """The bytes of long answers and events that the process holds.

    Args:
        most: Returns how many it may hold.
    """

    def __init__(self, most: Callable[[], float] = lambda: MOST) -> None:
        self.size = 0
        self._most = most
        self._turn = asyncio.Lock()

    def change(self, before: int, after: int) -> None:
        """Count the bytes that one request holds now, in place of those that it held before.

        Raises:
            Overloaded: it would be more than the process may hold; nothing has changed.
        """
        size = self.size + after - before
        if after > before and size > self._most():
            raise Overloaded(
                "the gateway holds too many long answers", retry_after=1.0, detail=f"{self.size} bytes are held"
            )
        self.size = size

    async def work(self, work: Callable[[_Given], _Made], given: _Given, size: int) -> _Made:
        """Return the result of `work` for a frame, in a thread if the frame is long.

        Args:
            size: Bytes of the frame.
        """
        if size < ASIDE:
            return work(given)
        if size < _LONG:
            return await asyncio.to_thread(work, given)
        async with self._turn:
            return await asyncio.to_thread(work, given)
