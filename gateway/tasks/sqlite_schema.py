"""The file of the ledger: its tables, and whether a file is one that this gateway can keep its ledger in.

Tasks and contexts are in one table, so that an agent's frame is written down by one statement. Every index that a
write touches is one more page in the log, about a quarter of what the write costs. So there is one index, which serves
counting, expiry and erasure alike, and contexts that come with a task are not in it as long as the task is there.

Decision (2026-11-22): no table in the order of arrival beside an index of the names, with a checksum of the context in
the other index. By itself it takes a tenth less for a send, and the same where one is written alone; in a gateway it
took more, for a transaction touches four trees then instead of two. Nor pages of 1 or 2 KiB, which are split more
often.
"""

import os
import sqlite3
import time
from pathlib import Path

from gateway.tasks.store import StoreBroken

CONTEXT, TASK = 0, 1
"""What an entry is about; they are in the order of `Store.rows`."""

# "A2AG": what tells our files from those of others (https://www.sqlite.org/pragma.html#pragma_application_id).
_APPLICATION = 0x41324147

# What leads from each version of the schema to the next; the first makes the file.
_STEPS = (
    (
        # `open` is 1 for a task that is not over: what is over goes first. `aged` is 0 for a context that came with a
        # task of the same owner's: nobody looks at its age before the task is forgotten.
        """
        CREATE TABLE entry (
            kind INTEGER NOT NULL, scope TEXT NOT NULL, id TEXT NOT NULL,
            tenant TEXT NOT NULL, principal TEXT NOT NULL, context TEXT NOT NULL DEFAULT '',
            state TEXT NOT NULL DEFAULT '', open INTEGER NOT NULL DEFAULT 0,
            replica TEXT NOT NULL DEFAULT '', dialect TEXT NOT NULL DEFAULT '',
            made INTEGER NOT NULL DEFAULT 0, seen INTEGER NOT NULL, aged INTEGER NOT NULL DEFAULT 1,
            PRIMARY KEY (kind, scope, id)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX entry_of_tenant ON entry (tenant, kind, open, seen, context, principal, aged) WHERE aged = 1",
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
    ),
    (
        # What is new is written to the arrivals first (`sqlite_arrivals.py`). A gateway that knows nothing of them must
        # not look into the table alone, so that has another name. `epoch` is that of the arrivals from which an entry
        # was carried over. What was seen in one second is in the order of the table, in which it is carried over.
        "ALTER TABLE entry RENAME TO record",
        "ALTER TABLE record ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0",
        "DROP INDEX entry_of_tenant",
        """
        CREATE INDEX record_of_tenant
        ON record (tenant, kind, open, seen, scope, id, context, principal, aged, epoch) WHERE aged = 1
        """,
        "CREATE TABLE arrivals (id TEXT NOT NULL, epoch INTEGER NOT NULL, turn INTEGER NOT NULL, until REAL NOT NULL)",
        "INSERT INTO arrivals VALUES (lower(hex(randomblob(6))), 0, 0, 0)",
    ),
)
VERSION = len(_STEPS)

# Between attempts to open a file that another process holds.
_PAUSE = 0.02
# A log that had to grow over this many bytes gives the rest back when it is begun anew.
_KEPT_LOG = 128 << 20
_CACHE_KIB = 16 << 10

_ELSEWHERE = "or name another file in gateway.state"
_RIGHTS = f"give the gateway's user the right to, {_ELSEWHERE}"


def connect(path: Path, timeout: float, patience: float) -> sqlite3.Connection:
    """A connection to the ledger in a file, which is made where there is none.

    Args:
        timeout: Seconds that a statement waits for another process.
        patience: Seconds for which another process may keep this one from opening it; one that starts makes tables.

    Raises:
        StoreBroken: it is no such file, and will not become one.
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
    """A connection to a file that is there, whatever it is."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", timeout=timeout, isolation_level=None, uri=True)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether it is only that somebody else holds the file."""
    return code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def code_of(error: sqlite3.Error) -> int:
    """The primary result code; 0 where SQLite itself was not asked."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _make(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StoreBroken(f"{folder} is no folder; make it, {_ELSEWHERE}")
    # The log and its index are files beside it.
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreBroken(f"nothing can be written in {folder}; {_RIGHTS}")
    try:
        # It holds whom everything belongs to, and what clients gave for their webhooks.
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
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(f"PRAGMA journal_size_limit = {_KEPT_LOG}")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    if version < VERSION:
        _migrate(connection, path)


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


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    # Of several processes that start at a time, one has made the tables by now.
    for statements in _STEPS[_version(connection, path) :]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
