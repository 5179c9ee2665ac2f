"""The pool: how connections are reused and let go; what is sent twice and what never is."""

import asyncio
import random
import socket

import pytest

from gateway.a2a.fault import Draining, UpstreamConnect, UpstreamReset
from gateway.upstream import connection_pool as connections
from gateway.upstream.connection_pool import ConnectionPool, Origin, PoolLimits
from gateway.upstream.response import Response
from tests.support.pooled import ask, flow, now, pooled, send
from tests.support.scripted import (
    WAIT,
    Wire,
    answers,
    answers_and_hangs,
    chunk,
    chunked,
    echoes,
    head,
    in_turn,
    refused_port,
    whole,
)
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio

OK = whole(b"ok")
STREAM = head(b"transfer-encoding: chunked") + chunk(b"1")


def start(pool: ConnectionPool, body: bytes = b"{}") -> "asyncio.Task[Response]":
    return asyncio.get_running_loop().create_task(send(pool, body))


# ---- Reuse -----------------------------------------------------------------------------------------------------------


async def test_calls_in_a_row_share_one_connection() -> None:
    async with pooled(answers(OK, chunked([b"o", b"k"]), whole(b"", status=b"204 No Content"))) as (backend, pool):
        assert [await ask(pool) for _ in range(4)] == [b"ok", b"ok", b"", b""]
        assert len(backend.wires) == 1
        assert (pool.active, pool.idle) == (0, 1)


@undisturbed(0.05)
async def test_an_idle_connection_is_closed_after_its_time_and_not_before() -> None:
    async with pooled(answers(OK), PoolLimits(idle=0.2)) as (backend, pool):
        await ask(pool)
        await asyncio.sleep(0.12)  # less than the limit
        await ask(pool)
        rested = now()
        await backend.all_gone()
        assert 0.19 <= now() - rested <= 0.5
        assert len(backend.wires) == 1
        assert pool.idle == 0


@pytest.mark.parametrize(("host", "used"), [("localhost", 3), ("127.0.0.1", 1)])
async def test_a_connection_to_a_name_is_used_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch, host: str, used: int
) -> None:
    # As soon as it is there it is too old.
    monkeypatch.setattr(connections, "NAME_FOR", 0.0)
    async with pooled(answers(OK)) as (backend, _):
        pool = ConnectionPool(Origin("http", host, backend.port))
        for _ in range(3):
            assert await ask(pool) == b"ok"
        assert len(backend.wires) == used
        await backend.until(lambda: backend.open == 1)
        assert (pool.active, pool.idle) == (0, 1)
        await pool.aclose()


async def test_an_idle_connection_that_hears_anything_is_dropped_at_once() -> None:
    for noise in (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", b"\r\n", b"x"):
        async with pooled(in_turn(answers(OK), answers(whole(b"mine")))) as (backend, pool):
            await ask(pool)
            await backend.wires[0].send(noise)
            await backend.all_gone()
            assert pool.idle == 0
            assert await ask(pool) == b"mine"


@for_each("farewell", [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", b""])
async def test_bytes_that_wait_in_the_kernel_prevent_reuse(farewell: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool = ConnectionPool(Origin("http", "127.0.0.1", listener.getsockname()[1]))
        first = start(pool)
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        agent, _ = await asyncio.get_running_loop().run_in_executor(None, listener.accept)
        with agent:
            agent.sendall(OK)
            assert await (await first).read(10, WAIT) == b"ok"
            assert pool.idle == 1
            # Between these two lines the loop does not come round.
            agent.sendall(farewell) if farewell else agent.shutdown(socket.SHUT_WR)
            second = start(pool)
            other, _ = await asyncio.get_running_loop().run_in_executor(None, listener.accept)
            with other:
                other.sendall(whole(b"mine"))
                assert await (await second).read(10, WAIT) == b"mine"
                await pool.aclose()


async def test_answers_never_cross_however_calls_are_cancelled() -> None:
    async with pooled(echoes, PoolLimits(connections=8, queue=400, queue_timeout=WAIT)) as (backend, pool):

        async def call(marker: bytes) -> int:
            response = await send(pool, marker)
            assert await response.read(100, WAIT) == marker
            return 1

        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(call(b"marker %d" % number)) for number in range(400)]
        for number, task in enumerate(tasks):
            if number % 5 == 0:
                loop.call_later(random.random() * 0.1, task.cancel)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [end for end in ends if not isinstance(end, int | asyncio.CancelledError)]
        assert ends.count(1) >= 320
        assert (pool.active, pool.waiting) == (0, 0)
        assert pool.idle <= 8
        await backend.until(lambda: backend.open == pool.idle)


# ---- Connecting ------------------------------------------------------------------------------------------------------


async def test_a_refusal_is_told_at_once_and_only_the_log_knows_where() -> None:
    pool = ConnectionPool(Origin("http", "127.0.0.1", refused_port()))
    # Nothing waits for as long as it may take to connect.
    async with asyncio.timeout(WAIT):
        with pytest.raises(UpstreamConnect) as refused:
            await send(pool, connect=60.0)
    assert type(refused.value) is UpstreamConnect
    assert refused.value.message == "the agent could not be reached"
    assert "127.0.0.1" in refused.value.detail
    assert pool.active == 0
    await pool.aclose()


# ---- Once ------------------------------------------------------------------------------------------------------------


@for_each("part", [b"", b"H"])
async def test_a_call_is_sent_once(part: bytes) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.request()
        await wire.send(part)

    async with pooled(script) as (backend, pool):
        await ask(pool)
        with pytest.raises(UpstreamReset):
            await ask(pool, b"send")
        assert len(backend.requests) == 2
        assert (pool.active, pool.idle) == (0, 0)


# ---- The end ---------------------------------------------------------------------------------------------------------


async def test_closing_the_pool_closes_everything_and_says_so() -> None:
    limits = PoolLimits(connections=2, queue_timeout=WAIT)

    async def answers_once(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.request()
        await wire.hang()

    async with pooled(in_turn(answers_once, answers_and_hangs(STREAM)), limits) as (backend, pool):
        await ask(pool)
        resting = pool.newest()
        assert resting is not None
        streams = [await send(pool)]
        pool.settled(resting, reusable=True)
        assert (pool.active, pool.idle) == (1, 1)
        busy, queued = start(pool, b"busy"), start(pool, b"queued")
        await backend.until(lambda: backend.requests[-1].body == b"busy")
        assert pool.waiting == 1
        await asyncio.gather(pool.aclose(), pool.aclose())
        assert (pool.active, pool.idle, pool.waiting) == (0, 0, 0)
        await backend.all_gone()
        for task in (busy, queued):
            with pytest.raises(Draining):
                await task
        with pytest.raises(Draining):
            await send(pool)
        taken: list[bytes] = []
        with pytest.raises(Draining):
            await flow(streams[0], taken, 2)
        assert taken == [b"1"]


@for_each(
    ("origin", "authority_of"),
    [
        (Origin("http", "agent", 80), "agent"),
        (Origin("https", "agent", 443), "agent"),
        (Origin("http", "agent", 443), "agent:443"),
        (Origin("https", "::1", 8443), "[::1]:8443"),
    ],
)
def test_the_host_header_names_the_port_where_it_is_not_the_usual_one(origin: Origin, authority_of: str) -> None:
    assert origin.authority == authority_of
