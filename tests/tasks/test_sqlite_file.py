"""The connection to the file of the ledger."""

import logging
import resource
import signal
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks import sqlite_file
from gateway.tasks.sqlite_file import LOOK_EVERY, REOPEN, TIMEOUT, SqliteFile

KEEP = "INSERT INTO note (kind, key, value, tenant, \"group\", due, until) VALUES ('k', ?, ?, '', '', 0, 0)"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(sqlite_file, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def timeout(file: SqliteFile) -> float:
    """For how long a statement waits for another process, in seconds."""
    with file as db:
        return float(db.execute("PRAGMA busy_timeout").fetchone()[0]) / 1000


def keep(file: SqliteFile, key: str = "n", size: int = 1) -> None:
    with file as db:
        db.execute(KEEP, (key, bytes(size)))


def keys(file: SqliteFile) -> list[str]:
    with file as db:
        return [key for (key,) in db.execute("SELECT key FROM note ORDER BY key")]


def test_while_somebody_holds_the_file_only_one_call_waits_for_it(file: SqliteFile) -> None:
    assert timeout(file) == TIMEOUT
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    for _ in range(3):
        with pytest.raises(StateUnavailable) as caught:
            keep(file)
        assert caught.value.detail == "database is locked"
        assert caught.value.retry_after == 1.0
        assert timeout(file) == 0.0
    assert keys(file) == []
    other.execute("COMMIT")
    assert timeout(file) == 0.0
    keep(file)
    assert timeout(file) == TIMEOUT
    other.close()


def test_a_disk_that_takes_no_more_is_tried_again(file: SqliteFile, clock: list[float]) -> None:
    keep(file, "before", 100_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        for _ in range(3):
            clock[0] += REOPEN
            with pytest.raises(StateUnavailable):
                keep(file, "full", 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    clock[0] += REOPEN
    keep(file, "after", 1 << 20)
    assert keys(file) == ["after", "before"]


def damage(path: Path) -> bytes:
    """Spoil all but the first page; gives what was there."""
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    return whole


def test_a_file_that_is_gone_or_another_programs_is_waited_for(
    file: SqliteFile, clock: list[float], tmp_path: Path
) -> None:
    keep(file)
    file.close()
    whole = damage(file.path)
    file.open()
    with pytest.raises(StateUnavailable):
        keys(file)
    for word, found in (("no SQLite database", b"something else" * 1000), ("another program's", foreign(tmp_path))):
        clock[0] += REOPEN
        file.path.write_bytes(found)
        with pytest.raises(StateUnavailable) as caught:
            keys(file)
        assert word in caught.value.detail
        assert str(tmp_path) not in caught.value.message
    clock[0] += REOPEN
    file.path.write_bytes(whole)
    assert keys(file) == ["n"]


def foreign(folder: Path) -> bytes:
    with sqlite3.connect(folder / "foreign.db") as db:
        db.execute("CREATE TABLE theirs (word TEXT)")
    db.close()
    return (folder / "foreign.db").read_bytes()


def test_a_file_that_is_held_at_the_start_is_used_once_it_is_free(
    file: SqliteFile, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "TIMEOUT", 0.0)
    monkeypatch.setattr(sqlite_file, "OPENING", 0.0)
    file.close()
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    file.open()
    for _ in range(2):
        clock[0] += REOPEN
        with pytest.raises(StateUnavailable) as caught:
            keys(file)
        assert "locked" in caught.value.detail
    other.close()
    clock[0] += REOPEN
    assert keys(file) == []


def test_a_fault_that_lasts_is_a_line_in_ten_seconds(
    file: SqliteFile, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with caplog.at_level(logging.WARNING, "gateway.tasks.sqlite"):
        for _ in range(20):
            with pytest.raises(StateUnavailable):
                keep(file)
            clock[0] += 1.0
    other.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"the ledger in {file.path} cannot be used: database is locked"
    ] * 2


def move(path: Path, name: str) -> Path:
    """Move a database, with what lies beside it; gives where it is now."""
    for more in ("", "-wal", "-shm"):
        place = path.with_name(path.name + more)
        if place.exists():
            place.rename(path.with_name(name + more))
    return path.with_name(name)


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_nothing_goes_into_a_file_that_is_there_no_more(
    file: SqliteFile, clock: list[float], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    keep(file, "before")
    move(file.path, "away.db")
    if how == "deleted":
        for each in file.path.parent.glob("away.db*"):
            each.unlink()
    clock[0] += LOOK_EVERY
    for _ in range(2):
        with pytest.raises(StateUnavailable, match="owner of this task cannot be read") as caught:
            keep(file, "after")
        assert caught.value.detail == "it was moved or deleted"
        clock[0] += REOPEN
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "was moved or deleted" in caplog.text
    assert not file.path.exists()


def test_a_file_that_is_put_back_is_used_again_and_so_is_another_one(file: SqliteFile, clock: list[float]) -> None:
    keep(file, "one")
    away = move(file.path, "away.db")
    clock[0] += LOOK_EVERY
    with pytest.raises(StateUnavailable):
        keys(file)
    other = SqliteFile(file.path)
    other.open()
    keep(other, "two")
    other.close()
    clock[0] += REOPEN
    assert keys(file) == ["two"]
    move(file.path, "second.db")
    move(away, file.path.name)
    clock[0] += LOOK_EVERY
    assert keys(file) == ["one"]
