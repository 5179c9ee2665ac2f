"""Each tenant's quota in the store for its webhooks."""

import asyncio

import pytest

from gateway.a2a.fault import PushDenied
from gateway.push.queue import BODY, ENTRY, DeliveryQueue, Enqueued, NotificationQuota, NotificationUsage, QueueEntry
from gateway.push.subscription import KIND as SUBSCRIPTION
from gateway.tasks.store import Note, Store
from tests.push.support import ANN, BOB, CLIENT, EVE, OK, Desk, Receiver, keep, running, subscription, told
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio

FEW = NotificationQuota(subscriptions=3, waiting=4, waiting_bytes=100)


async def test_no_more_notifications_wait_than_a_tenant_may_have(store: Store) -> None:
    queue = DeliveryQueue(store, Receiver().deliver, usage=NotificationUsage(store, FEW))

    async def put(name: str, body: bytes, tenant: str = "acme") -> Enqueued:
        return await queue.enqueue(subscription(name, tenant=tenant), body, task="t", content_type="application/json")

    assert [await put(name, b"1") for name in "abcde"] == [Enqueued.TAKEN] * 4 + [Enqueued.FULL]
    assert await put("x", b"1", "globex") is Enqueued.TAKEN
    assert await put("x", b"1" * 99, "globex") is Enqueued.TAKEN
    assert await put("y", b"1", "globex") is Enqueued.FULL


async def test_delivered_notifications_free_quota(store: Store) -> None:
    receiver, counted = Receiver(), asyncio.Queue[str]()
    receiver.always = OK
    usage = NotificationUsage(store, FEW)
    queue = DeliveryQueue(store, receiver.deliver, usage=usage, count=lambda _, result: counted.put_nowait(result))
    await keep(store, subscription())
    for round_ in range(3):
        body = b"%d" % round_ * 60
        assert usage.has_room_for("acme", 60)
        assert await queue.enqueue(subscription(), body, task="t", content_type="text/plain") is Enqueued.TAKEN
        assert not usage.has_room_for("acme", 60)
        async with running(queue), asyncio.timeout(WAIT):
            assert await counted.get() == "delivered"
    assert usage.has_room_for("acme", 100)


async def test_no_more_webhooks_are_named_than_a_tenant_may_have(store: Store) -> None:
    desk = Desk(store, usage=NotificationUsage(store, FEW))
    adopted = [await desk.register({**CLIENT, "taskId": f"t{number}"}, f"t{number}") for number in range(3)]
    for owner in (ANN, BOB):
        with pytest.raises(PushDenied, match="a tenant must not have more than 3 push configurations"):
            await desk.register({**CLIENT, "taskId": "t9"}, "t9", owner=owner)
    await desk.register({**CLIENT, "taskId": "t9"}, "t9", owner=EVE)
    # One is let go, one deleted, and one takes the place of another.
    await desk.relay.release(adopted[0].key)
    await desk.register({**CLIENT, "taskId": "t3"}, "t3")
    await desk.relay.forget("crm/acme", "t1", "cfg-1")
    again = await desk.register({**CLIENT, "taskId": "t2"}, "t2")
    for one in (adopted[2], again):
        await desk.relay.restore(told(one, taskId="t2"), ANN, "crm/acme")
    await desk.register({**CLIENT, "taskId": "t4"}, "t4")


async def test_stored_notifications_count_after_a_start(store: Store) -> None:
    for number in range(1200):
        await store.keep(Note(SUBSCRIPTION, f"{number:04d}", b"{}", "acme" if number % 2 else "globex"))
    for number in range(3):
        entry = QueueEntry("h", "crm", "acme", "t", "text/plain", 1.0, size=30)
        await store.keep(Note(ENTRY, f"{number}", entry.encode(), "acme"))
        await store.keep(Note(BODY, f"{number}", b"1" * 30, "acme"))
    await store.keep(Note(ENTRY, "poison", b"", "acme"))
    usage = NotificationUsage(store, NotificationQuota(subscriptions=601, waiting=5, waiting_bytes=100))
    await usage.count()
    assert usage.has_room_for("acme", 10)
    assert not usage.has_room_for("acme", 11)
    usage.queued("acme", 0)
    assert not usage.has_room_for("acme", 0)
    for tenant in ("acme", "globex"):
        assert usage.has_room(tenant)
        usage.subscribed(tenant)
        assert not usage.has_room(tenant)


async def test_waiting_notifications_are_counted_by_agent_with_their_age(store: Store) -> None:
    usage = NotificationUsage(store, FEW)
    await usage.count_entries()
    assert (usage.waiting, usage.oldest) == ({}, None)
    for key, entry in (
        ("2", QueueEntry("s1", "crm", "acme", "t", "application/json", 200.0)),
        ("1", QueueEntry("s1", "crm", "acme", "t", "application/json", 100.0)),
        ("3", QueueEntry("s2", "hr", "globex", "t", "application/json", 300.0)),
    ):
        await store.keep(Note(ENTRY, key, entry.encode(), entry.tenant))
    await usage.count_entries()
    assert (usage.waiting, usage.oldest) == ({"crm": 2, "hr": 1}, 100.0)
