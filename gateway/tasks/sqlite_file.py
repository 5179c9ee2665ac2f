"""The file of the ledger in SQLite: opening, moved and damaged files.

| the file | then |
|---|---|
| cannot be opened, or a connection is in doubt | a call opens it again, `REOPEN` seconds later or more |
| is held by another process | the first call waits for it, and no later one until something could be written |
| is moved, deleted or replaced | it is not made again; one that is put back, or another ledger, is opened |
| is damaged | nothing is read or written until a check finds it whole |
"""

import contextlib
import logging
import math
import os
import sqlite3
import threading
import time
from pathlib import Path
from types import TracebackType

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite_schema
from gateway.tasks.store import StoreBroken

TIMEOUT = 0.25
"""Seconds that a call waits for another process."""
REOPEN = 0.25
"""Seconds between two attempts to open the file."""
LOOK_EVERY = 2.0
"""Seconds between two checks that the file is still at its path."""
AT_START = 2.0
"""Seconds for which the start of the gateway waits for the first check for damage."""
AGAIN = 30.0
"""Seconds from the end of one check to the beginning of the next."""

SORRY = "the owner of this task cannot be read now; try again"
"""The message for clients while the file cannot be used."""
_ELSEWHERE = "or name another file in gateway.state"
_RIGHTS = f"give the gateway's user the right to, {_ELSEWHERE}"
_REMEDY = "calls that need it are refused; put a copy in its place, or name another file in gateway.state"

# Seconds for which the first opening waits for another process, which may be creating tables.
OPENING = 5.0
# Seconds between two attempts to open a file that another process holds.
_PAUSE = 0.02
# Seconds that a check waits for another process, and that it may take to stop.
_PATIENCE = 5.0
_LOG_EVERY = 10.0
_CACHE_KIB = 16 << 10
# A checkpoint copies each changed page once, however often it changed: 16 MiB of log instead of 4 halve the copying.
_CHECKPOINT_PAGES = 4_000
# Errors after which the connection stays usable.
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

logger = logging.getLogger("gateway.tasks.sqlite")


# ---- Opening ---------------------------------------------------------------------------------------------------------


