"""Notifications of several tenants on their way: whose turn it is."""

import pytest

from gateway.push.outbox import Terms
from gateway.tasks.memory import MemoryStore
from gateway.tasks.store import Store
from tests.push.working import LEASE, OK, Receiver, Wall, Works, hook, keep, running

pytestmark = pytest.mark.anyio


async def test_one_tenant_leaves_room_for_another(store: Store) -> None:
    works = Works(store, Receiver(), Wall())
    many = [hook(name) for name in "abcdef"]
    other = hook("x", tenant="globex")
    await keep(store, *many, other)
    async with running(works.outbox):
        for each in many:
            await works.put(each, b"mine")
        # Nothing of the one is ever answered, and it has its half.
        assert [(await works.receiver.next()).body for _ in range(2)] == [b"mine"] * 2
        works.later(1)
        await works.put(other, b"other")
        assert (await works.receiver.next()).body == b"other"
        await works.turn()
        assert works.receiver.open == 3


async def test_a_tenant_behind_a_thousand_notifications_of_another_is_found() -> None:
    works = Works(MemoryStore(), Receiver(), Wall(), Terms(concurrency=2))
    many = [hook(f"{number:064d}") for number in range(1100)]
    other = hook("x", tenant="globex")
    await keep(works.store, *many, other)
    for each in many:
        await works.put(each, b"mine")
    works.wall.now += 1
    await works.put(other, b"other")
    async with running(works.outbox):
        assert [(await works.receiver.next()).body for _ in range(2)] == [b"mine", b"other"]


async def test_what_waits_for_its_turn_longer_than_its_lease_comes_again(store: Store) -> None:
    works = Works(store, Receiver(), Wall(), Terms(concurrency=1))
    await keep(store, hook("a"), hook("b"))
    for each, body in ((hook("a"), b"1"), (hook("b"), b"2")):
        await works.put(each, body)
        works.wall.now += 1
    async with running(works.outbox):
        assert (await works.receiver.next()).body == b"1"
        # Taken up as well, and nobody could send it before the lease was over.
        works.wall.now += LEASE
        works.receiver.always = OK
        works.receiver.outcomes.put_nowait(OK)
        assert (await works.receiver.next()).body == b"2"
        assert [await works.count(), await works.count()] == ["delivered"] * 2
        await works.turn()
        assert works.receiver.begun.empty()


async def test_tenants_have_turns(store: Store) -> None:
    works = Works(store, Receiver(), Wall(), Terms(concurrency=1))
    mine, yours = [hook(name) for name in "abc"], [hook(name, tenant="globex") for name in "xyz"]
    await keep(store, *mine, *yours)
    for each in mine:
        await works.put(each, b"mine")
    works.wall.now += 1
    for each in yours:
        await works.put(each, b"yours")
    async with running(works.outbox):
        sent = []
        for _ in range(6):
            sent.append((await works.receiver.next()).body)
            works.receiver.outcomes.put_nowait(OK)
    assert sent == [b"mine", b"yours"] * 3
