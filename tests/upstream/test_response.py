"""An answer while it comes: whole or as a stream, cut, silent, held back, given up."""

import asyncio

import pytest

from gateway.upstream.upstream import AnswerTooLong
from tests.support.pooled import CHUNKS, ask, assert_dropped, pooled, send
from tests.support.scripted import (
    WAIT,
    Wire,
    answers,
    chunk,
    endless,
    in_turn,
    whole,
)

pytestmark = pytest.mark.anyio

# ---- Held back -----------------------------------------------------------------------------------------------------


async def test_a_reader_that_does_not_read_holds_the_agent_back() -> None:
    async with pooled(endless(CHUNKS, chunk(b"x" * 10_000))) as (backend, pool):
        response = await send(pool)
        await backend.until(lambda: backend.wires[0].stuck)
        # The kernel holds some, we hold one read at most above the limit.
        assert response.reader.held <= 64 * 1024 + 256 * 1024
        with pytest.raises(AnswerTooLong):
            await response.read(30 << 20, WAIT)
        assert response.reader.held <= 64 * 1024 + 256 * 1024
        await assert_dropped(backend, pool)


async def test_held_back_answers_arrive_whole() -> None:
    size = 8 << 20
    async with pooled(in_turn(answers(whole(b"x" * size)), answers(whole(b"next")))) as (backend, pool):
        response = await send(pool)
        await backend.until(lambda: response.reader.held > 32 * 1024)
        assert len(await response.read(size, WAIT)) == size
        # And the connection listens again: the agent's close is seen while it rests.
        assert pool.idle == 1
        backend.wires[0].close()
        await backend.all_gone()
        assert await ask(pool) == b"next"


async def test_nothing_is_held_of_a_stream_whose_client_does_not_read() -> None:
    async with pooled(endless(CHUNKS, chunk(b"x" * 1000))) as (backend, pool):
        response = await send(pool)
        full, reads, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        taken: list[int] = []

        def take(data: bytes) -> bool:
            taken.append(len(data))
            if reads.is_set() and sum(taken) > 1 << 20:
                goes_on.set()
            # Bytes that came before the flow are taken.
            return reads.is_set() or len(taken) < 2

        async def settle() -> None:
            full.set()
            await reads.wait()

        flowing = asyncio.ensure_future(response.flow(take, settle, WAIT))
        await full.wait()
        await backend.until(lambda: backend.wires[0].stuck)
        assert response.reader.held == 0
        assert taken[-1] <= 32 * 1024
        reads.set()
        await asyncio.wait_for(goes_on.wait(), WAIT)
        flowing.cancel()
        await asyncio.gather(flowing, return_exceptions=True)


# ---- Disowned --------------------------------------------------------------------------------------------------------


async def test_a_connection_whose_answer_was_none_to_the_call_serves_no_other() -> None:
    async with pooled(answers(whole(b"of another"))) as (backend, pool):
        response = await send(pool)
        assert await response.read(100, WAIT) == b"of another"
        assert pool.idle == 1
        response.disown()
        await assert_dropped(backend, pool)


async def test_an_exchange_that_had_begun_when_the_one_before_was_disowned_is_the_last() -> None:
    go_on = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(whole(b"one"))
        await wire.request()
        await go_on.wait()
        await wire.send(whole(b"two"))
        await wire.hang()

    async with pooled(script) as (backend, pool):
        first = await send(pool)
        assert await first.read(100, WAIT) == b"one"
        second = asyncio.ensure_future(ask(pool))
        await backend.until(lambda: len(backend.requests) == 2)
        first.disown()
        go_on.set()
        assert await second == b"two"
        assert [received.connection for received in backend.requests] == [0, 0]
        await assert_dropped(backend, pool)
