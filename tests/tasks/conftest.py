"""Fixtures for tests of the ledger in a file."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_file import SqliteFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteFile]:
    file = SqliteFile(tmp_path / "state.db")
    file.open()
    yield file
    file.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.aclose()
