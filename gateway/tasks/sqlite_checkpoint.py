"""Moves what was written to the log of an SQLite database into the database, on a thread of its own.

Who writes appends to the log and waits for no disk. To carry the log over waits for it twice, so it is done here and
never on the event loop. The log is begun anew by whoever writes next once all of it has been carried over; while
somebody writes all the time there is no such moment. So a log that has become long is carried over with writers held
off, and what takes long is done before that: they wait for a few pages only.
"""

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from gateway.tasks import sqlite_schema
from gateway.tasks.sqlite_carrying import Carrier

EVERY = 2.0
"""Seconds between two rounds."""
LONG = 16_384
"""Pages of a log that is carried over with writers held off: 64 MiB of 4 KiB each."""

# A long log is carried over until fewer pages than this came meanwhile, or that many times, before writers are held
# off for what is left.
_FEW = 500
_ROUNDS = 5
# Seconds for which holding them off waits for its turn.
_PATIENCE = 0.1

logger = logging.getLogger("gateway.tasks.sqlite")


class Checkpoints:
    """Rounds, one after another, from construction until `stop`.

    Args:
        path: Of a database that is there, with its tables.
        astray: Whether it is there no more; asked before each round.
        carrier: Carries over what has arrived, before the log.
    """

    def __init__(
        self,
        path: Path,
        *,
        every: float = EVERY,
        long: int = LONG,
        astray: Callable[[], bool] = lambda: False,
        carrier: Carrier | None = None,
    ) -> None:
        self._path = path
        self._astray = astray
        self._carrier = carrier
        self._every = every
        self._long = long
        self._carried = 0
        self._connection: sqlite3.Connection | None = None
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sqlite checkpoints", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait for the round that is going on, and make no other; what has arrived is carried over before.

        This process must have no other connection to the file then: POSIX drops all locks that a process has on a file
        when it closes any descriptor of it.
        """
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        file = -1
        try:
            while not self._stopping.wait(self._every):
                is_astray = self._astray()
                if is_astray or _is_elsewhere(file, self._path):
                    # Nobody is astray where the loop has opened what lies there by now, for a reason of its own. What
                    # has arrived for that one must not be carried over into the one before, nor that gone through.
                    self._let_go()
                    file = _closed(file)
                if is_astray:
                    continue
                try:
                    if file < 0:
                        file = os.open(self._path, os.O_RDWR)
                    self._round(file)
                    self._failing = False
                except (sqlite3.Error, OSError, MemoryError) as error:
                    self._fail(error)
            if self._carrier is not None and not self._astray():
                if _is_elsewhere(file, self._path):
                    self._let_go()
                try:
                    self._carrier.leave(self._open())
                except (sqlite3.Error, OSError, MemoryError) as error:
                    self._fail(error)
        finally:
            self._let_go()
            _closed(file)

    def _round(self, file: int) -> None:
        connection = self._open()
        if self._carrier is not None:
            self._carrier.round(connection)
        log = self._carry("PASSIVE")
        if log < self._long or log == self._carried:
            return
        for _ in range(_ROUNDS):
            # SQLite puts pages on the disk only where it was not overtaken by writers.
            os.fsync(file)
            before, log = log, self._carry("PASSIVE")
            if log - before < _FEW:
                break
        os.fsync(file)
        self._carried = self._carry("RESTART")

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite_schema.dial(self._path, _PATIENCE)
        return self._connection

    def _carry(self, how: str) -> int:
        """How many pages the log has."""
        assert self._connection is not None
        _, log, _ = self._connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        return int(log)

    def _fail(self, error: Exception) -> None:
        if not self._failing:
            logger.warning("the log of the ledger cannot be carried over: %s", str(error) or "there is no memory")
        self._failing = True
        self._let_go()

    def _let_go(self) -> None:
        if self._carrier is not None:
            self._carrier.let_go()
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _is_elsewhere(file: int, path: Path) -> bool:
    """Whether a descriptor is open, and that of another file than lies at a place."""
    if file < 0:
        return False
    try:
        return not os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return True


def _closed(file: int) -> int:
    """Let go of a descriptor, if it is one; gives what is none."""
    if file >= 0:
        os.close(file)
    return -1
