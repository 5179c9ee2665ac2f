"""The thread that moves what was written from the log into the database."""

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.sqlite_carrying import Carrier
from gateway.tasks.sqlite_checkpoint import LONG, Checkpoints
from gateway.tasks.sqlite_file import LedgerFile

PATIENCE = 60.0
PAGE = 4096


def log_of(file: LedgerFile) -> Path:
    return file.path.with_name(f"{file.path.name}-wal")


def write(file: LedgerFile, number: int) -> None:
    with file as db:
        db.execute(
            'INSERT OR REPLACE INTO note (kind, key, value, tenant, "group", due, until) VALUES (?, ?, ?, ?, ?, 0, 0)',
            ("kind", str(number % 50), bytes(2000), "", ""),
        )


def read(file: LedgerFile, number: int) -> None:
    with file as db:
        db.execute("SELECT value FROM note WHERE kind = 'kind' AND key = ?", (str(number),)).fetchall()


def salts(file: LedgerFile) -> bytes:
    """What is another one each time that the log is begun anew."""
    with log_of(file).open("rb") as log:
        return log.read(32)[16:24]


class Watched(Checkpoints):
    """Tells how the log was carried over, and what failed."""

    def __init__(
        self, path: Path, *, every: float = 0.001, long: int = LONG, astray: Callable[[], bool] = lambda: False
    ) -> None:
        self.asked: list[str] = []
        self.failures: list[Exception] = []
        self._went_on = threading.Semaphore(0)
        super().__init__(path, every=every, long=long, astray=astray)

    def wait(self, times: int) -> None:
        """Until it has been tried again so many times."""
        for _ in range(times):
            assert self._went_on.acquire(timeout=PATIENCE)

    def _carry(self, how: str) -> int:
        found = super()._carry(how)
        self.asked.append(how)
        self._went_on.release()
        return found

    def _fail(self, error: Exception) -> None:
        super()._fail(error)
        self.failures.append(error)
        self._went_on.release()


def test_a_log_is_begun_anew_though_somebody_writes_all_the_time(file: LedgerFile) -> None:
    checkpoints = Checkpoints(file.path, every=0.001, long=100)
    begun, number, longest = set[bytes](), 0, 0
    end = time.monotonic() + PATIENCE
    while len(begun) < 3 or number * PAGE < 2 * longest:
        assert time.monotonic() < end
        write(file, number)
        for key in range(5):
            read(file, key)
        number += 1
        if number % 20 == 0:
            begun.add(salts(file))
            longest = max(longest, log_of(file).stat().st_size)
    file.close()
    checkpoints.stop()


def test_where_another_file_lies_at_its_place_that_one_is_carried_over(file: LedgerFile, tmp_path: Path) -> None:
    """Also where nobody is astray: the loop may have opened the other one already, for a reason of its own."""
    other = LedgerFile(tmp_path / "other.db")
    other.open()
    with other as db:
        (wanted,) = db.execute("SELECT id FROM arrivals").fetchone()
    other.close()
    found, went_on = list[str](), threading.Semaphore(0)

    class Looking(Carrier):
        def round(self, db: sqlite3.Connection) -> None:
            found.append(db.execute("SELECT id FROM arrivals").fetchone()[0])
            went_on.release()

        def leave(self, db: sqlite3.Connection) -> None:
            self.round(db)

    checkpoints = Checkpoints(file.path, every=0.001, carrier=Looking(file.path))
    assert went_on.acquire(timeout=PATIENCE)
    assert found[-1] != wanted
    for end in ("-wal", "-shm"):
        file.path.with_name(f"{file.path.name}{end}").unlink()
    other.path.rename(file.path)
    for _ in range(2):
        while went_on.acquire(blocking=False):
            pass
        assert went_on.acquire(timeout=PATIENCE)
    assert found[-1] == wanted
    file.close()
    checkpoints.stop()
    assert found[-1] == wanted


