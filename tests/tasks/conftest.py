"""Fixtures for tests of the stores of the ledger."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.tasks import redis_client
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_file import SqliteFile
from tests.support.redis_peer import be_patient


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


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow one another at once."""
    monkeypatch.setattr(redis_client, "PAUSES", (0.0, 0.001))
