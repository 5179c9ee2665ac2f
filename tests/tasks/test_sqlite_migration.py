"""A file of an earlier release is migrated once; nothing that it holds is lost."""

import fcntl
import json
import logging
import sqlite3
import zlib
from pathlib import Path

import pytest

from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Note, Owner, RecordedOwners, StoreBroken, Task
from tests.tasks.asking import ACME, ANN, GLOBEX, NOW, sighting

pytestmark = pytest.mark.anyio

ENTRY = """
    CREATE TABLE entry (
        kind INTEGER NOT NULL, scope TEXT NOT NULL, id TEXT NOT NULL,
        tenant TEXT NOT NULL, principal TEXT NOT NULL, context TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL DEFAULT '', open INTEGER NOT NULL DEFAULT 0,
        replica TEXT NOT NULL DEFAULT '', dialect TEXT NOT NULL DEFAULT '',
        made INTEGER NOT NULL DEFAULT 0, seen INTEGER NOT NULL, aged INTEGER NOT NULL DEFAULT 1,
        PRIMARY KEY (kind, scope, id)
    ) WITHOUT ROWID;
    CREATE TABLE note (
        kind TEXT NOT NULL, key TEXT NOT NULL, tenant TEXT NOT NULL, "group" TEXT NOT NULL,
        due REAL NOT NULL, until INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (kind, key)
    );
    CREATE INDEX note_until ON note (until) WHERE until > 0;
"""
SECOND = """
    ALTER TABLE entry RENAME TO record;
    ALTER TABLE record ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE arrivals (id TEXT NOT NULL, epoch INTEGER NOT NULL, turn INTEGER NOT NULL, until REAL NOT NULL);
    INSERT INTO arrivals VALUES ('abcdef012345', 7, 3, 0);
"""
INTO = """
    INSERT INTO {} (kind, scope, id, tenant, principal, context, state, open, replica, dialect, made, seen, aged)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
ROWS = [
    (1, "crm", "t1", "acme", "ann", "c1", "working", 1, "r1", "jsonrpc/1.0", 5, 6, 1),
    (0, "crm", "c1", "acme", "ann", "", "", 0, "", "", 0, 6, 0),
    (1, "crm", "t2", "acme", "", "", "completed", 0, "", "grpc/1.0", 7, 8, 1),
]
EPOCH = 7


def released(path: Path, version: int) -> Path:
    """A file as an earlier release left it; gives where its log is."""
    db = sqlite3.connect(path)
    db.executescript(ENTRY + (SECOND if version == 2 else ""))
    db.executemany(INTO.format("entry" if version == 1 else "record"), ROWS)
    db.execute("INSERT INTO note VALUES ('secret', 'ledger', '', '', 0, 0, x'00ff')")
    db.execute("PRAGMA application_id = 0x41324147")
    db.execute(f"PRAGMA user_version = {version}")
    db.execute("PRAGMA journal_mode = WAL")
    db.commit()
    db.close()
    return path.with_name(f"{path.name}-abcdef012345")


def line(*entries: list[object], epoch: int = EPOCH) -> bytes:
    text = json.dumps(entries).encode()
    return b"%08x%b\n" % (zlib.crc32(text, epoch), text)


def log(*lines: bytes, behind: bytes = b"") -> bytes:
    body = b"".join(lines)
    head = b"A2A gateway arrivals 2 %020d %020d\n"
    size = len(head % (0, 0))
    return head % (EPOCH, size + len(body)) + body + behind


async def known(store: SqliteStore, *tasks: str) -> list[Task | None]:
    return await store.tasks("crm", tasks)


@pytest.mark.parametrize("version", [1, 2])
async def test_tasks_contexts_and_notes_are_kept(path: Path, caplog: pytest.LogCaptureFixture, version: int) -> None:
    released(path, version)
    with caplog.at_level(logging.WARNING, "gateway.tasks"):
        for _ in range(2):
            store = SqliteStore(path)
            await store.open()
            assert await known(store, "t1", "t2", "t3") == [
                Task(ANN, "c1", "working", "r1", "jsonrpc/1.0", 5, 6),
                Task(ACME, "", "completed", "", "grpc/1.0", 7, 8),
                None,
            ]
            assert await store.context("crm", "c1") == ANN
            assert await store.open_tasks("acme") == 1
            assert await store.note("secret", "ledger") == b"\0\xff"
            assert await store.record("crm", sighting(GLOBEX, "t1", "c1")) == RecordedOwners(ANN, ANN)
            await store.keep(Note("hook", "n1", b"1", group="g", due=1.0))
            assert await store.due("hook", NOW, 10, 1.0) == [("n1", b"1")]
            await store.aclose()
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} was migrated from schema {version} of an earlier release: 2 tasks"
    ]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_acknowledged_records_of_the_log_are_kept_and_others_are_not(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    beside = released(path, 2)
    told = log(
        line(
            [1, "crm", "t3", "globex", "gus", "c3", "working", "", "jsonrpc/0.3", 9, 9],
            [0, "crm", "c3", "globex", "gus", "", "", "", "", 0, 9, 0],
        ),
        # A change in the tables was told by an empty line.
        line(),
        # A task again, with its state by then; and one that claims what is another's, which cannot be.
        line([1, "crm", "t3", "globex", "gus", "c3", "completed", "", "jsonrpc/0.3", 9, 12]),
        line([1, "crm", "t1", "globex", "gus", "c1", "completed", "", "", 9, 12]),
        b"00000000" + line([1, "crm", "t4", "globex", "", "", "", "", "", 1, 1])[8:],
        line([1, "crm", "t5", "globex", "", "", "", "", "", 1, 1], epoch=EPOCH - 1),
        behind=line([1, "crm", "t6", "globex", "", "", "", "", "", 1, 1]),
    )
    beside.write_bytes(told)
    store = SqliteStore(path)
    await store.open()
    gus = Owner("globex", "gus")
    assert await known(store, "t1", "t3", "t4", "t5", "t6") == [
        Task(ANN, "c1", "working", "r1", "jsonrpc/1.0", 5, 6),
        Task(gus, "c3", "completed", "", "jsonrpc/0.3", 9, 12),
        None,
        None,
        None,
    ]
    assert await store.context("crm", "c3") == gus
    await store.aclose()
    assert not beside.exists()
    assert "2 damaged lines were passed over" in caplog.text


async def test_while_an_earlier_gateway_uses_it_the_file_is_left_alone(path: Path) -> None:
    beside = released(path, 2)
    beside.write_bytes(log(line([1, "crm", "t3", "globex", "", "", "", "", "", 1, 1])))
    store = SqliteStore(path)
    with beside.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreBroken, match="in use by a gateway of an earlier release"):
            await store.open()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()
    await store.open()
    assert [it and it.owner for it in await known(store, "t3")] == [GLOBEX]
    await store.aclose()