def test_what_was_written_gets_into_the_database_by_itself(file: LedgerFile) -> None:
    before = file.path.stat().st_size
    for number in range(50):
        write(file, number)
    assert file.path.stat().st_size == before
    checkpoints = Watched(file.path)
    checkpoints.wait(1)
    assert file.path.stat().st_size > before
    file.close()
    checkpoints.stop()


def test_a_log_that_is_not_long_holds_nobody_off_and_a_long_one_does_once(file: LedgerFile) -> None:
    for number in range(50):
        write(file, number)
    checkpoints = Watched(file.path)
    checkpoints.wait(5)
    checkpoints.stop()
    assert set(checkpoints.asked) == {"PASSIVE"}

    checkpoints = Watched(file.path, long=10)
    checkpoints.wait(10)
    assert checkpoints.asked[:6] == ["PASSIVE", "PASSIVE", "RESTART", "PASSIVE", "PASSIVE", "PASSIVE"]
    write(file, 0)
    file.close()
    checkpoints.stop()


def test_what_fails_is_told_once_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "state.db"
    with caplog.at_level(logging.WARNING, "gateway.tasks.sqlite"):
        checkpoints = Watched(path)
        checkpoints.wait(3)
        # In one step: a file that is empty for a moment is a good one.
        (tmp_path / "none").write_bytes(b"no database" * 1000)
        (tmp_path / "none").replace(path)
        checkpoints.wait(3)
        path.unlink()
        file = LedgerFile(path)
        file.open()
        write(file, 0)
        checkpoints.wait(3)
        file.close()
        checkpoints.stop()
    # While the file is made, whoever comes meanwhile cannot open it, or has to wait.
    found = {type(error) for error in checkpoints.failures} - {sqlite3.OperationalError}
    assert found == {FileNotFoundError, sqlite3.DatabaseError}
    assert len(caplog.records) == 1


def test_where_there_is_no_memory_for_once_it_goes_on(file: LedgerFile, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody else would carry over, until the arrivals are full and everything is refused."""
    went_on, rounds = threading.Event(), list[sqlite3.Connection]()

    class Short(Carrier):
        def round(self, db: sqlite3.Connection) -> None:
            rounds.append(db)
            if len(rounds) == 1:
                raise MemoryError
            went_on.set()

    checkpoints = Checkpoints(file.path, every=0.001, carrier=Short(file.path))
    assert went_on.wait(PATIENCE)
    file.close()
    checkpoints.stop()
    assert "cannot be carried over: there is no memory" in caplog.text


def test_stopping_carries_over_what_is_left_and_leaves_one_file(file: LedgerFile) -> None:
    checkpoints = Watched(file.path)
    checkpoints.wait(1)
    write(file, 0)
    file.close()
    checkpoints.stop()
    checkpoints.stop()
    assert [found.name for found in file.path.parent.iterdir()] == ["state.db"]


def write_until(file: LedgerFile, end: float) -> None:
    while time.monotonic() < end:
        write(file, 1)


def test_a_file_that_is_moved_away_is_found_out_and_one_that_is_put_back_is_carried_over(file: LedgerFile) -> None:
    checkpoints = Watched(file.path, astray=file.watch)
    write(file, 0)
    checkpoints.wait(1)
    away = file.path.parent / "away"
    away.mkdir()
    for each in file.path.parent.glob("state.db*"):
        each.rename(away / each.name)
    end = time.monotonic() + PATIENCE
    with pytest.raises(StateUnavailable, match="cannot be told"):
        write_until(file, end)
    # The database last: as soon as it is there it is opened, with the log that lies beside it.
    for each in sorted(away.iterdir(), reverse=True):
        each.rename(file.path.parent / each.name)
    while time.monotonic() < end:
        with contextlib.suppress(StateUnavailable):
            write(file, 2)
            break
    checkpoints.asked.clear()
    while not checkpoints.asked:
        checkpoints.wait(1)
    file.close()
    checkpoints.stop()
