"""The tables of the ledger in SQLite, and whether a file is one that this gateway can keep its ledger in."""

import os
import sqlite3
import time
from pathlib import Path

from gateway.tasks import sqlite_migration
from gateway.tasks.store import StoreBroken

# "A2AG": what tells our files from those of others (https://www.sqlite.org/pragma.html#pragma_application_id).
_APPLICATION = 0x41324147

VERSION = 3

# `open` is 1 for a task that has not ended. Each index is one more page that is written for each new task, so there is
# one alone: it serves counting, and the bound on the tasks of a tenant.
_TABLES = (
    """
    CREATE TABLE task (
        scope TEXT NOT NULL, id TEXT NOT NULL, tenant TEXT NOT NULL, principal TEXT NOT NULL, context TEXT NOT NULL,
        state TEXT NOT NULL, open INTEGER NOT NULL, replica TEXT NOT NULL, dialect TEXT NOT NULL,
        made INTEGER NOT NULL, seen INTEGER NOT NULL,
        PRIMARY KEY (scope, id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX task_of_tenant ON task (tenant, open, seen)",
    """
    CREATE TABLE context (
        scope TEXT NOT NULL, id TEXT NOT NULL, tenant TEXT NOT NULL, principal TEXT NOT NULL, seen INTEGER NOT NULL,
        PRIMARY KEY (scope, id)
    ) WITHOUT ROWID
    """,
)
# A scan of all rows in memory would hold the event loop; one of a file runs in a thread.
_IN_MEMORY = ("CREATE INDEX task_seen ON task (seen)", "CREATE INDEX context_seen ON context (seen)")
_NOTES = (
    """
    CREATE TABLE note (
        kind TEXT NOT NULL, key TEXT NOT NULL, tenant TEXT NOT NULL, "group" TEXT NOT NULL,
        due REAL NOT NULL, until INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (kind, key)
    )
    """,
    "CREATE INDEX note_due ON note (kind, due) WHERE due > 0",
    """CREATE INDEX note_of_group ON note (kind, "group", key) WHERE "group" <> ''""",
    "CREATE INDEX note_until ON note (until) WHERE until > 0",
    "CREATE INDEX note_of_tenant ON note (tenant)",
)

# Seconds between two attempts to open a file that another process holds.
_PAUSE = 0.02
_CACHE_KIB = 16 << 10
# A checkpoint copies each changed page once, however often it changed: 16 MiB of log instead of 4 halve the copying.
_CHECKPOINT_PAGES = 4_000

_ELSEWHERE = "or name another file in gateway.state"
_RIGHTS = f"give the gateway's user the right to, {_ELSEWHERE}"


def memory() -> sqlite3.Connection:
    """Open a ledger in the memory of this process."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for statement in (*_TABLES, *_NOTES, *_IN_MEMORY):
        connection.execute(statement)
    return connection


def connect(path: Path, timeout: float, patience: float) -> sqlite3.Connection:
    """Open the ledger in a file; make the file where there is none, and migrate one of an earlier release.

    Args:
        timeout: Seconds that a statement waits for another process.
        patience: Seconds for which another process may keep this one from opening it; one that starts makes tables.

    Raises:
        StoreBroken: the file is no ledger that this gateway can use.
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
            # SQLite does not wait by itself where one process turns on the log while another one is there.
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
    # The log and its index are files beside it.
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreBroken(f"nothing can be written in {folder}; {_RIGHTS}")
    try:
        # It has the owner of every task, and holds what clients gave for their webhooks.
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
    # Only a file that is ours is turned over to a log.
    if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise StoreBroken(
            f"{path} is on a file system whose files cannot be shared, such as a network's; "
            "name one on a local disk in gateway.state"
        )
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    if version < VERSION:
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
    if application != _APPLICATION and (application or version or tables):
        raise StoreBroken(f"{path} is another program's database; name another file in gateway.state")
    if version > VERSION:
        raise StoreBroken(
            f"{path} was written by a newer gateway (schema {version}, this one knows {VERSION}); "
            f"start that one, {_ELSEWHERE}"
        )
    return int(version)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Of several processes that start at a time, one has done it by now.
        version = _version(connection, path)
        if version < VERSION:
            for statement in _TABLES if version else (*_TABLES, *_NOTES):
                connection.execute(statement)
            leftover = sqlite_migration.migrate(connection, path, version) if version else None
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
            if leftover is not None:
                leftover.unlink(missing_ok=True)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
