"""The queue of notifications: order, retries, tenants, restarts, several gateways."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.a2a.fault import StateUnavailable
from gateway.push.delivery import DeliveryResult, DeliveryRetryPolicy, Outcome, WebhookDelivery
from gateway.push.queue import BODY, DUPLICATE_FOR, ENTRY, MOST_LEASED, Enqueued
from gateway.push.subscription import KIND as SUBSCRIPTION
from gateway.push.subscription import Subscription
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Note, Store
from tests.push.support import (
    AGAIN,
    LEASE,
    OK,
    POLICY,
    Receiver,
    Remote,
    Wall,
    Works,
    keep,
    running,
    subscription,
)
from tests.table import for_each

pytestmark = pytest.mark.anyio


async def sent(works: Works, number: int) -> list[bytes]:
    return [(await works.receiver.next()).body for _ in range(number)]


# ---- Attempts --------------------------------------------------------------------------------------------------------


async def test_a_failed_attempt_is_repeated_after_a_pause_under_the_same_id(store: Store) -> None:
    works = Works(store, Receiver(AGAIN, AGAIN, OK))
    await keep(store, subscription())
    async with running(works.queue):
        await works.put(subscription(), b"{}")
        found = [await works.receiver.next()]
        # Half of what is between the first pause and its double, then between it and four times as much.
        for pause in (1.5, 2.5):
            assert await works.count() == "retried"
            works.later(pause - 0.1)
            await works.turn()
            assert works.receiver.begun.empty()
            works.later(0.1)
            found.append(await works.receiver.next())
        assert await works.count() == "delivered"
    assert len({each.id for each in found}) == 1
    assert [each.attempt for each in found] == [1, 2, 3]


async def test_a_receiver_may_ask_for_a_longer_pause_within_bounds(store: Store) -> None:
    patient = Outcome(DeliveryResult.RETRIED, retry_after=60.0)
    works = Works(store, Receiver(patient, replace(patient, retry_after=86_400.0), OK))
    await keep(store, subscription())
    async with running(works.queue):
        await works.put(subscription(), b"{}")
        await works.count()
        works.later(59.0)
        await works.turn()
        assert works.receiver.begun.qsize() == 1
        works.later(1.0)
        assert await works.count() == "retried"
        works.later(POLICY.longest_pause)
        assert await works.count() == "delivered"


async def test_the_log_says_at_most_once_a_minute_why_attempts_fail(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    works = Works(store, Receiver(always=AGAIN), policy=replace(POLICY, attempts=9))
    await keep(store, subscription())
    async with running(works.queue):
        await works.put(subscription(), b"{}")
        for pause, lines in ((10.0, 1), (60.0, 1), (60.0, 2)):
            assert await works.count() == "retried"
            assert caplog.text.count("is not delivered yet") == lines
            works.later(pause)
    assert "is not delivered yet, after 1 attempts: https://hooks.example answered 503" in caplog.text
    assert "key" not in caplog.text


async def test_a_notification_that_fails_too_often_is_dead(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    works = Works(store, Receiver(always=AGAIN))
    await keep(store, subscription())
    async with running(works.queue):
        await works.put(subscription(), b"{}")
        for expected in ("retried", "retried", "dead"):
            assert await works.count() == expected
            works.later(10.0)
        assert await works.left(subscription()) == 0
    assert "after 3 attempts: https://hooks.example answered 503" in caplog.text
    assert "key" not in caplog.text


@pytest.mark.parametrize("result", [DeliveryResult.DEAD, DeliveryResult.REFUSED])
async def test_a_notification_that_is_not_wanted_or_not_allowed_is_not_tried_again(
    store: Store, result: DeliveryResult
) -> None:
    audited: list[str] = []
    works = Works(store, Receiver(Outcome(result, "no"), OK), audit=lambda _, why: audited.append(why))
    await keep(store, subscription())
    async with running(works.queue):
        await works.put(subscription(), b"1", b"2")
        assert [await works.count(), await works.count()] == [result.value, "delivered"]
    assert audited == (["no"] if result is DeliveryResult.REFUSED else [])


async def test_a_notification_that_is_too_old_is_dead_without_being_sent(store: Store) -> None:
    works = Works(store, Receiver())
    await keep(store, subscription())
    await works.put(subscription(), b"{}")
    works.wall.now += POLICY.keep + 1
    async with running(works.queue):
        assert await works.count() == "dead"
        assert works.receiver.begun.empty()


async def test_a_subscription_that_was_deleted_is_sent_nothing(store: Store) -> None:
    works = Works(store, Receiver(always=OK))
    await keep(store, subscription("b"))
    await works.put(subscription("a"), b"1", b"2")
    await works.put(subscription("b"), b"3")
    async with running(works.queue):
        await works.count()
        while await works.left(subscription("a")):
            await works.turn()
    assert works.receiver.begun.qsize() == 1


async def test_a_defect_is_tried_again_and_stops_nothing_else(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Receiver):
        async def deliver(self, delivery: WebhookDelivery) -> Outcome:
            if delivery.body == b"bad":
                raise ZeroDivisionError
            return await super().deliver(delivery)

    works = Works(store, Broken(OK))
    await keep(store, subscription("a"), subscription("b"))
    async with running(works.queue):
        await works.put(subscription("a"), b"bad")
        assert await works.count() == "retried"
        await works.put(subscription("b"), b"good")
        assert await works.count() == "delivered"
    assert "ZeroDivisionError" in caplog.text


async def test_a_defect_outside_of_an_attempt_stops_nothing_else(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def entitled(asked: Subscription) -> bool:
        return asked.key == subscription("b").key or bool(1 // 0)

    works = Works(store, Receiver(OK), entitled=entitled)
    await keep(store, subscription("a"), subscription("b"))
    async with running(works.queue):
        await works.put(subscription("a"), b"bad")
        await works.put(subscription("b"), b"good")
        assert await works.count() == "delivered"
        await works.turn()
    assert "ZeroDivisionError" in caplog.text
    assert await works.left(subscription("a")) == 1


# ---- Order -----------------------------------------------------------------------------------------------------------


async def test_a_later_state_never_overtakes_an_earlier_one(store: Store) -> None:
    works = Works(store, Receiver(AGAIN, AGAIN))
    await keep(store, subscription())
    async with running(works.queue):
        await works.put(subscription(), b"1", b"2")
        assert await sent(works, 1) == [b"1"]
        await works.count()
        await works.put(subscription(), b"3")
        await works.turn()
        # All leases are over, and still it is the first one's turn.
        works.later(LEASE + 1000)
        assert await sent(works, 1) == [b"1"]
        await works.count()
        works.receiver.always = OK
        works.later(1000)
        assert await sent(works, 3) == [b"1", b"2", b"3"]


async def test_the_order_holds_when_the_clock_goes_back(store: Store) -> None:
    works = Works(store, Receiver(always=OK))
    await keep(store, subscription())
    for body in (b"1", b"2", b"3"):
        await works.put(subscription(), body)
        works.wall.now -= 7200
    works.wall.now += 3 * 7200
    async with running(works.queue):
        assert await sent(works, 3) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("kind", [ENTRY, SUBSCRIPTION])
async def test_a_note_that_cannot_be_read_is_dead_and_stops_nothing_else(store: Store, kind: str) -> None:
    works = Works(store, Receiver(always=OK))
    await keep(store, subscription("a"), subscription("b"))
    if kind == ENTRY:
        await store.keep(Note(ENTRY, "0-poison", b'{"hook":5}', "acme", subscription("a").key, due=1.0))
    else:
        await works.put(subscription("a"), b"lost")
        await store.keep(Note(SUBSCRIPTION, subscription("a").key, b"[]", "acme"))
    async with running(works.queue):
        assert await works.counted.get() == ("-" if kind == ENTRY else "crm", "dead")
        works.wall.now += 1
        await works.put(subscription("b"), b"good")
        assert await sent(works, 1) == [b"good"]
        assert await works.count() == "delivered"
    assert await works.left(subscription("a")) == 0


async def test_a_notification_behind_one_that_cannot_be_read_is_sent(store: Store) -> None:
    works = Works(store, Receiver())
    await keep(store, subscription())
    async with running(works.queue):
        await works.put(subscription(), b"1")
        assert await sent(works, 1) == [b"1"]
        ((first, _),) = await store.group(ENTRY, subscription().key, 1)
        await store.keep(Note(ENTRY, first + "-poison", b"{}", "acme", subscription().key))
        await works.put(subscription(), b"2")
        works.receiver.outcomes.put_nowait(OK)
        assert await sent(works, 1) == [b"2"]


# ---- Bounds ----------------------------------------------------------------------------------------------------------


async def test_the_same_body_for_the_same_webhook_is_taken_once_for_a_while() -> None:
    wall = Wall()
    works = Works(SqliteStore(wall=wall), Receiver(always=OK), wall)
    await keep(works.store, subscription("a"), subscription("b"))
    await works.put(subscription("a"), b"{}")
    assert await works.try_put(subscription("a"), b"{}") is Enqueued.DUPLICATE
    async with running(works.queue):
        await works.count()
    assert await works.try_put(subscription("a"), b"{}") is Enqueued.DUPLICATE
    await works.put(subscription("b"), b"{}")
    await works.put(subscription("a"), b"{ }")
    works.later(DUPLICATE_FOR + 1)
    await works.put(subscription("a"), b"{}")


async def test_one_of_several_concurrent_duplicates_is_taken() -> None:
    far: Store = Remote()
    works = Works(far, Receiver())
    found = await asyncio.gather(*(works.try_put(subscription(), b"{}") for _ in range(3)))
    assert sorted(each.value for each in found) == ["duplicate", "duplicate", "taken"]
    assert await works.left(subscription()) == 1


# ---- Tenants ---------------------------------------------------------------------------------------------------------


def several(names: Sequence[str], tenant: str = "acme") -> list[Subscription]:
    return [subscription(name, tenant=tenant) for name in names]


async def put_all(works: Works, subscriptions: Sequence[Subscription], body: bytes) -> None:
    await keep(works.store, *subscriptions)
    for each in subscriptions:
        await works.put(each, body)


async def test_one_tenant_leaves_room_for_another(store: Store) -> None:
    works = Works(store, Receiver())
    async with running(works.queue):
        await put_all(works, several("abcdef"), b"mine")
        # None of these is ever answered, and they have their half.
        assert await sent(works, 2) == [b"mine"] * 2
        works.later(1)
        await put_all(works, several("x", "globex"), b"other")
        assert await sent(works, 1) == [b"other"]
        await works.turn()
        assert works.receiver.open == 3


async def test_tenants_take_turns(store: Store) -> None:
    works = Works(store, Receiver(), policy=DeliveryRetryPolicy(concurrency=1))
    await put_all(works, several("abc"), b"mine")
    works.wall.now += 1
    await put_all(works, several("xyz", "globex"), b"yours")
    async with running(works.queue):
        found = []
        for _ in range(6):
            found += await sent(works, 1)
            works.receiver.outcomes.put_nowait(OK)
    assert found == [b"mine", b"yours"] * 3


async def test_a_tenant_does_not_wait_behind_thousands_of_another() -> None:
    works = Works(SqliteStore(None), Receiver(), policy=DeliveryRetryPolicy(concurrency=2))
    await put_all(works, several([f"{number:064d}" for number in range(MOST_LEASED + 300)]), b"mine")
    async with running(works.queue):
        assert await sent(works, 1) == [b"mine"]
        await put_all(works, several("x", "globex"), b"other")
        assert await sent(works, 1) == [b"other"]
        # The rest is not lost: it waits for the end of its lease.
        works.receiver.always = OK
        works.receiver.outcomes.put_nowait(OK)
        works.receiver.outcomes.put_nowait(OK)
        for _ in range(MOST_LEASED + 1):
            await works.count()
        works.later(LEASE)
        for _ in range(300):
            await works.count()


async def test_dead_webhooks_do_not_keep_others_of_their_tenant_waiting_again(store: Store) -> None:
    works = Works(store, Receiver(), policy=DeliveryRetryPolicy(concurrency=8, first_pause=1.0))
    async with running(works.queue):
        await put_all(works, several("abcdef"), b"dead")
        # Of its four the tenant may have all with first attempts.
        for _ in range(6):
            await works.receiver.next()
            works.receiver.outcomes.put_nowait(AGAIN)
            assert await works.count() == "retried"
        works.later(5)
        # Retries have half of them, and the others are free.
        assert [(await works.receiver.next()).attempt for _ in range(2)] == [2, 2]
        await works.turn()
        assert works.receiver.open == 2
        await put_all(works, several("x"), b"good")
        assert await sent(works, 1) == [b"good"]


# ---- Stores, restarts, several gateways ------------------------------------------------------------------------------


class Shaky(SqliteStore):
    """A store that may be down."""

    down = False
    asked: asyncio.Event | None = None

    async def due(self, kind: str, now: float, most: int, lease: float) -> list[tuple[str, bytes]]:
        self._refuse()
        return await super().due(kind, now, most, lease)

    async def drop(self, kind: str, key: str) -> bool:
        self._refuse()
        return await super().drop(kind, key)

    def _refuse(self) -> None:
        if self.asked is not None:
            self.asked.set()
        if self.down:
            raise StateUnavailable("down")


async def test_notifications_wait_for_a_store_that_is_down(caplog: pytest.LogCaptureFixture) -> None:
    shaky = Shaky()
    works = Works(shaky, Receiver(always=OK))
    await put_all(works, several("a"), b"{}")
    shaky.down, shaky.asked = True, asyncio.Event()
    async with running(works.queue):
        await shaky.asked.wait()
        shaky.down = False
        works.queue.wake()
        assert await works.count() == "delivered"
    assert caplog.text.count("the store does not answer") == 1


async def test_a_notification_that_was_delivered_but_not_deleted_comes_again_under_the_same_id() -> None:
    shaky = Shaky()
    works = Works(shaky, Receiver())
    async with running(works.queue):
        await put_all(works, several("a"), b"{}")
        first = await works.receiver.next()
        shaky.down = True
        works.receiver.outcomes.put_nowait(OK)
        await works.turn()
        shaky.down = False
        works.receiver.always = OK
        works.later(LEASE + 1)
        assert (await works.receiver.next()).id == first.id
        assert await works.count() == "delivered"


async def test_a_restart_loses_nothing_and_nothing_waits_for_the_end_of_a_lease(tmp_path: Path) -> None:
    wall, before = Wall(), SqliteStore(tmp_path / "state.db")
    await before.open()
    works = Works(before, Receiver(), wall)
    async with running(works.queue):
        await put_all(works, several("abcd"), b"1")
        await works.put(subscription("a"), b"2")
        # Two are on their way, two wait for their turn, one for its predecessor.
        cut = [(await works.receiver.next()).id for _ in range(2)]
        await works.turn()
    await before.aclose()

    after = SqliteStore(tmp_path / "state.db")
    await after.open()
    works = Works(after, Receiver(always=OK), wall)
    async with running(works.queue):
        found = [await works.receiver.next() for _ in range(5)]
        assert sorted(each.body for each in found) == [b"1"] * 4 + [b"2"]
        assert set(cut) < {each.id for each in found}
        assert [await works.count() for _ in range(5)] == ["delivered"] * 5
    await after.aclose()


async def test_the_lease_of_a_process_that_was_killed_ends(store: Store) -> None:
    works = Works(store, Receiver(OK))
    await put_all(works, several("a"), b"{}")
    assert await store.due(ENTRY, works.wall(), 1, LEASE)
    async with running(works.queue):
        await works.turn()
        assert works.receiver.begun.empty()
        works.later(LEASE)
        assert await sent(works, 1) == [b"{}"]
        assert await works.count() == "delivered"


async def test_an_entry_that_is_erased_while_a_gateway_stops_stays_erased(store: Store) -> None:
    works = Works(store, Receiver())
    async with running(works.queue):
        await put_all(works, several("a"), b"{}")
        await works.receiver.next()
        await store.erase("acme")
    assert await works.left(subscription()) == 0


async def test_an_entry_of_the_last_release_is_delivered(store: Store) -> None:
    works = Works(store, Receiver(OK))
    mine = subscription()
    written = (
        b'{"key":"%s","proof":"","scope":"crm/acme","owner":{"tenant":"acme","principal":""},"version":"1.0","mark":"gw-",'
        b'"settled":true,"config":{"url":"https://hooks.example/key","task_id":"task-7"}}' % mine.key.encode()
    )
    entry = (
        b'{"hook":"%s","agent":"crm","tenant":"acme","task":"task-7","content_type":"text/plain","made":%f,"tried":1}'
    )
    await store.keep(Note(SUBSCRIPTION, mine.key, written, "acme"))
    await store.keep(Note(BODY, "0-1", b"{}", "acme"))
    await store.keep(Note(ENTRY, "0-1", entry % (mine.key.encode(), works.wall()), "acme", mine.key, due=1.0))
    async with running(works.queue):
        delivery = await works.receiver.next()
        assert (delivery.body, delivery.attempt, delivery.config) == (b"{}", 2, mine.config)
        assert await works.count() == "delivered"


@for_each("make", [SqliteStore, Remote])
async def test_gateways_of_one_store_lose_nothing_and_keep_the_order(make: type[SqliteStore]) -> None:
    wall, receiver, shared = Wall(), Receiver(always=OK), make()
    both = [Works(shared, receiver, wall) for _ in range(2)]
    subscriptions = several("abcdefgh")
    await keep(shared, *subscriptions)

    async def notify(each: Subscription) -> None:
        for number in range(10):
            await both[number % 2].put(each, b"%s%d" % (each.key[:1].encode(), number))

    async with running(both[0].queue), running(both[1].queue):
        await asyncio.gather(*map(notify, subscriptions))
        found: dict[bytes, list[int]] = {}
        ids: set[str] = set()
        while len(ids) < 80:
            delivery = await receiver.next()
            if delivery.id not in ids:
                ids.add(delivery.id)
                found.setdefault(delivery.body[:1], []).append(int(delivery.body[1:]))
        for works in both:
            await works.turn()
        if make is SqliteStore:
            # Nothing is sent twice, either.
            assert receiver.begun.empty()
    assert list(found.values()) == [list(range(10))] * 8
