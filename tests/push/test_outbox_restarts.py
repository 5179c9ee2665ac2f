"""Notifications on their way: through restarts, stores that are down, and several gateways."""

import asyncio
from pathlib import Path

import pytest

from gateway.a2a.fault import StateUnavailable
from gateway.push.delivery import Deliverer
from gateway.push.hook import KIND as HOOK
from gateway.push.hook import Hook
from gateway.push.outbox import SLIP, Outbox
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Note, Store
from tests.doubles.scripted import WAIT, answers, answers_and_closes, in_turn, whole
from tests.push.receiving import local, trusting, url, webhook
from tests.push.working import LEASE, OK, Receiver, Remote, Wall, Works, hook, keep, running

pytestmark = pytest.mark.anyio


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


async def test_a_store_that_is_down_makes_notifications_wait(caplog: pytest.LogCaptureFixture) -> None:
    shaky = Shaky()
    works = Works(shaky, Receiver(), Wall())
    works.receiver.always = OK
    await keep(shaky, hook())
    await works.put(hook(), b"{}")
    shaky.down, shaky.asked = True, asyncio.Event()
    async with running(works.outbox):
        await shaky.asked.wait()
        shaky.down = False
        works.outbox.wake()
        assert await works.count() == "delivered"
    assert caplog.text.count("the store does not answer") == 1


async def test_what_was_delivered_but_not_dropped_comes_again_under_the_same_id() -> None:
    shaky = Shaky()
    works = Works(shaky, Receiver(), Wall())
    await keep(shaky, hook())
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        first = await works.receiver.next()
        shaky.down = True
        works.receiver.outcomes.put_nowait(OK)
        await works.turn()
        shaky.down = False
        works.receiver.always = OK
        works.later(LEASE + 1)
        second = await works.receiver.next()
        assert await works.count() == "delivered"
    assert first.id == second.id


# ---- Restarts --------------------------------------------------------------------------------------------------------


async def test_a_restart_loses_nothing(tmp_path: Path) -> None:
    async with webhook(answers(whole(b"{}"))) as backend:
        mine = hook(to=url(backend))
        before: Store = SqliteStore(tmp_path / "state.db")
        await before.open()
        await keep(before, mine)
        await Works(before, Receiver(), Wall()).put(mine, b"1", b"2", b"3")
        await before.aclose()

        after: Store = SqliteStore(tmp_path / "state.db")
        await after.open()
        delivered: asyncio.Queue[str] = asyncio.Queue()
        deliverer = Deliverer(local(backend), None, tls=trusting(), timeout=60.0)
        outbox = Outbox(after, deliverer.deliver, count=lambda _, result: delivered.put_nowait(result))
        async with running(outbox):
            async with asyncio.timeout(WAIT):
                assert [await delivered.get() for _ in range(3)] == ["delivered"] * 3
        assert [request.body for request in backend.requests] == [b"1", b"2", b"3"]
        assert await after.group(SLIP, mine.key, 10) == []
        await after.aclose()


async def test_what_a_worker_has_when_it_is_stopped_is_due_at_once_for_the_next_one(tmp_path: Path) -> None:
    wall = Wall()
    before: Store = SqliteStore(tmp_path / "state.db")
    await before.open()
    hooks = [hook(name) for name in "abcd"]
    await keep(before, *hooks)
    works = Works(before, Receiver(), wall)
    async with running(works.outbox):
        for each in hooks:
            await works.put(each, each.key[:1].encode())
        # Two are on their way, two wait for their turn.
        cut = [(await works.receiver.next()).id for _ in range(2)]
        await works.turn()
    await before.aclose()

    after: Store = SqliteStore(tmp_path / "state.db")
    await after.open()
    works = Works(after, Receiver(), wall)
    works.receiver.always = OK
    async with running(works.outbox):
        found = [await works.receiver.next() for _ in range(4)]
        assert {each.body for each in found} == {b"a", b"b", b"c", b"d"}
        assert set(cut) < {each.id for each in found}
        assert [await works.count() for _ in range(4)] == ["delivered"] * 4
    await after.aclose()


async def test_what_a_worker_had_that_was_killed_is_sent_again_when_its_lease_is_over(store: Store) -> None:
    works = Works(store, Receiver(OK), Wall())
    await keep(store, hook())
    await works.put(hook(), b"{}")
    # Whoever took it never comes back.
    assert await store.due(SLIP, works.wall(), 1, LEASE)
    async with running(works.outbox):
        await works.turn()
        assert works.receiver.begun.empty()
        works.later(LEASE)
        assert (await works.receiver.next()).body == b"{}"
        assert await works.count() == "delivered"


async def test_what_is_dropped_while_a_worker_stops_stays_dropped(store: Store) -> None:
    works = Works(store, Receiver(), Wall())
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        await works.receiver.next()
        await store.erase("acme")
    assert await works.left(hook()) == 0


