"""One output of several processes: whole lines of one stay whole beside those of the others."""

import fcntl
import os
import threading
from io import RawIOBase
from pathlib import Path
from typing import Any


class SharedStream(RawIOBase):
    """Writes to a file descriptor that other processes, and threads of this one, write to as well, one at a time.

    More than 4 KiB on a pipe would otherwise be mixed with what others write.

    Args:
        lock: A file of theirs; whoever dies lets go of it.
    """

    def __init__(self, descriptor: int, lock: Path) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lock = lock.open("ab")
        # The file's lock is the process's: it keeps no thread of it from another.
        self._own = threading.Lock()

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - whatever has bytes, as its base says
        """Write all of it; gives how many bytes that were."""
        rest = memoryview(data)
        whole = len(rest)
        with self._own:
            # By process, not by descriptor: these are inherited, and shared.
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
        """Let go of the lock's file; the descriptor is everybody's."""
        self._lock.close()
        super().close()
