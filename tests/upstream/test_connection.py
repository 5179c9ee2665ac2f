"""One exchange with an agent that misbehaves in every way of safety.md R2 to R8 and B4, on real sockets."""

import asyncio
import socket

import pytest

from gateway.a2a.fault import UpstreamTimeout
from tests.support.pooled import CHUNKS, ask, assert_dropped, now, pooled, send
from tests.support.scripted import (
    WAIT,
    Wire,
    answers,
    answers_and_closes,
    answers_and_hangs,
    head,
    in_turn,
    whole,
)
from tests.support.undisturbed import undisturbed

pytestmark = pytest.mark.anyio


async def test_an_answer_without_a_length_ends_with_a_clean_close() -> None:
    async with pooled(answers_and_closes(head() + b"hello")) as (backend, pool):
        assert await ask(pool) == b"hello"
        await assert_dropped(backend, pool)


# ---- No answer -----------------------------------------------------------------------------------------------------


@undisturbed(0.1)
async def test_interim_answers_do_not_win_time() -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        for _ in range(7):
            await wire.send(b"HTTP/1.1 102 Processing\r\n\r\n")
            await asyncio.sleep(0.05)
        await wire.hang()

    async with pooled(script) as (_, pool):
        began = now()
        with pytest.raises(UpstreamTimeout):
            await send(pool, first_byte=0.2)
        assert now() - began <= 0.7


# ---- Requests --------------------------------------------------------------------------------------------------------


async def test_a_large_request_goes_out_as_fast_as_the_agent_reads() -> None:
    body = bytes(range(256)) * (40 << 10)  # 10 MiB

    async def script(wire: Wire) -> None:
        await wire.received(1)
        wire.transport.pause_reading()
        await asyncio.sleep(0.05)  # time in which the gateway could fill its buffers
        wire.transport.resume_reading()
        await wire.request()
        await wire.send(whole(b"got it"))
        await wire.hang()

    async with pooled(script) as (backend, pool):
        assert await ask(pool, body) == b"got it"
        assert backend.requests[0].body == body
        assert pool.idle == 1


async def test_an_early_answer_is_taken_and_the_connection_dropped() -> None:
    async def script(wire: Wire) -> None:
        await wire.received(1)
        wire.transport.pause_reading()
        await wire.send(whole(b"too large", status=b"413 Too Large"))
        await wire.hang()

    async with pooled(script) as (backend, pool):
        response = await send(pool, b"x" * (32 << 20))
        assert response.status == 413
        assert await response.read(100, WAIT) == b"too large"
        assert (pool.active, pool.idle) == (0, 0)
        backend.wires[0].transport.resume_reading()
        await assert_dropped(backend, pool)


@undisturbed(0.1)
async def test_an_agent_that_does_not_read_the_request_meets_the_first_byte_deadline() -> None:
    async def script(wire: Wire) -> None:
        await wire.received(1)
        wire.transport.pause_reading()
        await asyncio.sleep(0.4)
        wire.transport.resume_reading()
        await wire.hang()

    async with pooled(script) as (backend, pool):
        began = now()
        with pytest.raises(UpstreamTimeout):
            await send(pool, b"x" * (32 << 20), first_byte=0.2)
        assert now() - began <= 0.7
        await assert_dropped(backend, pool)


# ---- Afterwards ------------------------------------------------------------------------------------------------------


async def test_a_late_answer_never_reaches_the_next_caller() -> None:
    let_go = asyncio.Event()

    async def late(wire: Wire) -> None:
        await wire.request()
        await let_go.wait()
        await wire.send(whole(b"late"))
        await wire.hang()

    async with pooled(in_turn(late, answers(whole(b"mine")))) as (_, pool):
        with pytest.raises(UpstreamTimeout):
            await send(pool, first_byte=0.05)
        let_go.set()
        assert await ask(pool) == b"mine"


async def test_dead_paths_are_noticed_by_the_kernel() -> None:
    async with pooled(answers_and_hangs(CHUNKS)) as (_, pool):
        response = await send(pool)
        [connection] = pool.connections
        assert connection.transport is not None
        sock = connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
        assert [
            sock.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        ] == [15, 5, 3]
        response.close()
