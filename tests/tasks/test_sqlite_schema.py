"""The file of the ledger: what is one, what becomes one, and what is refused."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.tasks import sqlite_file
from gateway.tasks.sqlite_file import connect
from gateway.tasks.sqlite_schema import VERSION
from gateway.tasks.store import StoreBroken

ROOT = Path(__file__).parent.parent.parent

OPENING = """
import pathlib, sys
from gateway.tasks.sqlite_file import connect
for name in sys.stdin:
    connect(pathlib.Path(sys.argv[1], name.strip()), 0.25, 30.0).close()
    print(name, flush=True)
"""


def refusal(path: Path) -> str:
    with pytest.raises(StoreBroken) as caught:
        connect(path, 0.0, 0.0)
    assert "gateway.state" in str(caught.value)
    return str(caught.value)


def pragma(path: Path, name: str) -> object:
    db = sqlite3.connect(path)
    try:
        return db.execute(f"PRAGMA {name}").fetchone()[0]
    finally:
        db.close()


def test_a_file_is_made_where_there_is_none_and_opened_where_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%20.db"
    for _ in range(2):
        db = connect(path, 0.25, 0.0)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (1,)
        assert db.execute("PRAGMA wal_autocheckpoint").fetchone() == (4000,)
        db.close()
    assert pragma(path, "user_version") == VERSION
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_several_processes_may_make_it_at_a_time(tmp_path: Path) -> None:
    start = [sys.executable, "-c", OPENING, str(tmp_path)]
    processes = [
        subprocess.Popen(start, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    names = [f"{number}.db" for number in range(30)]
    for name in names:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(name + "\n")
            process.stdin.flush()
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == name + "\n", f"{name} was refused"
            process.stdout.readline()
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0] * 4
    assert {pragma(tmp_path / name, "user_version") for name in names} == {VERSION}


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "is no folder" in refusal(tmp_path / "missing" / "state.db")
    (tmp_path / "file").touch()
    assert "is no folder" in refusal(tmp_path / "file" / "state.db")


def test_a_folder_that_cannot_be_written_in_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may write anywhere, so the answer of the system is replaced.
    monkeypatch.setattr(os, "access", lambda found, mode: found != tmp_path)
    assert f"nothing can be written in {tmp_path}" in refusal(tmp_path / "state.db")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.db"
    path.touch()
    monkeypatch.setattr(os, "access", lambda found, mode: found != path)
    assert "cannot be read and written" in refusal(path)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a folder that takes no files")
def test_a_folder_that_takes_no_file_is_refused() -> None:
    assert "state.db cannot be made" in refusal(Path("/proc/state.db"))


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    assert "is no file" in refusal(tmp_path / "state.db")


@pytest.mark.parametrize(("beside", "is_made"), [("-wal", True), ("-journal", False), ("-shm", False)])
def test_a_file_whose_log_cannot_be_opened_is_refused(tmp_path: Path, beside: str, *, is_made: bool) -> None:
    path = tmp_path / "state.db"
    if is_made:
        connect(path, 0.0, 0.0).close()
    (tmp_path / f"state.db{beside}").mkdir()
    assert "the files beside it cannot be used" in refusal(path)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"gateway:\n  state: sqlite\n" * 1000)
    assert "is no SQLite database" in refusal(path)
    assert path.read_bytes() == b"gateway:\n  state: sqlite\n" * 1000


@pytest.mark.parametrize(
    "made",
    ["CREATE TABLE entry (id TEXT)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"],
)
def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path, made: str) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as db:
        db.execute(made)
    db.close()
    before = path.read_bytes()
    assert "is another program's database" in refusal(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["state.db"]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    db = connect(path, 0.0, 0.0)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    assert f"newer gateway (schema {VERSION + 1}, this one knows {VERSION}); start that one" in refusal(path)


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connect(path, 0.0, 0.0).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * (4096 - 100) + whole[4096:])
    assert "is damaged" in refusal(path)


def test_a_database_that_keeps_no_shared_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Such as on a file system of a network, where SQLite leaves the old mode as it is.
    def dial(path: Path, timeout: float) -> sqlite3.Connection:
        db = sqlite3.connect(":memory:", isolation_level=None)
        db.execute("PRAGMA application_id")
        return db

    monkeypatch.setattr(sqlite_file, "dial", dial)
    assert "cannot be shared" in refusal(tmp_path / "state.db")


def test_a_file_that_is_held_is_waited_for_and_then_an_error_for_now(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connect(path, 0.0, 0.0).close()
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        connect(path, 0.0, 0.0)
    free = threading.Timer(0.05, holder.close)
    free.start()
    connect(path, 0.0, 60.0).close()
    free.join()
