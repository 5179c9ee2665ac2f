"""Checks the file of the ledger for damage with `PRAGMA quick_check`, in a thread and on a connection of its own.

A damaged table may have lost rows, and an unknown task may be given to the caller that names it. So a file that is
damaged is not used, and the gateway is not ready, until a check finds it whole.

A check reads the whole file, about 130 MiB a second. The start waits `AT_START` seconds; a longer check goes on beside
the calls.
"""

import contextlib
import logging
import math
import sqlite3
import threading
import time
from pathlib import Path

from gateway.tasks import sqlite_schema
from gateway.tasks.store import Condition

AT_START = 2.0
"""Seconds for which the start of the gateway waits for the first check."""
AGAIN = 30.0
"""Seconds from the end of one check to the beginning of the next."""

_PATIENCE = 5.0
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_REMEDY = "calls that need it are refused; put a copy in its place, or name another file in gateway.state"

logger = logging.getLogger("gateway.tasks.sqlite")


class DamageCheck(Condition):
    """Checks of one file, one at a time.

    Attributes:
        damaged: Whether a check or a statement found damage, and no check since has found the file whole.
        again: Seconds between two checks.
    """

    def __init__(self, path: Path, *, again: float = AGAIN) -> None:
        self.damaged = False
        self._path = path
        self.again = again
        self._thread: threading.Thread | None = None
        self._ended = -math.inf
        self._was_told = False
        self._db: sqlite3.Connection | None = None

    @property
    def trouble(self) -> str:
        """As `Condition.trouble`."""
        return "the file is damaged" if self.damaged else ""

    def suspect(self, error: sqlite3.Error) -> None:
        """Take note of the error of a statement; where it tells of damage, check the file."""
        if sqlite_schema.code_of(error) in _DAMAGED:
            self.damaged = True
            self.begin()

    def begin(self, *, anew: bool = False) -> None:
        """Begin a check, unless one goes on or has ended a short while ago.

        Args:
            anew: Another file lies there now, of which nothing is known.
        """
        if anew:
            self.damaged, self._ended = False, -math.inf
        if (self._thread is None or not self._thread.is_alive()) and time.monotonic() >= self._ended + self.again:
            self._thread = threading.Thread(target=self.run, name="sqlite check", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the check that goes on."""
        if self._thread is not None:
            self._thread.join(seconds)

    def stop(self) -> None:
        """Interrupt the check that goes on."""
        if (db := self._db) is not None:
            with contextlib.suppress(sqlite3.ProgrammingError):
                db.interrupt()
        self.wait(_PATIENCE)

    def run(self) -> None:
        """Check the file; runs in a thread."""
        try:
            with contextlib.closing(sqlite_schema.dial(self._path, _PATIENCE)) as self._db:
                (report,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as error:
            report = str(error)
            if sqlite_schema.code_of(error) not in _DAMAGED:
                if sqlite_schema.code_of(error) != sqlite3.SQLITE_INTERRUPT:
                    logger.warning("%s was not checked for damage to its end: %s", self._path, error)
                return
        finally:
            self._ended = time.monotonic()
        self.damaged = report != "ok"
        if self.damaged and not self._was_told:
            logger.error("%s is damaged (%s): %s", self._path, " ".join(str(report).split())[:200], _REMEDY)
        self._was_told = self.damaged
