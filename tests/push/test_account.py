"""What each tenant may have in the store for its webhooks."""

import asyncio

import pytest

from gateway.a2a.fault import PushDenied
from gateway.push import slip as slips
from gateway.push.account import Account, Allowance
from gateway.push.hook import KIND as HOOK
from gateway.push.outbox import BODY, SLIP, Outbox, Queued
from gateway.push.slip import Slip
from gateway.tasks.store import Note, Store
from tests.doubles.scripted import WAIT
from tests.push.desk import ANN, BOB, CLIENT, EVE, Desk, told
from tests.push.working import OK, Receiver, hook, keep, running

pytestmark = pytest.mark.anyio

FEW = Allowance(hooks=3, waiting=4, waiting_bytes=100)


async def test_no_more_notifications_wait_than_a_tenant_may_have(store: Store) -> None:
    outbox = Outbox(store, Receiver().deliver, account=Account(store, FEW))

    async def put(name: str, body: bytes, tenant: str = "acme") -> Queued:
        return await outbox.enqueue(hook(name, tenant=tenant), body, task="t", content_type="application/json")

    assert [await put(name, b"1") for name in "abcde"] == [Queued.TAKEN] * 4 + [Queued.FULL]
    assert await put("x", b"1", "globex") is Queued.TAKEN
    assert await put("x", b"1" * 99, "globex") is Queued.TAKEN
    assert await put("y", b"1", "globex") is Queued.FULL


async def test_what_is_delivered_makes_room(store: Store) -> None:
    receiver, counted = Receiver(), asyncio.Queue[str]()
    receiver.always = OK
    account = Account(store, FEW)
    outbox = Outbox(store, receiver.deliver, account=account, count=lambda _, result: counted.put_nowait(result))
    await keep(store, hook())
    for round_ in range(3):
        body = b"%d" % round_ * 60
        assert account.has_room_for("acme", 60)
        assert await outbox.enqueue(hook(), body, task="t", content_type="text/plain") is Queued.TAKEN
        assert not account.has_room_for("acme", 60)
        async with running(outbox), asyncio.timeout(WAIT):
            assert await counted.get() == "delivered"
    assert account.has_room_for("acme", 100)


async def test_a_notification_that_came_twice_takes_no_more_room(store: Store) -> None:
    account = Account(store, FEW)
    outbox = Outbox(store, Receiver().deliver, account=account)
    for expected in (Queued.TAKEN, Queued.TWIN, Queued.TWIN):
        assert await outbox.enqueue(hook(), b"1" * 60, task="t", content_type="text/plain") is expected
    assert account.has_room_for("acme", 40)


async def test_no_more_webhooks_are_named_than_a_tenant_may_have(store: Store) -> None:
    desk = Desk(store, account=Account(store, FEW))
    adopted = [await desk.adopt({**CLIENT, "taskId": f"t{number}"}, f"t{number}") for number in range(3)]
    for owner in (ANN, BOB):
        with pytest.raises(PushDenied, match="a tenant must not have more than 3 push configurations"):
            await desk.adopt({**CLIENT, "taskId": "t9"}, "t9", owner=owner)
    await desk.adopt({**CLIENT, "taskId": "t9"}, "t9", owner=EVE)
    # One is let go, one deleted, and one takes the place of another.
    await desk.relay.release(adopted[0].hook_id)
    await desk.adopt({**CLIENT, "taskId": "t3"}, "t3")
    await desk.relay.forget("crm/acme", "t1", "cfg-1")
    again = await desk.adopt({**CLIENT, "taskId": "t2"}, "t2")
    for one in (adopted[2], again):
        await desk.relay.restore(told(one, taskId="t2"), ANN, "crm/acme")
    await desk.adopt({**CLIENT, "taskId": "t4"}, "t4")


async def test_what_was_there_before_counts(store: Store) -> None:
    for number in range(1200):
        await store.keep(Note(HOOK, f"{number:04d}", b"{}", "acme" if number % 2 else "globex"))
    for number in range(3):
        slip = Slip("h", "crm", "acme", "t", "text/plain", 1.0, size=30)
        await store.keep(Note(SLIP, f"{number}", slip.written(), "acme"))
        await store.keep(Note(BODY, f"{number}", b"1" * 30, "acme"))
    await store.keep(Note(SLIP, "poison", b"", "acme"))
    account = Account(store, Allowance(hooks=601, waiting=5, waiting_bytes=100))
    await account.count()
    assert account.has_room_for("acme", 10)
    assert not account.has_room_for("acme", 11)
    account.queued("acme", 0)
    assert not account.has_room_for("acme", 0)
    for tenant in ("acme", "globex"):
        assert account.has_room(tenant)
        account.hooked(tenant)
        assert not account.has_room(tenant)


async def test_bodies_are_not_listed_with_what_is_counted(store: Store) -> None:
    # All kinds that are long come before those that are counted.
    assert BODY < HOOK < slips.KIND


async def test_what_was_forgotten_meanwhile_is_found_out_when_it_is_counted(store: Store) -> None:
    account = Account(store, FEW)
    account.hooked("acme", 3)
    account.queued("acme", 100)
    assert not account.has_room("acme")
    assert not account.has_room_for("acme", 1)
    await account.count()
    assert account.has_room("acme")
    assert account.has_room_for("acme", 100)
