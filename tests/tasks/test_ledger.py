"""The ledger of a process: its secret, its prefixes, and steps that may or may not have to wait."""

import asyncio

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.tasks.ledger import TaskLedger
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import AFFINITY, NAMES, Bounds, Note, Observed, Owner
from tests.support.waited import Waited

pytestmark = pytest.mark.anyio

ACME, BOB = Owner("acme", "corp/alice"), Owner("acme", "corp/bob")


async def test_marks_differ_by_backend_and_tenant_and_where_told_apart_by_principal() -> None:
    ledger = TaskLedger(SqliteStore(None))
    await ledger.open()
    cipher = await ledger.cipher()

    def prefix(scope: str, owner: Owner, *, by_principal: bool) -> str:
        return ledger.prefix(cipher, scope, owner, by_principal=by_principal)

    alone = prefix("crm", ACME, by_principal=False)
    assert prefix("crm", BOB, by_principal=False) == alone
    assert prefix("crm", ACME, by_principal=True) != prefix("crm", BOB, by_principal=True)
    others = [
        prefix("erp", ACME, by_principal=False),
        prefix("crm", Owner("globex", "corp/alice"), by_principal=False),
        prefix("crm", ACME, by_principal=True),
    ]
    assert len({alone, *others}) == 4


async def test_a_store_that_is_down_at_the_start_is_asked_again_when_it_is_needed() -> None:
    store = Waited()
    store.down = True
    ledger = TaskLedger(store.store)
    await ledger.open()
    with pytest.raises(StateUnavailable):
        await ledger.cipher()
    store.down = False
    first = await ledger.cipher()
    assert await ledger.cipher() is first


async def test_a_store_that_lost_the_secret_gets_it_back() -> None:
    store = SqliteStore(None)
    running, other = TaskLedger(store), TaskLedger(store)
    cipher = await running.cipher()
    token = cipher.encrypt("page 2", ("acme",))
    await store.erase("")
    await running.renew()
    assert running.known_cipher is cipher
    assert (await other.cipher()).decrypt(token, ("acme",)) == "page 2"


async def test_a_replaced_secret_is_adopted_by_all_processes(caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteStore(None)
    running, other = TaskLedger(store), TaskLedger(store)
    await running.cipher()
    prefix = running.prefix(await running.cipher(), "crm", ACME, by_principal=False)
    await store.erase("")
    cipher = await other.cipher()
    await running.renew()
    await other.renew()
    assert "another secret" in caplog.text
    prefixes = {each.prefix(await each.cipher(), "crm", ACME, by_principal=False) for each in (running, other)}
    assert len(prefixes) == 1
    assert prefix not in prefixes
    assert other.known_cipher is cipher


async def test_expired_tasks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.tasks.ledger.RENEW_EVERY", 0.0)
    monkeypatch.setattr("gateway.tasks.ledger.EXPIRE_AT_ONCE", 2)
    now = [1000.0]
    store = SqliteStore(None)
    ledger = TaskLedger(store, Bounds(ended=10, open=10), wall=lambda: now[0])
    for number in range(7):
        await store.record("crm", Observed(ACME, task=f"t{number}", state="completed", now=ledger.now()))
    now[0] = 1020.0
    running = asyncio.ensure_future(ledger.run())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not any(await store.tasks("crm", [f"t{number}" for number in range(7)]))
    running.cancel()


@pytest.mark.parametrize("kind", [NAMES, AFFINITY])
async def test_a_tenant_has_no_more_names_than_tasks(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("gateway.tasks.ledger.RENEW_EVERY", 0.0)
    monkeypatch.setattr("gateway.tasks.ledger.BOUND_ROUNDS", 2)
    store = SqliteStore(None)
    ledger = TaskLedger(store, Bounds(tasks=3, contexts=3))
    for number in range(7):
        await store.keep(Note(kind, f"n{number}", b"", "acme", until=ledger.now() + 1000 + number))
    running = asyncio.ensure_future(ledger.run())
    for _ in range(100):
        await asyncio.sleep(0)
    running.cancel()
    assert [note.key for note in await store.notes((kind, ""), 10) if note.kind == kind] == ["n4", "n5", "n6"]
