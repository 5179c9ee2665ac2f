"""What several processes have made of a configuration is told, and so is who says nothing."""

import os
import shutil
from pathlib import Path

import pytest

from gateway.uptake import STARTED, Uptake, Word, gathered, waited_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def uptake(tmp_path: Path) -> Uptake:
    return Uptake(tmp_path)


def other(uptake: Uptake, folder: Path, pid: int, line: Word) -> None:
    """Say it of another process."""
    uptake.tell(line)
    (folder / str(os.getpid())).rename(folder / str(pid))


def test_what_each_says_is_known_until_it_is_gone(uptake: Uptake, tmp_path: Path) -> None:
    other(uptake, tmp_path, 7, Word(1.0, "refused", "h", "why"))
    uptake.tell(Word(0.0, STARTED, "h"))
    assert uptake.said() == {7: Word(1.0, "refused", "h", "why"), os.getpid(): Word(0.0, STARTED, "h")}
    uptake.forget(7)
    assert list(uptake.said()) == [os.getpid()]
    uptake.close()
    assert not tmp_path.exists()


def test_who_began_before_is_waited_for_unless_it_was_started_with_the_same() -> None:
    said = {
        1: Word(4.0, "applied", "new"), 2: Word(6.0, "refused", "new"), 3: Word(0.0, STARTED, "new"),
        4: Word(0.0, STARTED, "old"),
    }  # fmt: skip
    assert waited_for(said, 5.0, "new") == [1, 4]


def test_a_folder_that_was_cleaned_hinders_nobody(uptake: Uptake, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)
    uptake.tell(Word(0.0, STARTED, "h"))
    assert uptake.said() == {}
    uptake.forget(7)
    uptake.close()


async def test_who_is_not_heard_of_is_counted(uptake: Uptake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.uptake.PATIENCE", 0.0)
    other(uptake, tmp_path, 7, Word(6.0, "applied", "new"))
    other(uptake, tmp_path, 8, Word(4.0, "applied", "old"))
    assert await gathered(uptake, 4, 5.0, "new") == {
        "workers": [{"pid": 7, "result": "applied", "hash": "new", "error": None}],
        "unheard": 2,
    }