def connect(path: Path, timeout: float, patience: float) -> sqlite3.Connection:
    """Open the ledger in a file; create a missing file, and migrate one of an earlier release.

    Args:
        timeout: Seconds that a statement waits for another process.
        patience: Seconds for which another process may keep this one from opening it; one that starts makes tables.

    Raises:
        StoreBroken: the file is not a ledger that this gateway can use.
        sqlite3.Error: it cannot be used now.
    """
    _make(path)
    until = time.monotonic() + patience
    while True:
        connection = dial(path, timeout)
        try:
            _prepare(connection, path)
        except sqlite3.Error as error:
            connection.close()
            if code_of(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
                raise StoreBroken(f"{path} and the files beside it cannot be used ({error}); {_RIGHTS}") from error
            # SQLite does not wait by itself when one process enables WAL while another has the file open.
            if not is_busy(error) or time.monotonic() >= until:
                raise
        except BaseException:
            connection.close()
            raise
        else:
            return connection
        time.sleep(_PAUSE)


def dial(path: Path, timeout: float) -> sqlite3.Connection:
    """Connect to an existing file of any kind; the connection may be used from any one thread at a time."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", timeout=timeout, isolation_level=None, uri=True, check_same_thread=False
    )


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another process holds the file."""
    return code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def code_of(error: sqlite3.Error) -> int:
    """Return the primary result code; 0 where SQLite itself was not asked."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _make(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StoreBroken(f"{folder} is no folder; make it, {_ELSEWHERE}")
    # The WAL and its index are files next to it.
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreBroken(f"nothing can be written in {folder}; {_RIGHTS}")
    try:
        # It has the owner of every task, and the credentials of clients' webhooks.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise StoreBroken(f"{path} is no file; move it away, {_ELSEWHERE}") from None
        if not os.access(path, os.R_OK | os.W_OK):
            raise StoreBroken(f"{path} cannot be read and written; {_RIGHTS}") from None
    except OSError as error:
        raise StoreBroken(f"{path} cannot be made ({error.strerror}); make it, {_ELSEWHERE}") from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # In one transaction: another process may make the tables between one look and the next.
    connection.execute("BEGIN")
    try:
        version = _version(connection, path)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    # Only a file of the gateway is switched to WAL.
    if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise StoreBroken(
            f"{path} is on a file system whose files cannot be shared, such as a network's; "
            "name one on a local disk in gateway.state"
        )
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    if version < sqlite_schema.VERSION:
        _bring_up_to_date(connection, path)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if code_of(error) == sqlite3.SQLITE_NOTADB:
            raise StoreBroken(f"{path} is no SQLite database; move it away, {_ELSEWHERE}") from error
        if code_of(error) == sqlite3.SQLITE_CORRUPT:
            raise StoreBroken(f"{path} is damaged; put a copy in its place, {_ELSEWHERE}") from error
        raise
    if application != sqlite_schema.APPLICATION and (application or version or tables):
        raise StoreBroken(f"{path} is another program's database; name another file in gateway.state")
    if version > sqlite_schema.VERSION:
        raise StoreBroken(
            f"{path} was written by a newer gateway (schema {version}, this one knows {sqlite_schema.VERSION}); "
            f"start that one, {_ELSEWHERE}"
        )
    return int(version)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process that started at the same time has done it by now.
        version = _version(connection, path)
        if version < sqlite_schema.VERSION:
            for statement in sqlite_schema.TABLES if version else (*sqlite_schema.TABLES, *sqlite_schema.NOTES):
                connection.execute(statement)
            leftover = sqlite_schema.migrate(connection, path, version) if version else None
            connection.execute(f"PRAGMA application_id = {sqlite_schema.APPLICATION}")
            connection.execute(f"PRAGMA user_version = {sqlite_schema.VERSION}")
            connection.execute("COMMIT")
            if leftover is not None:
                leftover.unlink(missing_ok=True)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


# ---- Damage ----------------------------------------------------------------------------------------------------------


class DamageCheck:
    """Checks the file for damage with `PRAGMA quick_check`, in a thread and on a connection of its own.

    A damaged table may have lost rows, and an unknown task may be given to the caller that names it. So a damaged file
    is not used, and the gateway is not ready, until a check finds it intact. A check reads the whole file, about 130
    MiB a second. The start waits `AT_START` seconds; a longer check goes on beside the calls.

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
        self._was_logged = False
        self._db: sqlite3.Connection | None = None

    def suspect(self, error: sqlite3.Error) -> None:
        """Note the error of a statement; if it reports damage, check the file."""
        if code_of(error) in _DAMAGED:
            self.damaged = True
            self.begin()

    def begin(self, *, anew: bool = False) -> None:
        """Begin a check, unless one is running or has just ended.

        Args:
            anew: Another, unchecked file is at the path now.
        """
        if anew:
            self.damaged, self._ended = False, -math.inf
        if (self._thread is None or not self._thread.is_alive()) and time.monotonic() >= self._ended + self.again:
            self._thread = threading.Thread(target=self.run, name="sqlite check", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the running check."""
        if self._thread is not None:
            self._thread.join(seconds)

    def stop(self) -> None:
        """Interrupt the running check."""
        if (db := self._db) is not None:
            with contextlib.suppress(sqlite3.ProgrammingError):
                db.interrupt()
        self.wait(_PATIENCE)

    def run(self) -> None:
        """Check the file; runs in a thread."""
        try:
            with contextlib.closing(dial(self._path, _PATIENCE)) as self._db:
                (report,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as error:
            report = str(error)
            if code_of(error) not in _DAMAGED:
                if code_of(error) != sqlite3.SQLITE_INTERRUPT:
                    logger.warning("%s was not checked for damage to its end: %s", self._path, error)
                return
        finally:
            self._ended = time.monotonic()
        self.damaged = report != "ok"
        if self.damaged and not self._was_logged:
            logger.error("%s is damaged (%s): %s", self._path, " ".join(str(report).split())[:200], _REMEDY)
        self._was_logged = self.damaged


# ---- The connection --------------------------------------------------------------------------------------------------


class SqliteFile:
    """The event loop's connection to the file, for `with`: every error of SQLite within it is `StateUnavailable`.

    Args:
        check: Finds out whether the file is damaged; None where the file is not checked.
    """

    def __init__(self, path: Path, check: DamageCheck | None = None) -> None:
        self.path = path
        self._check = check
        self._db: sqlite3.Connection | None = None
        self._fault = "it is closed"
        self._attempt_at = math.inf
        self._log_at = -math.inf
        self._look_at = -math.inf
        self._identity: tuple[int, int] | None = None
        # Whether another file, or none, was found at its path.
        self._is_astray = False
        # Whether no call waits for other processes now, and how many rows had been changed when that began.
        self._changes_before: int | None = None

    def open(self) -> None:
        """Open it, or continue without it if it cannot be used now.

        Raises:
            StoreBroken: it will never be usable.
        """
        try:
            self._db = connect(self.path, TIMEOUT, OPENING)
            self._identity = _identity(self.path)
        except sqlite3.Error as error:
            self._failed(error)

    def close(self) -> None:
        """Close it for good."""
        self._let_go()
        self._attempt_at, self._fault = math.inf, "it is closed"

    def check_place(self) -> bool:
        """Return whether the file is still at its path; close the connection if another file, or none, is there."""
        if self._is_astray:
            return False
        if self._identity is None or _identity(self.path) == self._identity:
            if self._is_damaged and self._check is not None:
                # An intact file may have been copied over it.
                self._check.begin()
            return True
        logger.error("%s was moved or deleted while it was in use: put it back, or restart the gateway", self.path)
        self._let_go()
        self._identity, self._is_astray = None, True
        self._attempt_at = time.monotonic()
        return False

    @property
    def _is_damaged(self) -> bool:
        return self._check is not None and self._check.damaged

    def __enter__(self) -> sqlite3.Connection:
        if (now := time.monotonic()) >= self._look_at:
            self._look_at = now + LOOK_EVERY
            self.check_place()
        if self._is_damaged and not self._is_astray and self.check_place():
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
        if self._changes_before is not None and self._db is not None and self._db.total_changes != self._changes_before:
            self._changes_before = None
            self._wait_for_others(TIMEOUT)

    def _reopened(self) -> sqlite3.Connection:
        now = time.monotonic()
        if now < self._attempt_at:
            raise self._unavailable()
        self._attempt_at = now + REOPEN
        if (self._is_astray or self._identity is not None) and _identity(self.path) is None:
            self._tell("it was moved or deleted")
            raise self._unavailable()
        try:
            self._db = connect(self.path, timeout=0.0, patience=0.0)
        except StoreBroken as error:
            self._tell(str(error))
            raise self._unavailable() from error
        except sqlite3.Error as error:
            raise self._failed(error) from error
        self._wait_for_others(TIMEOUT)
        if self._is_astray and self._check is not None:
            self._check.begin(anew=True)
        self._identity, self._is_astray = _identity(self.path), False
        return self._db

    def _failed(self, error: sqlite3.Error) -> StateUnavailable:
        self._tell(str(error))
        if self._check is not None:
            self._check.suspect(error)
        if code_of(error) not in _PASSING:
            self._let_go()
        if self._db is None:
            self._attempt_at = time.monotonic() + REOPEN
        elif self._changes_before is None and is_busy(error):
            self._changes_before = self._db.total_changes
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
        db, self._db, self._changes_before = self._db, None, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode of a file; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
