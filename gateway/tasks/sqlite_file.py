"""The connection to the file of the ledger: what becomes of it when something is wrong with the file.

    with file as db:
        db.execute(…)

Whatever SQLite complains of inside, or the system, is a `StateUnavailable` outside. Where another process holds the
file, no call after the first waits for it again, until something can be written. Where the connection itself is in
doubt (a damaged page, a disk that fails), it is closed, and opened anew by a call that comes `REOPEN` seconds later or
more.

A file that is moved away or deleted is open still, and what is written to it is lost with the process. `watch`, which
the checkpoints ask, finds that out; then whatever lies at its place is opened, and as long as nothing does all calls
fail. A new one is not made: who starts the gateway means that, who moves a file may not.

A file that `sqlite_damage` has found damaged is not used until it is found whole, or another one lies at its place.
"""

import contextlib
import logging
import math
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite_schema
from gateway.tasks.sqlite_damage import DamageCheck
from gateway.tasks.store import StoreBroken

TIMEOUT = 0.25
"""Seconds that a call waits for another process."""
REOPEN = 0.25
"""Seconds between two attempts to open the file."""
SORRY = "whose task this is cannot be told at the moment; try again"
"""What a client is told of whatever is wrong with the file."""

# Seconds for which another process may keep this one from opening the file at first: one that starts makes tables.
_OPENING = 5.0
_LOG_EVERY = 10.0
_REMEDY = "what needs it is refused until a file is there again; put it back, or start the gateway anew"
# What says nothing against the connection.
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL)

logger = logging.getLogger("gateway.tasks.sqlite")


class LedgerFile:
    """One connection to the file, for one thread.

    Args:
        check: Knows whether the file is damaged, and finds it out; None where nobody asks.
    """

    def __init__(self, path: Path, check: DamageCheck | None = None) -> None:
        self.path = path
        self._check = check
        self._db: sqlite3.Connection | None = None
        self._attempt_at = math.inf
        self._fault = "it is closed"
        self._log_at = -math.inf
        # Set while nothing can be written for somebody else: how many rows this connection had changed before.
        self._changes: int | None = None
        # Device and inode of what was opened; and whether something else was found at its place.
        self._identity: tuple[int, int] | None = None
        self._is_astray = False

    def open(self) -> None:
        """Open it, or come up without where it cannot be used now.

        Raises:
            StoreBroken: it will never be usable.
        """
        try:
            self._db = sqlite_schema.connect(self.path, TIMEOUT, _OPENING)
            self._identity = _identity(self.path)
        except sqlite3.Error as error:
            self._failed(error)

    def close(self) -> None:
        """Let go of it for good."""
        self._attempt_at, self._fault = math.inf, "it is closed"
        self._let_go()

    def watch(self) -> bool:
        """Whether the file that is open is not to be written to: another lies at its place, or it is damaged.

        From any thread.
        """
        if not self._is_astray and self._identity not in (None, _identity(self.path)):
            self._is_astray = True
            logger.error("%s was moved or deleted while it was in use: %s", self.path, _REMEDY)
        if self._is_damaged and not self._is_astray and self._check is not None:
            # Somebody may have copied a whole one over it.
            self._check.begin()
        return self._is_astray or self._is_damaged

    @property
    def _is_damaged(self) -> bool:
        return self._check is not None and self._check.damaged

    def __enter__(self) -> sqlite3.Connection:
        if self._is_astray and self._db is not None:
            self._let_go()
            self._attempt_at = time.monotonic()
        if self._is_damaged and not self._is_astray:
            if self._db is not None:
                self._let_go()
                self._attempt_at = time.monotonic()
            self._tell("it is damaged")
            raise self._unavailable()
        return self._db or self._reopened()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, sqlite3.Error):
            raise self._failed(error) from error
        if isinstance(error, OSError):
            # What has arrived cannot be read or written, which says nothing against the connection.
            self._tell(error.strerror or str(error))
            raise self._unavailable() from error
        if self._changes is not None and self._db is not None and self._db.total_changes != self._changes:
            self._changes = None
            self._wait_for_others(TIMEOUT)

    def _reopened(self) -> sqlite3.Connection:
        now = time.monotonic()
        if now < self._attempt_at:
            raise self._unavailable()
        self._attempt_at = now + REOPEN
        if self._identity is not None and _identity(self.path) is None:
            self._tell("it was moved or deleted")
            raise self._unavailable()
        try:
            self._db = sqlite_schema.connect(self.path, timeout=0.0, patience=0.0)
            self._wait_for_others(TIMEOUT)
            if self._is_astray and self._check is not None:
                self._check.begin(anew=True)
            self._identity, self._is_astray = _identity(self.path), False
        except StoreBroken as error:
            self._tell(str(error))
            raise self._unavailable() from error
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return self._db

    def _failed(self, error: sqlite3.Error) -> StateUnavailable:
        self._tell(str(error))
        if self._check is not None:
            self._check.suspect(error)
        if sqlite_schema.code_of(error) not in _PASSING:
            self._let_go()
        if self._db is None:
            self._attempt_at = time.monotonic() + REOPEN
        elif self._changes is None and sqlite_schema.is_busy(error):
            self._changes = self._db.total_changes
            self._wait_for_others(0.0)
        return self._unavailable()

    def _unavailable(self) -> StateUnavailable:
        return StateUnavailable(SORRY, detail=self._fault, retry_after=1.0)

    def _tell(self, fault: str) -> None:
        self._fault = fault
        if (now := time.monotonic()) >= self._log_at:
            self._log_at = now + _LOG_EVERY
            logger.warning("the ledger in %s cannot be used: %s", self.path, fault)

    def _wait_for_others(self, timeout: float) -> None:
        if self._db is not None:
            self._db.execute(f"PRAGMA busy_timeout = {timeout * 1000:.0f}")

    def _let_go(self) -> None:
        db, self._db, self._changes = self._db, None, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """The device and the inode of a file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def step(db: sqlite3.Connection) -> Iterator[None]:
    """What is written inside is written at once, or not at all."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
