"""The arrivals of the ledger in a file: what is met for the first time is written here, at the end, and nowhere else.

A table in the order of its ids costs a page for each new one; a line at the end of a file costs a tenth of that. So an
answer waits for the line only, and a thread carries many of them over into the tables at a time (`sqlite_carrying.py`).
The file lies beside the database and is named after its id. It has a head with the *epoch*, then lines:

    checksum, then one JSON array of entries: all of them count, or none; an empty one says that a task that is in the
    tables has changed there, or is gone

Who writes, or reads what others wrote, holds the file (flock) for that long. Under it, everybody first reads what came
since the last time, so all processes know the same when they decide whose something is. Who only looks compares length
and epoch, and reads on where they have changed. When all lines are in the tables, the file is begun anew under the next
epoch. The last to leave removes it.

A line that has no end is what a process had begun to write that was killed, or on a full disk: nobody was told of it,
and the next one to hold the file cuts it off. What was written survives the end of any process; for a power cut it is
put on the disk every two seconds. A disk may take what is behind before what is in the middle: a line that such a cut
damaged is passed over, for each of the others says all of its entries.
"""

import contextlib
import errno
import fcntl
import logging
import os
import stat
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from gateway.tasks.sqlite_file import TIMEOUT
from gateway.tasks.sqlite_seen import Seen, Succession
from gateway.tasks.sqlite_young import Entry, Young

MOST = 16 << 20
"""Bytes: about 60,000 tasks with their contexts. What comes beyond is refused until they have been carried over."""

_HEAD = b"A2A gateway arrivals 1 %020d\n"
HEAD = len(_HEAD % 0)
"""Bytes of a file with nothing in it."""
_CHECKSUM = 8
_READ = 1 << 20
# Seconds between two attempts to hold the file.
_PAUSE = 0.0002
# Times that the file is opened anew, because it is another one by now.
_MOST_OPENED = 100

logger = logging.getLogger("gateway.tasks.sqlite")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Entry]).decode


