"""Notifications on their way: in order, again and again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.config.push import Deliver
from gateway.push.delivery import Delivery, Outcome, Result
from gateway.push.outbox import BODY, MOST_WAITING, SAME_FOR, SLIP, Queued, Terms, pause_after
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Store
from tests.push.working import AGAIN, LEASE, OK, TERMS, Receiver, Wall, Works, hook, keep, running

pytestmark = pytest.mark.anyio


async def test_a_notification_is_delivered_and_gone(store: Store) -> None:
    works = Works(store, Receiver(OK), Wall())
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        sent = await works.receiver.next()
        assert (sent.body, sent.task_id, sent.content_type, sent.attempt) == (b"{}", "task-7", "application/json", 1)
        assert sent.config == hook().config
        assert len(sent.id) == 32
        assert await works.count() == "delivered"
        assert await works.left(hook()) == 0


async def test_nothing_of_a_delivered_notification_stays_but_that_it_was(store: Store) -> None:
    works = Works(store, Receiver(OK), Wall())
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        key = (await store.group(SLIP, hook().key, 1))[0][0]
        await works.count()
        assert await store.note(BODY, key) is None
        assert await store.note(SLIP, key) is None


async def test_what_failed_is_tried_again_after_a_pause_under_the_same_id(store: Store) -> None:
    works = Works(store, Receiver(AGAIN, AGAIN, OK), Wall())
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        first = await works.receiver.next()
        assert await works.count() == "retried"
        await works.turn()
        assert works.receiver.begun.empty()
        works.later(1.5)
        second = await works.receiver.next()
        assert await works.count() == "retried"
        works.later(1.5)
        await works.turn()
        assert works.receiver.begun.empty()
        works.later(1.0)
        third = await works.receiver.next()
        assert await works.count() == "delivered"
    assert first.id == second.id == third.id
    assert [each.attempt for each in (first, second, third)] == [1, 2, 3]


async def test_a_receiver_may_ask_for_a_longer_pause_but_not_for_any(store: Store) -> None:
    patient = Outcome(Result.RETRIED, pause=60.0)
    works = Works(store, Receiver(patient, Outcome(Result.RETRIED, pause=86_400.0), OK), Wall())
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        await works.count()
        works.later(59.0)
        await works.turn()
        assert works.receiver.begun.qsize() == 1
        works.later(1.0)
        assert await works.count() == "retried"
        works.later(TERMS.longest_pause)
        assert await works.count() == "delivered"


async def test_the_log_says_at_most_once_a_minute_why_attempts_fail(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    works = Works(store, Receiver(AGAIN, AGAIN, AGAIN), Wall(), replace(TERMS, attempts=9))
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        for pause, lines in ((10.0, 1), (60.0, 1), (60.0, 2)):
            assert await works.count() == "retried"
            assert caplog.text.count("is not delivered yet") == lines
            works.later(pause)
    assert "is not delivered yet, after 1 attempts: https://hooks.example answered 503" in caplog.text
    assert "key" not in caplog.text


async def test_what_fails_too_often_is_dead_and_counted(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    works = Works(store, Receiver(), Wall())
    works.receiver.always = AGAIN
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        for expected in ("retried", "retried", "dead"):
            assert await works.count() == expected
            works.later(10.0)
        assert await works.left(hook()) == 0
    assert "answered 503" in caplog.text
    assert "after 3 attempts" in caplog.text
    assert "key" not in caplog.text


@pytest.mark.parametrize("result", [Result.DEAD, Result.REFUSED])
async def test_what_is_not_wanted_or_not_allowed_is_not_tried_again(store: Store, result: Result) -> None:
    works = Works(store, Receiver(Outcome(result)), Wall())
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        assert await works.count() == result.value
        assert await works.left(hook()) == 0


async def test_a_later_state_never_overtakes_an_earlier_one(store: Store) -> None:
    works = Works(store, Receiver(AGAIN, AGAIN), Wall())
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"1", b"2")
        assert (await works.receiver.next()).body == b"1"
        await works.count()
        await works.put(hook(), b"3")
        await works.turn()
        # All leases are over, and still it is the first one's turn.
        works.later(LEASE + 1000)
        assert (await works.receiver.next()).body == b"1"
        await works.count()
        works.receiver.always = OK
        works.later(1000)
        assert [(await works.receiver.next()).body for _ in range(3)] == [b"1", b"2", b"3"]
        for _ in range(3):
            await works.count()
    assert await works.left(hook()) == 0


async def test_what_comes_behind_a_dead_one_is_sent_all_the_same(store: Store) -> None:
    works = Works(store, Receiver(Outcome(Result.DEAD), OK), Wall())
    await keep(store, hook())
    async with running(works.outbox):
        await works.put(hook(), b"1", b"2")
        assert [await works.count(), await works.count()] == ["dead", "delivered"]


async def test_one_webhook_does_not_wait_for_another(store: Store) -> None:
    works = Works(store, Receiver(), Wall())
    await keep(store, hook("a"), hook("b"))
    async with running(works.outbox):
        await works.put(hook("a"), b"1", b"2")
        await works.put(hook("b"), b"3")
        assert {(await works.receiver.next()).body for _ in range(2)} == {b"1", b"3"}
        await works.turn()
        assert works.receiver.open == 2


async def test_keys_rise_when_the_clock_goes_back(store: Store) -> None:
    works = Works(store, Receiver(), Wall())
    works.receiver.always = OK
    await keep(store, hook())
    for body in (b"1", b"2", b"3"):
        await works.put(hook(), body)
        works.wall.now -= 7200
    works.wall.now += 3 * 7200
    async with running(works.outbox):
        assert [(await works.receiver.next()).body for _ in range(3)] == [b"1", b"2", b"3"]


async def test_the_same_body_for_the_same_hook_is_taken_once(store: Store) -> None:
    works = Works(store, Receiver(), Wall())
    works.receiver.always = OK
    await keep(store, hook("a"), hook("b"))
    async with running(works.outbox):
        await works.put(hook("a"), b"{}")
        await works.count()
        twin = await works.outbox.enqueue(hook("a"), b"{}", task="task-7", content_type="application/json")
        assert twin is Queued.TWIN
        await works.put(hook("b"), b"{}")
        await works.put(hook("a"), b"{ }")
        assert {await works.count() for _ in range(2)} == {"delivered"}
        assert works.receiver.begun.qsize() == 3


async def test_the_same_body_much_later_is_another_notification() -> None:
    wall = Wall()
    works = Works(SqliteStore(wall=wall), Receiver(), wall)
    await keep(works.store, hook())
    await works.put(hook(), b"{}")
    works.later(SAME_FOR + 1)
    await works.put(hook(), b"{}")
    assert await works.left(hook()) == 2


async def test_no_more_wait_for_a_webhook_than_may(store: Store) -> None:
    works = Works(store, Receiver(), Wall())
    await keep(store, hook("a"), hook("b"))
    await works.put(hook("a"), *(b"%d" % number for number in range(MOST_WAITING)))
    full = await works.outbox.enqueue(hook("a"), b"x", task="task-7", content_type="application/json")
    assert full is Queued.FULL
    await works.put(hook("b"), b"x")


async def test_what_is_too_old_is_dead_without_being_sent(store: Store) -> None:
    works = Works(store, Receiver(), Wall())
    await keep(store, hook())
    await works.put(hook(), b"{}")
    works.wall.now += TERMS.keep + 1
    async with running(works.outbox):
        assert await works.count() == "dead"
        assert works.receiver.begun.empty()


async def test_what_a_client_has_deleted_the_hook_of_is_gone(store: Store) -> None:
    works = Works(store, Receiver(), Wall())
    works.receiver.always = OK
    await keep(store, hook("b"))
    await works.put(hook("a"), b"1", b"2")
    await works.put(hook("b"), b"3")
    async with running(works.outbox):
        await works.count()
        while await works.left(hook("a")):
            await works.turn()
    assert works.receiver.begun.qsize() == 1


async def test_a_defect_is_tried_again_and_stops_nothing_else(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Receiver):
        async def deliver(self, delivery: Delivery) -> Outcome:
            if delivery.body == b"bad":
                raise ZeroDivisionError
            return await super().deliver(delivery)

    works = Works(store, Broken(OK), Wall())
    await keep(store, hook("a"), hook("b"))
    async with running(works.outbox):
        await works.put(hook("a"), b"bad")
        assert await works.count() == "retried"
        await works.put(hook("b"), b"good")
        assert await works.count() == "delivered"
    assert "ZeroDivisionError" in caplog.text


@given(tried=st.integers(1, 100), chance=st.floats(0, 1))
def test_pauses_grow_between_their_bounds(tried: int, chance: float) -> None:
    terms = Terms(first_pause=2.0, longest_pause=60.0)
    assert 2.0 <= pause_after(tried, chance, terms) <= min(60.0, 2.0 * 2.0**tried)
    assert pause_after(tried, 0.0, terms) <= pause_after(tried, chance, terms) <= pause_after(tried, 1.0, terms)
    assert pause_after(tried, chance, Terms(first_pause=9.0, longest_pause=3.0)) == 3.0


async def test_by_default_a_receiver_that_is_down_for_an_hour_misses_nothing(store: Store) -> None:
    works = Works(store, Receiver(), Wall(), Terms())
    await keep(store, hook())
    came = works.wall.now
    async with running(works.outbox):
        await works.put(hook(), b"{}")
        while works.wall.now < came + 3600:
            await works.receiver.next()
            works.receiver.outcomes.put_nowait(AGAIN)
            assert await works.count() == "retried"
            # However lucky: no pause is shorter.
            works.later(Terms().first_pause + 0.5 * Terms().longest_pause)
        await works.receiver.next()
        works.receiver.outcomes.put_nowait(OK)
        assert await works.count() == "delivered"


def test_by_default_the_time_ends_attempts_and_not_their_number() -> None:
    terms = Terms()
    assert sum(pause_after(tried, 0.5, terms) for tried in range(1, terms.attempts)) > terms.keep
    written = Deliver()
    assert {name: getattr(written, name) for name in Terms.__struct_fields__} == {
        name: getattr(terms, name) for name in Terms.__struct_fields__
    }
