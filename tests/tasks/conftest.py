"""What tests of the ledger in a file may ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.tasks.sqlite_file import LedgerFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[LedgerFile]:
    file = LedgerFile(tmp_path / "state.db")
    file.open()
    yield file
    file.close()
