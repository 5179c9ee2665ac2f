"""A stream that is written without waiting: a bounded queue in front of one thread."""

import atexit
import contextlib
import threading
from collections.abc import Callable
from typing import BinaryIO, Generic, TypeVar

CAPACITY = 10_000
"""Most items that wait to be written; later ones are dropped and counted."""

# Items that come within this many seconds share one wake-up and one write: a thread woken for every line would fight
# the event loop for the interpreter.
_GATHER = 0.02
_BATCH = 1_000
# A stream in non-blocking mode that is full is tried again after this many seconds.
_RETRY = 0.02

Item = TypeVar("Item")


class Sink(Generic[Item]):
    """Renders items to lines and writes them, in order, on a daemon thread of its own.

    A full disk, a closed pipe or a reader that has stopped costs lines, never time of the caller and never an error.
    """

    def __init__(self, stream: BinaryIO, render: Callable[[Item], bytes], *, capacity: int = CAPACITY) -> None:
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
        # Unbuffered: a thread stuck in a buffered write holds the lock that the interpreter wants at its end.
        self._stream = getattr(stream, "raw", stream)
        self._render = render
        self._capacity = capacity
        # A list, taken in one step: a queue is taken from one by one, and each time the interpreter changes threads.
        self._queued: list[Item] = []
        self._wanted = threading.Event()
        self._closing = threading.Event()
        # Cached state of the two, because asking them is a call.
        self._closed = self._woken = False
        # Two counters, each written by one thread only.
        self._refused = 0
        self._lost = 0
        self._torn = False
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def dropped(self) -> int:
        """Return the number of lost items."""
        return self._refused + self._lost

    def write(self, item: Item) -> None:
        """Queue one item; never blocks and never raises. The item must not change afterwards."""
        if self._closed or len(self._queued) >= self._capacity:
            self._refused += 1
            return
        self._queued.append(item)
        if not self._woken:
            self._woken = True
            self._wanted.set()

    def miss(self) -> None:
        """Count one item that could not even be queued."""
        self._refused += 1

    def close(self, timeout: float = 2.0) -> None:
        """Write what is queued, for at most `timeout` seconds; what is left then is dropped. May be called twice."""
        atexit.unregister(self.close)
        self._closed = True
        self._closing.set()
        self._wanted.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._refused += len(self._queued)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._closing.wait(_GATHER)
            # Before anything is taken or the end is looked for: what comes from here on wakes this thread again.
            self._wanted.clear()
            closing = self._closing.is_set()
            self._woken = False
            while count := min(len(self._queued), _BATCH):
                items = self._queued[:count]
                del self._queued[:count]
                self._put([line for item in items if (line := self._line(item))])
            if closing:
                return

    def _line(self, item: Item) -> bytes:
        try:
            return self._render(item)
        except Exception:  # noqa: BLE001 - one item that cannot be rendered must not end the log
            self._lost += 1
            return b""

    def _put(self, lines: list[bytes]) -> None:
        """Write whole lines, and count those that did not get out whole."""
        # After a write that broke off within a line, an empty start keeps the next line readable.
        if self._torn and lines:
            lines[0] = b"\n" + lines[0]
        rest = memoryview(b"".join(lines))
        written = 0
        with contextlib.suppress(OSError, ValueError):
            while rest:
                count = self._stream.write(rest)
                if count is None:
                    if self._closing.wait(_RETRY):
                        break
                    continue
                written += count
                rest = rest[count:]
        end = 0
        for line in lines:
            end += len(line)
            self._lost += end > written
        if written:
            self._torn = bool(rest) and not _ends_line(lines, written)


def _ends_line(lines: list[bytes], written: int) -> bool:
    return b"".join(lines)[:written].endswith(b"\n")
