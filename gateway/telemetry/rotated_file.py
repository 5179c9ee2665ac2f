"""A log file that log rotation may move or remove at any time."""

import logging
import os
from pathlib import Path
from typing import BinaryIO, cast

logger = logging.getLogger("gateway.telemetry")


class RotatedFile:
    """A file that is appended to, and opened again once its path has another file or none.

    The path is checked before each write, in the thread of the writer, so that rotation needs no signal. A line that is
    written while the file is moved goes to the moved one; none is lost. A new file is readable by its owner only.

    Raises:
        OSError: It cannot be opened, or it is a pipe without a reader.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _opened(path)

    def write(self, data: bytes) -> int | None:
        """Write some of the data; return the number of bytes, or None if a pipe is full."""
        if self._is_gone():
            try:
                file = _opened(self._path)
            except OSError as error:
                # The old file takes it still.
                logger.warning("the log %s cannot be opened again: %s", self._path, error.strerror)
            else:
                self._file.close()
                self._file = file
        return cast("int | None", self._file.write(data))

    def flush(self) -> None:
        """Return at once, because nothing is buffered."""

    def isatty(self) -> bool:
        """Return False."""
        return False

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _is_gone(self) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except OSError:
            return True


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", open(path, "ab", buffering=0, opener=_private))


def _private(path: str, flags: int) -> int:
    # A pipe without a reader is an error, and not a wait.
    return os.open(path, flags | os.O_NONBLOCK, 0o600)
