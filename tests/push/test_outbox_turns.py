"""Notifications of several tenants on their way: whose turn it is."""

import pytest

from gateway.push.outbox import Terms
from gateway.push.turns import MOST_HELD
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Store
from tests.push.working import AGAIN, LEASE, OK, Receiver, Wall, Works, hook, keep, running

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
    works = Works(SqliteStore(None), Receiver(), Wall(), Terms(concurrency=2))
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


async def test_what_is_too_much_for_a_moment_goes_out_a_moment_later(store: Store) -> None:
    works = Works(store, Receiver(), Wall(), Terms(concurrency=4))
    many = [hook(f"{number:064d}") for number in range(MOST_HELD + 150)]
    await keep(store, *many)
    for each in many:
        await works.put(each, b"mine")
    works.receiver.always = OK
    async with running(works.outbox):
        for _ in range(MOST_HELD):
            assert await works.count() == "delivered"
        # Long before the lease of anything is over.
        works.later(1.5)
        for _ in range(150):
            assert await works.count() == "delivered"


async def test_while_one_has_thousands_that_are_due_another_does_not_wait(store: Store) -> None:
    works = Works(store, Receiver(), Wall(), Terms(concurrency=2))
    many = [hook(f"{number:064d}") for number in range(MOST_HELD + 1500)]
    other = hook("x", tenant="globex")
    await keep(store, *many, other)
    for each in many:
        await works.put(each, b"mine")
    async with running(works.outbox):
        assert (await works.receiver.next()).body == b"mine"
        await works.turn()
        await works.put(other, b"other")
        assert (await works.receiver.next()).body == b"other"


async def test_webhooks_that_never_answer_do_not_keep_those_of_the_same_tenant_waiting_again(store: Store) -> None:
    works = Works(store, Receiver(), Wall(), Terms(concurrency=8, first_pause=1.0))
    dead = [hook(name) for name in "abcdef"]
    await keep(store, *dead, hook("x"))
    async with running(works.outbox):
        for each in dead:
            await works.put(each, b"dead")
        # Of its four the tenant may have all with what is new.
        for _ in dead:
            await works.receiver.next()
            works.receiver.outcomes.put_nowait(AGAIN)
            assert await works.count() == "retried"
        works.later(5)
        # What is tried again has half of them, and the others are free.
        for _ in range(2):
            assert (await works.receiver.next()).attempt == 2
        await works.turn()
        assert works.receiver.open == 2
        await works.put(hook("x"), b"good")
        assert (await works.receiver.next()).body == b"good"