class Arrivals:
    """One process's, or one thread's, view of the file.

        with arrivals as young:
            …decide, by what is young and what is in the tables
            arrivals.append(entries)

    Args:
        path: Of the file, which is made where there is none.
        begin: Gives an epoch that never was; called while the file is held.
        beside: The database: whoever may use that may use this. By itself, the file is its maker's alone.
        succession: Told how this one begins the file anew; shared by all views of one process.
        seen: Told of all that arrives, and where it is not sure that it was.

    Everything may raise OSError: then nobody knows what has arrived, and nothing was written.

    Attributes:
        epoch: Of what is young.
        end: Bytes of the file that have been read.
        seen: As the argument.
    """

    def __init__(
        self,
        path: Path,
        begin: Callable[[], int],
        *,
        beside: Path | None = None,
        succession: Succession | None = None,
        seen: Seen | None = None,
    ) -> None:
        self.epoch = 0
        self.end = 0
        self.seen = Seen() if seen is None else seen
        self._succession = Succession() if succession is None else succession
        self._path = path
        # As text, for a path is spelled anew each time that the system is asked.
        self._name = str(path)
        self._begin = begin
        self._beside = beside
        self._file = -1
        # Device and inode of what is open.
        self._identity = (0, 0)
        self._damaged = 0
        self._head: bytes | None = None
        self._young = Young()
        self._patience = TIMEOUT

    def close(self, *, leave: bool = False) -> None:
        """Let go of the file.

        Args:
            leave: Remove it if nothing is in it; others who have it open notice, and make another one.

        Raises:
            OSError: it cannot be removed; it is let go of all the same.
        """
        try:
            if leave and self._file >= 0:
                with self:
                    if self.end == HEAD:
                        self._path.unlink(missing_ok=True)
        finally:
            self._forget()

    def current(self) -> Young:
        """What has arrived by now; nothing is held afterwards.

        Raises:
            OSError: the file cannot be read, or others hold it for too long.
        """
        if (file := self._file) >= 0 and self._size() == self.end and os.pread(file, HEAD, 0) == self._head:
            return self._young
        with self:
            return self._young

    def __enter__(self) -> Young:
        size = self._hold()
        try:
            if size != self.end or os.pread(self._file, HEAD, 0) != self._head:
                self._catch_up(size)
        except BaseException:
            self._release()
            raise
        return self._young

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def read_ahead(self) -> None:
        """Read what has arrived by now while others write on, so that there is little left once the file is held."""
        size = self._hold()
        try:
            head = os.pread(self._file, HEAD, 0)
            if size < self.end or head != self._head:
                if _epoch_of(head) is None:
                    return
                self._start(head, int(head[-21:-1]))
        finally:
            self._release()
        # What was whole stays as it is until the file is begun anew, which is found out when it is held again.
        self._read(size)
        if os.pread(self._file, HEAD, 0) != self._head:
            # So what was read may be of the epoch that follows, and what was in its place has not been.
            self.seen.doubt()

    def append(self, entries: Sequence[Entry]) -> None:
        """Write down what is new; only while the file is held.

        Raises:
            OSError: it cannot be written; then none of it is.
        """
        if self.end > MOST:
            raise OSError(errno.EFBIG, "what has arrived cannot be carried over into the tables")
        text = _encode(entries)
        line = b"%08x%b\n" % (zlib.crc32(text), text)
        try:
            if os.pwrite(self._file, line, self.end) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - as any other
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.end)
            raise
        self.end += len(line)
        self._take_in(entries)

    def renew(self, epoch: int) -> None:
        """Begin the file anew, for all of it is in the tables; only while it is held.

        Raises:
            OSError: it cannot be written; what is in it is carried over once more.
        """
        self._succession.ended(self.epoch, self.end, epoch)
        # Not the head first: a kill in between would make old lines new ones.
        os.ftruncate(self._file, 0)
        self._write_head(epoch)

    def sync(self) -> int:
        """Put what was written on the disk; gives the bytes of the file.

        Raises:
            OSError: it cannot be.
        """
        # Whoever left may have removed the one that is open, and then others write to another one.
        if self._file < 0 or self._size() is None:
            self.current()
        os.fdatasync(self._file)
        return os.fstat(self._file).st_size

    # ---- Holding it ------------------------------------------------------------------------------------------------

    def _hold(self) -> int:
        """Hold the file that lies at its place; gives its bytes."""
        for _ in range(_MOST_OPENED):
            if self._file < 0:
                self._open()
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait()
            if (size := self._size()) is not None:
                return size
            # Removed or moved meanwhile: whoever starts now finds another one, so all have to use that.
            self._forget()
        raise OSError(errno.EAGAIN, "what has arrived is removed as often as it is opened")

    def _size(self) -> int | None:
        """The bytes of the file that is open; None where it lies at its place no more."""
        try:
            found = os.lstat(self._name)
        except FileNotFoundError:
            return None
        return found.st_size if (found.st_dev, found.st_ino) == self._identity else None

    def _open(self) -> None:
        # As with the log of the database, no link is followed: it may be somebody else's in a folder that is shared.
        how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self._path, how, 0o600)
        try:
            found = os.fstat(file)
            if self._beside is not None:
                _give(file, found, self._beside.stat())
        except BaseException:
            os.close(file)
            raise
        self._file, self._identity = file, (found.st_dev, found.st_ino)

    def _wait(self) -> None:
        until = time.monotonic() + self._patience
        while time.monotonic() < until:
            time.sleep(_PAUSE)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._patience = TIMEOUT
                return
        # As with the database: no call after this one waits again until somebody lets go.
        self._patience = 0.0
        raise OSError(errno.EAGAIN, "another process holds what has arrived")

    def _release(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def _forget(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file, self._head = -1, None

    # ---- Reading it ------------------------------------------------------------------------------------------------

    def _catch_up(self, size: int) -> None:
        self._patience = TIMEOUT
        head = os.pread(self._file, HEAD, 0)
        epoch = _epoch_of(head)
        if epoch is None:
            # After a power cut there may be nothing but zeros.
            if size >= HEAD and head.strip(b"\0"):
                # Never written by us. Whoever put it there may want it back.
                raise OSError(errno.EINVAL, f"{self._path} holds something else; move it away")
            os.ftruncate(self._file, 0)
            self._write_head(self._begin())
            return
        if head != self._head or size < self.end:
            self._start(head, epoch)
        self._damaged = 0
        is_whole = self._read(size)
        if self._damaged:
            logger.error(
                "%s: %d lines in it are damaged, as by a power cut; whose the tasks in them were is forgotten",
                self._path,
                self._damaged,
            )
        if not is_whole:
            logger.warning("%s: %d bytes at its end are not whole, and are cut off", self._path, size - self.end)
            os.ftruncate(self._file, self.end)

    def _write_head(self, epoch: int) -> None:
        head = _HEAD % epoch
        if os.pwrite(self._file, head, 0) != HEAD:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._start(head, epoch)

    def _start(self, head: bytes, epoch: int) -> None:
        if not self._succession.joins(self.epoch, self.end, epoch):
            self.seen.doubt()
        self._head, self.epoch, self.end, self._young = head, epoch, HEAD, Young()

    def _read(self, size: int) -> bool:
        """Read on up to a place; whether the last line has its end."""
        rest = b""
        at = self.end
        while at < size and (data := os.pread(self._file, min(_READ, size - at), at)):
            at += len(data)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(line)
        return not rest

    def _take(self, line: bytes) -> None:
        """Read a line, or pass over one that is damaged."""
        self.end += len(line) + 1
        text = line[_CHECKSUM:]
        if line[:_CHECKSUM] != b"%08x" % zlib.crc32(text):
            self._pass_over()
            return
        try:
            entries = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._pass_over()
            return
        if not entries:
            # Another process has changed the tables.
            self._young.tables.clear()
            self.seen.doubt()
        self._take_in(entries)

    def _take_in(self, entries: Sequence[Entry]) -> None:
        # All of them first: where the filter has no room, they have arrived nevertheless.
        for name in [self._young.put(entry) for entry in entries]:
            self.seen.add(name)

    def _pass_over(self) -> None:
        self._damaged += 1
        # It may have been the one that says so.
        self._young.tables.clear()
        self.seen.doubt()


def _epoch_of(head: bytes) -> int | None:
    beginning = HEAD - 21
    number = head[beginning:-1]
    return int(number) if number.isdigit() and _HEAD % int(number) == head else None


def _give(file: int, found: os.stat_result, database: os.stat_result) -> None:
    """Let those use a file who may use the database, as SQLite does with its log: root may be the one who makes it."""
    if os.geteuid() == 0 and (found.st_uid, found.st_gid) != (database.st_uid, database.st_gid):
        os.fchown(file, database.st_uid, database.st_gid)
    mode = stat.S_IMODE(database.st_mode) & 0o666
    if stat.S_IMODE(found.st_mode) != mode and os.geteuid() in (0, found.st_uid):
        os.fchmod(file, mode)
