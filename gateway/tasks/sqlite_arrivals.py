"""The arrivals of the ledger in a file: what is met for the first time is written here, at the end, and nowhere else.

A table in the order of its ids costs a page for each new one; a line at the end of a file costs a tenth of that. So an
answer waits for the line only, and a thread carries many of them over into the tables at a time (`sqlite_carrying.py`).
The file lies beside the database and is named after its id. It has a head with the *epoch* and the *end*, then lines:

    checksum, then one JSON array of entries: all of them count, or none; an empty one says that a task that is in the
    tables has changed there, or is gone

Who writes, or reads what others wrote, holds the file (flock) for that long. Under it, everybody first reads what came
since the last time, so all processes know the same when they decide whose something is. Who only looks compares the
head, which every process has in its memory (`mmap`, as SQLite's own index of its log): it costs no call of the system.
When all lines are in the tables, a head is written with the next epoch, and lines are written over those that were. The
last to leave removes the file, and says so in the head; what else becomes of a file at its place is found out by the
thread, every two seconds.

What lies behind the end is nobody's: lines of an epoch before, or what a process had begun to write that was killed, or
on a full disk. Nobody was told of it. What was written survives the end of any process; for a power cut it is put on
the disk every two seconds. A disk may take the head before the lines, or some lines and not others: one that such a cut
damaged is passed over, for each of the others says all of its entries; and its checksum is of its epoch as well, so
that none is read a second time.
"""

import contextlib
import errno
import fcntl
import logging
import mmap
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from gateway.tasks.sqlite_file import TIMEOUT
from gateway.tasks.sqlite_layout import GONE, HEAD, LAYOUT, NONE, entries_of, line_of, read_head
from gateway.tasks.sqlite_seen import Seen, Succession
from gateway.tasks.sqlite_young import Entry, Young

MOST = 16 << 20
"""Bytes: about 60,000 tasks with their contexts. What comes beyond is refused until they have been carried over."""

_READ = 1 << 20
# Bytes by which the file grows: to write where it has room costs half.
_ROOM = 1 << 20
_HELD = fcntl.LOCK_EX | fcntl.LOCK_NB
# Seconds between two attempts to hold the file.
_PAUSE = 0.0002
# Times that the file is opened anew, because it is another one by now.
_MOST_OPENED = 100

