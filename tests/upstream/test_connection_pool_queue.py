"""The pool when there are more calls than connections: bounds, order, deadlines, and who leaves early."""

import asyncio

import pytest

from gateway.a2a.fault import Overloaded, UpstreamReset
from gateway.upstream.connection_pool import ConnectionPool, PoolLimits
from gateway.upstream.response import Response
from tests.support.pooled import ask, now, pooled, send
from tests.support.scripted import (
    WAIT,
    answers,
    answers_and_closes,
    answers_and_hangs,
    chunk,
    chunked,
    head,
    in_turn,
    resets_at_once,
    whole,
)
from tests.support.undisturbed import undisturbed

pytestmark = pytest.mark.anyio

OK = whole(b"ok")
STREAM = head(b"transfer-encoding: chunked") + chunk(b"1")


def start(pool: ConnectionPool, body: bytes = b"{}") -> "asyncio.Task[Response]":
    return asyncio.get_running_loop().create_task(send(pool, body))


async def test_the_queue_is_first_in_first_out() -> None:
    async with pooled(answers(OK), PoolLimits(connections=1, queue_timeout=WAIT)) as (backend, pool):
        await asyncio.gather(*(ask(pool, b"%d" % number) for number in range(20)))
        assert [received.body for received in backend.requests] == [b"%d" % number for number in range(20)]


async def test_a_call_that_needs_a_new_connection_replaces_a_free_one() -> None:
    async with pooled(answers(OK), PoolLimits(connections=1, queue_timeout=WAIT)) as (backend, pool):
        unread = await send(pool)
        loop = asyncio.get_running_loop()
        assert await unread.read(10, WAIT) == b"ok"
        busy, fresh = start(pool, b"busy"), loop.create_task(send(pool, b"fresh", fresh=True))
        await (await busy).read(10, WAIT)
        await (await fresh).read(10, WAIT)
        assert [(received.connection, received.body) for received in backend.requests[1:]] == [
            (0, b"busy"),
            (1, b"fresh"),
        ]
        assert (pool.active, pool.idle) == (0, 1)


async def test_a_full_queue_refuses_at_once() -> None:
    limits = PoolLimits(connections=1, queue=2, queue_timeout=60.0)
    async with pooled(answers_and_hangs(), limits) as (backend, pool):
        tasks = [start(pool) for _ in range(3)]
        await backend.until(lambda: len(backend.requests) == 1)
        assert (pool.active, pool.waiting) == (1, 2)
        async with asyncio.timeout(WAIT):
            with pytest.raises(Overloaded) as refused:
                await send(pool)
        assert refused.value.retry_after == 60.0
        assert "127.0.0.1" not in refused.value.message
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (pool.active, pool.waiting) == (0, 0)


@undisturbed(0.1)
async def test_no_call_queues_longer_than_the_deadline() -> None:
    async with pooled(answers_and_hangs(STREAM), PoolLimits(connections=1, queue_timeout=0.2)) as (backend, pool):
        stream = await send(pool)
        began = now()
        with pytest.raises(Overloaded):
            await send(pool)
        assert 0.19 <= now() - began <= 0.5
        assert (pool.active, pool.waiting) == (1, 0)
        assert len(backend.wires) == 1
        stream.close()


async def test_a_slot_that_fails_goes_to_the_next_in_the_queue() -> None:
    limits = PoolLimits(connections=1, queue_timeout=WAIT)
    async with pooled(in_turn(resets_at_once, answers_and_closes(), answers(OK)), limits) as (backend, pool):
        ends = await asyncio.gather(*(ask(pool) for _ in range(4)), return_exceptions=True)
        assert [type(end) for end in ends] == [UpstreamReset, UpstreamReset, bytes, bytes]
        assert (pool.active, pool.idle) == (0, 1)
        assert len(backend.wires) == 3


async def test_a_slot_given_to_a_call_that_is_cancelled_goes_on() -> None:
    script = in_turn(answers_and_hangs(STREAM), answers(OK))
    async with pooled(script, PoolLimits(connections=1, queue_timeout=WAIT)) as (_, pool):
        stream = await send(pool)
        first, second = start(pool), start(pool)
        await asyncio.sleep(0)
        stream.close()  # the slot is the first one's now, who has not woken yet
        first.cancel()
        assert await (await second).read(10, WAIT) == b"ok"
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (pool.active, pool.idle) == (0, 1)


async def test_an_answer_behind_which_there_may_be_more_ends_its_connection() -> None:
    # Over TLS what comes behind a full buffer is read later, and no look at the socket finds it.
    async with pooled(answers_and_hangs(b"")) as (backend, pool):
        for number, full in enumerate((True, False), 1):
            asking = start(pool)
            await backend.until(lambda number=number: len(backend.requests) == number)  # type: ignore[misc]  # bound now
            connection = next(each for each in pool.connections if each.response is not None)
            buffer = connection.get_buffer(-1)
            size = len(buffer) - (not full) - len(whole(b"x" * 10_000)) + 10_000
            answer = whole(b"x" * size)
            buffer[: len(answer)] = answer
            connection.buffer_updated(len(answer))
            assert len(await (await asking).read(len(buffer), WAIT)) == size
            assert pool.idle == (not full)


async def test_a_call_can_be_cancelled_at_any_turn_of_the_loop() -> None:
    for turns in range(30):
        async with pooled(answers(chunked([b"o", b"k"]))) as (backend, pool):
            task = asyncio.get_running_loop().create_task(ask(pool))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert (pool.active, pool.waiting) == (0, 0)
            await pool.aclose()
            await backend.all_gone()
