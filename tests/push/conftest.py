"""The stores that lie in a process or in a file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Store


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = SqliteStore(None) if request.param == "memory" else SqliteStore(tmp_path / "state.db")
    await made.open()
    yield made
    await made.aclose()