logger = logging.getLogger("gateway.tasks.sqlite")


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
        young: What has been read.
        identity: Device and inode of the file that is open, or was the last time.
        joined: What another view had read when this one went on from there, which is not young here.
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
        self.joined: list[Entry] = []
        self.seen = Seen() if seen is None else seen
        self._succession = Succession() if succession is None else succession
        self._path = path
        # As text, for a path is spelled anew each time that the system is asked.
        self._name = str(path)
        self._begin = begin
        self._beside = beside
        self._file = -1
        # Its head, as it is at any moment, and as it was when all was read.
        self._map: mmap.mmap | None = None
        self._head = b""
        # Whether somebody has found that another file lies at its place.
        self._astray = False
        self.identity = (0, 0)
        # Bytes that it has room for.
        self._room = 0
        self._damaged = 0
        self.young = Young()
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
                    if self.end == HEAD and self._is_there():
                        # First, for whoever starts meanwhile waits for this one, and makes another file then.
                        self._write(GONE, 0)
                        self._path.unlink(missing_ok=True)
        finally:
            self._forget()

    def current(self) -> Young:
        """What has arrived by now; nothing is held afterwards.

        Raises:
            OSError: the file cannot be read, or others hold it for too long.
        """
        if (head := self._map) is not None and head[:HEAD] == self._head and not self._astray:
            return self.young
        with self:
            return self.young

    def __enter__(self) -> Young:
        # In one go, as `append`: every new task comes here, and waits for as many calls of Python's as there are.
        now = self._map
        if now is not None:
            try:
                fcntl.flock(self._file, _HELD)
            except BlockingIOError:
                self._wait()
            self._patience = TIMEOUT
            if now[:HEAD] == self._head and not self._astray:
                return self.young
        if (head := self._hold()) != self._head:
            try:
                self._catch_up(head)
            except BaseException:
                self._release()
                raise
        return self.young

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def join(self, other: "Arrivals") -> None:
        """Go on from where another view of this process is, if that has read of this epoch; from another thread.

        It is not read twice then, which is a third of what it costs to carry it over.

        Raises:
            OSError: as to hold the file.
        """
        head = self._hold()
        try:
            # The other one may read on at any moment, or begin anew (`_start`). As long as these are its entries, there
            # may be more of them than its end says, and never less; so whether they are is asked last.
            young, end = other.young, other.end
            joined = [*young.entries.values()]
            found = read_head(head)
            if found is None or other.identity != self.identity or other.epoch != found[0]:
                return
            if HEAD <= end <= found[1] and other.young is young:
                self._start(found[0])
                self._head, self.end, self.joined = LAYOUT % (found[0], end), end, joined
        finally:
            self._release()

    def arrived(self) -> list[Entry]:
        """All that has arrived by the last time that it was held; of two entries with one name, the last one counts."""
        return [*self.joined, *self.young.entries.values()]

    def read_ahead(self) -> None:
        """Read what has arrived by now while others write on, so that there is little left once the file is held."""
        head = self._hold()
        self._release()
        found = read_head(head)
        if found is None or head == self._head:
            return
        epoch, end = found
        if not self._head or epoch != self.epoch or end < self.end:
            self._start(epoch)
        # What was whole stays as it is until the file is begun anew, which is found out when it is held again.
        self._read_up_to(head, end)
        now = read_head(self._now())
        if now is None or now[0] != epoch:
            # So what was read may be of the epoch that follows, and what was in its place has not been.
            self.seen.doubt()
        else:
            self._tell_damage()

    def append(self, entries: Sequence[Entry]) -> None:
        """Write down what is new; only while the file is held.

        Raises:
            OSError: it cannot be written; then none of it is.
        """
        if self.end > MOST:
            raise OSError(errno.EFBIG, "what has arrived cannot be carried over into the tables")
        line = line_of(entries, self.epoch)
        end = self.end + len(line)
        if end > self._room:
            # Where there is none for more than this, this may have its place.
            with contextlib.suppress(OSError):
                os.posix_fallocate(self._file, self._room, _ROOM)
                self._room += _ROOM
        head = LAYOUT % (self.epoch, end)
        # It counts once the head says so.
        if os.pwrite(self._file, line, self.end) != len(line) or os.pwrite(self._file, head, 0) != HEAD:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # Whatever goes wrong until it is taken in, all is read again.
        self._head = b""
        self._take_in(entries, len(line))
        self._head = head

    def renew(self, epoch: int) -> None:
        """Begin the file anew, for all of it is in the tables; only while it is held.

        Raises:
            OSError: it cannot be written; what is in it is carried over once more.
        """
        self._succession.ended(self.epoch, self.end, epoch)
        self._begin_epoch(epoch)

    def sync(self) -> int:
        """Put what was written on the disk; gives the bytes that are in the file.

        Raises:
            OSError: it cannot be.
        """
        # Whoever left may have removed the one that is open, and then others write to another one.
        self.watch()
        if self._map is None or self._astray or self._now() == GONE:
            self._hold()
            self._release()
        os.fdatasync(self._file)
        found = read_head(self._now())
        return HEAD if found is None else found[1]

    def watch(self) -> None:
        """Find out whether another file lies at its place, or none; from any thread. The next call uses that, then."""
        if self._file >= 0 and not self._is_there():
            self._astray = True

    # ---- Holding it ------------------------------------------------------------------------------------------------

    def _hold(self) -> bytes:
        """Hold the file that lies at its place; gives its head."""
        for _ in range(_MOST_OPENED):
            if self._file < 0:
                self._open()
            try:
                fcntl.flock(self._file, _HELD)
            except BlockingIOError:
                self._wait()
            self._patience = TIMEOUT
            try:
                if (head := self._now()) != GONE and self._map is not None and not self._astray:
                    return head
                if self._is_there():
                    self._astray = False
                    self._make_head()
                    return self._now()
            except BaseException:
                self._forget()
                raise
            # Removed or moved meanwhile: whoever starts now finds another one, so all have to use that.
            self._forget()
        raise OSError(errno.EAGAIN, "what has arrived is removed as often as it is opened")

    def _now(self) -> bytes:
        """The head, as it is."""
        return b"" if self._map is None else self._map[:HEAD]

    def _make_head(self) -> None:
        """Have the head of the file in memory, whatever is in it."""
        if self._map is not None:
            return
        self._room = os.fstat(self._file).st_size
        if self._room < HEAD:
            # A page that the system has no place for cannot be read there.
            self._write(NONE, 0)
            self._room = HEAD
        self._map = mmap.mmap(self._file, HEAD, mmap.MAP_SHARED, mmap.PROT_READ)

    def _is_there(self) -> bool:
        try:
            found = os.lstat(self._name)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self.identity

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
        # What was read was of another file, for whoever asks in between (`join`).
        self.epoch = 0
        self._file, self.identity = file, (found.st_dev, found.st_ino)

    def _wait(self) -> None:
        until = time.monotonic() + self._patience
        while time.monotonic() < until:
            time.sleep(_PAUSE)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._file, _HELD)
                return
        # As with the database: no call after this one waits again until somebody lets go.
        self._patience = 0.0
        raise OSError(errno.EAGAIN, "another process holds what has arrived")

    def _release(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def _forget(self) -> None:
        # Both of them: the map has a descriptor of its own, and a lock lasts as long as any is open.
        if self._map is not None:
            self._map.close()
        if self._file >= 0:
            os.close(self._file)
        self._file, self._map, self._head, self._astray = -1, None, b"", False

    # ---- Reading and writing it ------------------------------------------------------------------------------------

    def _write(self, data: bytes, at: int) -> None:
        if os.pwrite(self._file, data, at) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _begin_epoch(self, epoch: int) -> None:
        head = LAYOUT % (epoch, HEAD)
        self._write(head, 0)
        self._start(epoch)
        self._head = head

    def _catch_up(self, head: bytes) -> None:
        """Read what came since the last time; only while the file is held."""
        found = read_head(head)
        if found is None:
            if head not in (NONE, GONE):
                # Never written by us. Whoever put it there may want it back.
                raise OSError(errno.EINVAL, f"{self._path} holds something else; move it away")
            self._begin_epoch(self._begin())
            return
        epoch, end = found
        if not self._head or epoch != self.epoch or end < self.end:
            self._start(epoch)
        self._read_up_to(head, end)
        self._tell_damage()

    def _start(self, epoch: int) -> None:
        if not self._succession.joins(self.epoch, self.end, epoch):
            self.seen.doubt()
        # In this order: another thread may go on from here (`join`).
        self._head, self.end = b"", HEAD
        self.young, self.joined = Young(), []
        self.epoch = epoch

    def _read_up_to(self, head: bytes, end: int) -> None:
        """Read on up to where a head says."""
        # As in `append`.
        self._head = b""
        self._damaged = 0
        self._read(end)
        self._head = head

    def _tell_damage(self) -> None:
        if self._damaged:
            logger.error(
                "%s: %d lines in it are damaged, as by a power cut; whose the tasks in them were is forgotten",
                self._path,
                self._damaged,
            )

    def _read(self, end: int) -> None:
        rest = b""
        at = self.end
        while at < end and (data := os.pread(self._file, min(_READ, end - at), at)):
            at += len(data)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(line)
        if self.end != end:
            # Where there should be an end of a line, there is something else.
            self._damaged += 1
            self._pass_over()
            self.end = end

    def _take(self, line: bytes) -> None:
        """Read a line, or pass over one that is damaged."""
        entries = entries_of(line, self.epoch)
        if not entries:
            # Another process has changed the tables; or it may have been the line that says so.
            self._damaged += entries is None
            self._pass_over()
        self._take_in(entries or (), len(line) + 1)

    def _take_in(self, entries: Sequence[Entry], length: int) -> None:
        """Take in what a line of so many bytes says."""
        names = [self.young.put(entry) for entry in entries]
        self.end += length
        # Last: where the filter has no room, they have arrived nevertheless.
        for name in names:
            self.seen.add(name)

    def _pass_over(self) -> None:
        """Do without what somebody has changed, or may have."""
        self.young.tables.clear()
        self.seen.doubt()


def _give(file: int, found: os.stat_result, database: os.stat_result) -> None:
    """Let those use a file who may use the database, as SQLite does with its log: root may be the one who makes it."""
    if os.geteuid() == 0 and (found.st_uid, found.st_gid) != (database.st_uid, database.st_gid):
        os.fchown(file, database.st_uid, database.st_gid)
    mode = stat.S_IMODE(database.st_mode) & 0o666
    if stat.S_IMODE(found.st_mode) != mode and os.geteuid() in (0, found.st_uid):
        os.fchmod(file, mode)
