"""What tests of the ledger in a file may ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_file import LedgerFile
from tests.tasks.sqlite_alone import ended, opened


@pytest.fixture
def file(tmp_path: Path) -> Iterator[LedgerFile]:
    file = LedgerFile(tmp_path / "state.db")
    file.open()
    yield file
    file.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = opened(path)
    yield store
    ended(store)


@pytest.fixture
def other(path: Path) -> Iterator[SqliteStore]:
    store = opened(path)
    yield store
    ended(store)