@pytest.mark.parametrize("kind", [SLIP, HOOK])
async def test_what_cannot_be_read_is_dead_and_keeps_nothing_else_from_being_sent(store: Store, kind: str) -> None:
    works = Works(store, Receiver(), Wall())
    works.receiver.always = OK
    await keep(store, hook("a"), hook("b"))
    if kind == SLIP:
        await store.keep(Note(SLIP, "0-poison", b'{"hook":5}', "acme", hook("a").key, due=1.0))
    else:
        await works.put(hook("a"), b"lost")
        await store.keep(Note(HOOK, hook("a").key, b"[]", "acme"))
    async with running(works.outbox):
        counted = await works.counted.get()
        assert counted == ("-" if kind == SLIP else "crm", "dead")
        works.wall.now += 1
        await works.put(hook("b"), b"good")
        assert (await works.receiver.next()).body == b"good"
        assert await works.count() == "delivered"
    assert await works.left(hook("a")) == 0


async def test_one_behind_others_that_cannot_be_read_is_sent(store: Store) -> None:
    works = Works(store, Receiver(), Wall())
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"1")
        assert (await works.receiver.next()).body == b"1"
        ((first, _),) = await store.group(SLIP, hook().key, 1)
        await store.keep(Note(SLIP, first + "-poison", b"{}", "acme", hook().key))
        await works.put(hook(), b"2")
        works.receiver.always = OK
        works.receiver.outcomes.put_nowait(OK)
        assert (await works.receiver.next()).body == b"2"


async def test_a_webhook_that_was_down_gets_it_when_it_is_back(store: Store) -> None:
    down = answers_and_closes(whole(b"", status=b"503 Unavailable"))
    async with webhook(in_turn(down, down, answers(whole(b"{}")))) as backend:
        mine, wall = hook(to=url(backend)), Wall()
        await keep(store, mine)
        deliverer = Deliverer(local(backend), None, tls=trusting(), timeout=60.0)
        works = Works(store, deliverer, wall)
        async with running(works.outbox):
            await works.put(mine, b"{}")
            for expected in ("retried", "retried", "delivered"):
                assert await works.count() == expected
                works.later(100.0)
        ids = {request.header(b"x-a2a-delivery") for request in backend.requests}
        assert (len(backend.requests), len(ids)) == (3, 1)


async def test_two_gateways_that_share_a_store_send_each_notification_once_and_in_order(store: Store) -> None:
    wall, receiver = Wall(), Receiver()
    receiver.always = OK
    both = [Works(store, receiver, wall) for _ in range(2)]
    hooks = [hook(name) for name in "abcd"]
    await keep(store, *hooks)
    async with running(both[0].outbox), running(both[1].outbox):
        for number in range(5):
            for each in hooks:
                await both[number % 2].put(each, b"%s %d" % (each.key[:1].encode(), number))
        sent: dict[bytes, list[bytes]] = {}
        for _ in range(20):
            for works in both:
                works.outbox.wake()
            body = (await receiver.next()).body
            sent.setdefault(body[:1], []).append(body[2:])
        assert sent == {name: [b"0", b"1", b"2", b"3", b"4"] for name in (b"a", b"b", b"c", b"d")}
        for works in both:
            await works.turn()
        assert receiver.begun.empty()


async def test_nothing_is_lost_or_overtaken_between_gateways_and_a_store_that_is_far_away() -> None:
    wall, receiver = Wall(), Receiver()
    far: Store = Remote()
    receiver.always = OK
    both = [Works(far, receiver, wall) for _ in range(2)]
    hooks = [hook(name) for name in "abcdefgh"]
    await keep(far, *hooks)

    async def notify(each: Hook) -> None:
        for number in range(10):
            await both[number % 2].put(each, b"%s%d" % (each.key[:1].encode(), number))

    async with running(both[0].outbox), running(both[1].outbox):
        await asyncio.gather(*map(notify, hooks))
        sent: dict[bytes, list[int]] = {}
        while sum(map(len, sent.values())) < 80:
            body = (await receiver.next()).body
            numbers = sent.setdefault(body[:1], [])
            if int(body[1:]) not in numbers:
                numbers.append(int(body[1:]))
    assert list(sent.values()) == [list(range(10))] * 8


async def test_one_notification_that_comes_twice_at_a_time_is_sent_once() -> None:
    far: Store = Remote()
    works = Works(far, Receiver(), Wall())
    await keep(far, hook())
    twins = [works.outbox.enqueue(hook(), b"{}", task="t", content_type="application/json") for _ in range(3)]
    assert sorted(each.value for each in await asyncio.gather(*twins)) == ["taken", "twin", "twin"]
    assert await works.left(hook()) == 1
