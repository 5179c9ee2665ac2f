"""Finds out whether the file of the ledger is damaged: `PRAGMA quick_check`, on a thread and a connection of its own.

A damaged table may have lost rows without a word, and a task that is not known may be given to whoever names it. So a
file that is known to be damaged is not used: calls that need it are refused, and the gateway is not ready.

A check reads the whole file, about 130 MiB a second. The start of the gateway waits `AT_START` seconds for it.
One that takes longer goes on beside the calls, and is given up after `LONGEST` seconds, with a line in the log: the log
of the database cannot be begun anew meanwhile.
"""

import contextlib
import logging
import sqlite3
import threading
import time
from pathlib import Path

from gateway.tasks import sqlite_schema
from gateway.tasks.store import Condition

AT_START = 2.0
"""Seconds for which the start of the gateway waits for the first check."""
LONGEST = 120.0
"""Seconds after which a check is given up."""
AGAIN = 30.0
"""Seconds from the end of one check to the beginning of the next."""

_PATIENCE = 5.0
_LONGEST_REPORT = 200
_REMEDY = "what needs it is refused; put a copy in its place, or name another file in gateway.state"
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

logger = logging.getLogger("gateway.tasks.sqlite")


class DamageCheck(Condition):
    """Checks of one file, one at a time.

    Attributes:
        damaged: Whether the last check found damage.
        suspected: Whether a statement found damage, and no check has found the file whole since.
    """

    def __init__(self, path: Path, *, longest: float = LONGEST, again: float = AGAIN) -> None:
        self.damaged = False
        self.suspected = False
        self._path = path
        self._longest = longest
        self._again = again
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = 0.0
        self._connection: sqlite3.Connection | None = None
        self._stopping = False

    @property
    def trouble(self) -> str:
        """As `Condition.trouble`."""
        return "the file is damaged" if self.damaged or self.suspected else ""

    def suspect(self, error: sqlite3.Error) -> None:
        """Take note of what a statement has failed with; where it tells of damage, the file is checked."""
        if sqlite_schema.code_of(error) in _DAMAGED:
            self.suspected = True
            self.begin()

    def begin(self, *, anew: bool = False) -> None:
        """Begin a check, unless one goes on or has ended a short while ago; from any thread.

        Args:
            anew: Another file lies there now, of which nothing is known.
        """
        with self._lock:
            if anew:
                self.damaged = self.suspected = False
            if self._stopping or (self._thread is not None and self._thread.is_alive()):
                return
            if not anew and self._thread is not None and time.monotonic() < self._ended + self._again:
                return
            self._thread = threading.Thread(target=self._run, name="sqlite check", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the check that goes on."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def stop(self) -> None:
        """Give up what goes on, and begin no other."""
        with self._lock:
            self._stopping = True
            self._interrupt()
        self.wait(_PATIENCE)

    def _run(self) -> None:
        watch = threading.Timer(self._longest, self._give_up)
        watch.daemon = True
        try:
            report = self._report(watch)
        except sqlite3.Error as error:
            code = sqlite_schema.code_of(error)
            if code not in _DAMAGED:
                if not self._stopping:
                    logger.warning("%s was not checked for damage to its end: %s", self._path, error)
                return
            report = str(error)
        finally:
            watch.cancel()
            with self._lock:
                connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()
            self._ended = time.monotonic()
        was_damaged, self.damaged = self.damaged, report != "ok"
        self.suspected = False
        if self.damaged and not was_damaged:
            told = " ".join(report.split())[:_LONGEST_REPORT]
            logger.error("%s is damaged (%s): %s", self._path, told, _REMEDY)

    def _report(self, watch: threading.Timer) -> str:
        """What SQLite says of the file: `ok`, or the first damage that it finds."""
        connection = sqlite_schema.dial(self._path, _PATIENCE)
        with self._lock:
            self._connection = connection
            if self._stopping:
                return "ok"
        watch.start()
        (report,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        return str(report)

    def _give_up(self) -> None:
        with self._lock:
            self._interrupt()

    def _interrupt(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.ProgrammingError):
                self._connection.interrupt()
