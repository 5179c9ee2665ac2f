"""The tables of the ledger in SQLite, and how files of earlier releases are migrated to them.

Schema 1 and 2 kept tasks and contexts in one table. Schema 2 also kept what was new in an append log beside the
database, `NAME-ID`, until it was copied into the table. The log has a head line with its epoch and its end, then lines
of a checksum (CRC-32 of the text, begun with the epoch) and a JSON array of entries. Bytes behind the end were never
acknowledged. A damaged line is skipped and logged.
"""

import fcntl
import logging
import re
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from gateway.tasks.store import OPEN, StoreBroken

logger = logging.getLogger("gateway.tasks.sqlite")

# "A2AG": identifies our files (https://www.sqlite.org/pragma.html#pragma_application_id).
APPLICATION = 0x41324147

VERSION = 3

# `open` is 1 for a task that has not ended. Each index is one more page that is written for each new task, so there is
# one alone: it serves counting, and the bound on the tasks of a tenant.
TABLES = (
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
INDEXES_IN_MEMORY = ("CREATE INDEX task_seen ON task (seen)", "CREATE INDEX context_seen ON context (seen)")
NOTES = (
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

# ---- Files of earlier releases ---------------------------------------------------------------------------------------


_CONTEXT, _TASK = 0, 1
_HEAD = re.compile(rb"A2A gateway arrivals 2 (\d{20}) (\d{20})\n")
_CHECKSUM = 8

_OPEN = ", ".join(f"'{state}'" for state in sorted(OPEN))
_TASKS = f"""
    INSERT INTO task (scope, id, tenant, principal, context, state, open, replica, dialect, made, seen)
    SELECT scope, id, tenant, principal, context, state, state IN ({_OPEN}), replica, dialect, made, seen
    FROM {{table}} WHERE kind = {_TASK}"""  # noqa: S608 - constants
_CONTEXTS = f"""
    INSERT INTO context (scope, id, tenant, principal, seen)
    SELECT scope, id, tenant, principal, seen FROM {{table}} WHERE kind = {_CONTEXT}"""  # noqa: S608 - constants
# An entry of the log is newer than a row of the table. An owner never changes. An entry has the columns of both tables,
# behind its kind, and may have more behind them.
_PUT_TASK = f"""
    INSERT INTO task (scope, id, tenant, principal, context, state, open, replica, dialect, made, seen)
    VALUES (:scope, :id, :tenant, :principal, :context, :state, :state IN ({_OPEN}), :replica, :dialect, :made, :seen)
    ON CONFLICT (scope, id) DO UPDATE
    SET context = excluded.context, state = excluded.state, open = excluded.open, seen = excluded.seen
    WHERE tenant = excluded.tenant AND principal = excluded.principal"""  # noqa: S608 - constants
_PUT_CONTEXT = """
    INSERT INTO context (scope, id, tenant, principal, seen) VALUES (:scope, :id, :tenant, :principal, :seen)
    ON CONFLICT (scope, id) DO UPDATE SET seen = max(seen, excluded.seen)
    WHERE tenant = excluded.tenant AND principal = excluded.principal"""

_COLUMNS = ("kind", "scope", "id", "tenant", "principal", "context", "state", "replica", "dialect", "made", "seen")
_Entry: TypeAlias = list[int | str]
_decode = msgspec.json.Decoder(list[_Entry]).decode


def migrate(connection: sqlite3.Connection, path: Path, version: int) -> Path | None:
    """Copy the entries of an earlier schema into the tables; within the caller's transaction.

    Args:
        version: Of the schema, 1 or 2.

    Returns:
        The append log, to be removed once the transaction is committed; None where there is none.

    Raises:
        StoreBroken: an earlier gateway still uses the file, or its log cannot be read.
    """
    table = "entry" if version == 1 else "record"
    connection.execute(_TASKS.format(table=table))
    connection.execute(_CONTEXTS.format(table=table))
    log = None
    if version > 1:
        (name,) = connection.execute("SELECT id FROM arrivals").fetchone()
        beside = path.resolve()
        log = beside.with_name(f"{beside.name}-{name}")
        for entry in _entries(log):
            columns = dict(zip(_COLUMNS, entry, strict=False))
            connection.execute(_PUT_TASK if entry[0] == _TASK else _PUT_CONTEXT, columns)
        connection.execute("DROP TABLE arrivals")
    connection.execute(f"DROP TABLE {table}")
    (tasks,) = connection.execute("SELECT count(*) FROM task").fetchone()
    logger.warning("%s was migrated from schema %d of an earlier release: %d tasks", path, version, tasks)
    return log


def _entries(log: Path) -> Iterator[_Entry]:
    try:
        with log.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreBroken(f"{log} is in use by a gateway of an earlier release; stop that one first") from error
            data = file.read()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreBroken(
            f"{log} cannot be read ({error.strerror}); it holds the newest tasks of the ledger"
        ) from error
    head = _HEAD.match(data)
    if head is None:
        return
    epoch, end = int(head[1]), int(head[2])
    damaged = 0
    for line in data[head.end() : end].splitlines():
        text = line[_CHECKSUM:]
        if line[:_CHECKSUM] != b"%08x" % zlib.crc32(text, epoch & 0xFFFF_FFFF):
            damaged += 1
            continue
        yield from _decode(text)
    if damaged:
        logger.error("%s: %d damaged lines were passed over; the owners of the tasks in them are lost", log, damaged)
