"""An output that several processes share: whole lines of one stay whole beside those of the others."""

import fcntl
import os
import tempfile
import threading
from io import RawIOBase
from typing import Any


class SharedStream(RawIOBase):
    """Writes to a file descriptor by turns with other processes, and with other threads of this one.

    The system splits writes of more than 4 KiB to a pipe. Make it before the processes are forked.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        # A lock of a file ends with the process that holds it. It is the process's, so threads need another one.
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as this
        self._thread_lock = threading.Lock()

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the output is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer, as its base class
        """Write all of it, or what a full pipe in non-blocking mode takes; return the number of bytes."""
        rest = memoryview(data)
        whole = len(rest)
        with self._thread_lock:
            fcntl.lockf(self._lock, fcntl.LOCK_EX)
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                return whole - len(rest)
            finally:
                fcntl.lockf(self._lock, fcntl.LOCK_UN)
        return whole

    def close(self) -> None:
        """Close the lock, and leave the descriptor open."""
        self._lock.close()
        super().close()
