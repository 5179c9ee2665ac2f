"""A damaged file is found at the start, told, and not used until it is whole again."""

import asyncio
import logging
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.sqlite_file import DamageCheck
from gateway.tasks.store import Note, Observed, Owner
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio

ACME = Owner("acme")


async def filled(path: Path) -> None:
    """Make a file with a few hundred tasks and notes in its tables."""
    store = SqliteStore(path)
    await store.open()
    for number in range(300):
        await store.record("crm", Observed(ACME, f"task-{number}", f"context-{number}", "working"))
        await store.keep(Note("k", f"n{number}", b"x" * 500, "acme", "", 0.0, 0))
    await store.aclose()


def spoil(path: Path) -> None:
    """Damage a page of the tables that nothing at the start looks at: the last one."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size - 4096)
        file.write(os.urandom(4096))


def checking(store: SqliteStore) -> DamageCheck:
    assert store.check is not None
    return store.check


async def test_damage_is_an_error_at_the_start_and_nothing_is_told_or_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.db"
    await filled(path)
    spoil(path)
    before = path.read_bytes()
    store = SqliteStore(path)
    await store.open()
    assert store.trouble == "the file is damaged"
    [error] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert error.getMessage().startswith(f"{path} is damaged (")
    assert "put a copy in its place" in error.getMessage()
    for ask in (
        lambda: store.tasks("crm", ["task-7"]),
        lambda: store.record("crm", Observed(ACME, "new", "", "working")),
        lambda: store.note("k", "n1"),
    ):
        with pytest.raises(StateUnavailable) as refused:
            await ask()
        assert refused.value.detail == "it is damaged"
    await store.aclose()
    assert path.read_bytes() == before


@pytest.mark.parametrize("moved", [True, False])
async def test_a_copy_in_its_place_is_used_without_a_restart(tmp_path: Path, *, moved: bool) -> None:
    path, copy = tmp_path / "state.db", tmp_path / "copy.db"
    await filled(path)
    copy.write_bytes(path.read_bytes())
    spoil(path)
    store = SqliteStore(path)
    checking(store).again = 0.0
    await store.open()
    assert store.trouble
    if moved:
        copy.rename(path)
    else:
        path.write_bytes(copy.read_bytes())
    async with asyncio.timeout(WAIT):
        while True:
            try:
                assert (await store.tasks("crm", ["task-7"]))[0] is not None
            except StateUnavailable:
                await asyncio.sleep(0.01)
            else:
                break
    await asyncio.to_thread(checking(store).wait, WAIT)
    assert store.trouble == ""
    await store.aclose()


async def test_damage_that_a_call_meets_is_trouble_until_a_check_finds_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    await filled(path)
    check = DamageCheck(path, again=0.0)
    error = sqlite3.DatabaseError("malformed")
    check.suspect(error)
    assert not check.damaged
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    check.suspect(error)
    # A disk that failed to read a page once, say.
    await asyncio.to_thread(check.wait, WAIT)
    assert not check.damaged
    spoil(path)
    check.suspect(error)
    await asyncio.to_thread(check.wait, WAIT)
    assert check.damaged
    check.stop()


async def test_a_check_that_takes_long_holds_the_start_up_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    await filled(path)
    spoil(path)
    go_on, genuine = threading.Event(), DamageCheck.run

    def slow(check: DamageCheck) -> None:
        go_on.wait(WAIT)
        genuine(check)

    monkeypatch.setattr(DamageCheck, "run", slow)
    monkeypatch.setattr("gateway.tasks.sqlite.AT_START", 0.01)
    store = SqliteStore(path)
    await store.open()
    # Nothing is known yet, and calls are served meanwhile.
    assert store.trouble == ""
    assert await store.tasks("crm", ["nobody"]) == [None]
    go_on.set()
    await asyncio.to_thread(checking(store).wait, WAIT)
    assert store.trouble == "the file is damaged"
    await store.aclose()
