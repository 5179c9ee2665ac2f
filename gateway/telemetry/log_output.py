"""The outputs of the logs: their form, a sink that never waits, a file that rotates, a stream of several processes.

Lines are JSON for programs, or text for people, in colour on a terminal.
"""

import atexit
import contextlib
import fcntl
import logging
import os
import tempfile
import threading
from collections.abc import Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

logger = logging.getLogger("gateway.telemetry")

# ---- form ------------------------------------------------------------------------------------------------------------


Form = Literal["json", "text", "colour"]

RED, YELLOW, GREEN, GREY = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[90m"
_PLAIN = "\x1b[0m"


def form_of(written: Literal["json", "text"] | None, stream: BinaryIO, environ: Mapping[str, str] = os.environ) -> Form:
    """Return the form for a stream: as configured, else text on a terminal and JSON elsewhere.

    Text on a terminal is coloured, unless `NO_COLOR` is set (https://no-color.org) or the terminal is a dumb one.
    """
    on_terminal = stream.isatty()
    if written == "json" or (written is None and not on_terminal):
        return "json"
    is_plain = not on_terminal or environ.get("NO_COLOR") or environ.get("TERM") == "dumb"
    return "text" if is_plain else "colour"


def coloured(text: str, colour: str) -> str:
    """Return the text between a colour and the end of it."""
    return f"{colour}{text}{_PLAIN}"


def printable(text: str) -> str:
    """Text without control sequences and line ends, of at most 200 characters."""
    safe = "".join(character if character.isprintable() else "�" for character in text[:200])
    return safe if len(text) <= 200 else safe + "…"


# ---- the sink --------------------------------------------------------------------------------------------------------


CAPACITY = 10_000
"""Most lines that wait to be written; later ones are dropped and counted."""

# Lines that come within this many seconds share one wake-up and one write: a thread woken for every line would fight
# the event loop for the interpreter.
GATHER = 0.02
_BATCH = 1_000
# A stream in non-blocking mode that is full is tried again after this many seconds.
_RETRY = 0.02


class Sink:
    """Writes lines, in order, on a daemon thread of its own.

    A full disk, a closed pipe or a reader that has stopped costs lines, never time of the caller and never an error.
    """

    def __init__(self, stream: BinaryIO, *, capacity: int = CAPACITY) -> None:
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
        # Unbuffered: a thread stuck in a buffered write holds a lock that the interpreter needs at its end.
        self._stream = getattr(stream, "raw", stream)
        self._capacity = capacity
        # A list that is taken in one step: a queue would be emptied item by item, with a thread switch for each.
        self._queued: list[bytes] = []
        self._wake = threading.Event()
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
        """Return the number of lost lines."""
        return self._refused + self._lost

    def write(self, line: bytes) -> None:
        """Queue one line, with its end; never blocks and never raises."""
        if self._closed or len(self._queued) >= self._capacity:
            self._refused += 1
            return
        self._queued.append(line)
        if not self._woken:
            self._woken = True
            self._wake.set()

    def miss(self) -> None:
        """Count one line that could not even be queued."""
        self._refused += 1

    def close(self, timeout: float = 2.0) -> None:
        """Write queued lines, for at most `timeout` seconds; the rest is dropped. May be called twice."""
        atexit.unregister(self.close)
        self._closed = True
        self._closing.set()
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._refused += len(self._queued)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._closing.wait(GATHER)
            # First, so that lines that come from here on wake this thread again.
            self._wake.clear()
            closing = self._closing.is_set()
            self._woken = False
            while count := min(len(self._queued), _BATCH):
                lines = self._queued[:count]
                del self._queued[:count]
                self._put(lines)
            if closing:
                return

    def _put(self, lines: list[bytes]) -> None:
        """Write whole lines, and count the incomplete ones."""
        # After a write that broke off within a line, an empty start keeps the next line readable.
        if self._torn:
            lines[0] = b"\n" + lines[0]
        whole = b"".join(lines)
        rest = memoryview(whole)
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
            self._torn = bool(rest) and not whole[:written].endswith(b"\n")


# ---- a file ----------------------------------------------------------------------------------------------------------


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
                # It still goes to the old file.
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
    # A pipe without a reader is an error instead of a wait.
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


# ---- a stream of several processes -----------------------------------------------------------------------------------


class SharedStream(RawIOBase):
    """Writes to a file descriptor, in turn with other processes and with other threads of this one.

    The system splits writes of more than 4 KiB to a pipe. Make it before the processes are forked.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        # A file lock ends with the process that holds it. All threads of a process share it, so they need another lock.
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
