"""Run over every store: what is forgotten of a tenant that has too many notes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.tasks.ledger import trim_notes
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Note, Store
from tests.tasks.asking import NOW, all_notes

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store: Store = SqliteStore(None) if request.param == "memory" else SqliteStore(tmp_path / "state.db")
    await store.open()
    yield store
    await store.aclose()


async def test_notes_over_the_bound_go_by_their_end_for_their_tenant_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.tasks.store.PAGE", 3)
    for number in range(10):
        # Their names are not in the order of their ends.
        end = NOW + 10_000 + number * 7 % 10
        await store.keep(Note("name", f"a{number}", b"", "acme", until=end))
        await store.keep(Note("other", f"a{number}", b"", "acme", until=end))
    for number in range(4):
        await store.keep(Note("name", f"g{number}", b"", "globex", until=NOW + 10_000))
    assert await trim_notes(store, "name", 4) == 6
    left = await all_notes(store)
    assert {note.until - NOW - 10_000 for note in left if (note.kind, note.tenant) == ("name", "acme")} == {6, 7, 8, 9}
    assert len([note for note in left if note.kind == "other"]) == 10
    assert len([note for note in left if note.tenant == "globex"]) == 4
    assert await trim_notes(store, "name", 4) == 0
