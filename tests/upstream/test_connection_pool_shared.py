"""The pool when tenants want more connections than there are: nobody holds more than a share while others wait."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.a2a.fault import Overloaded
from gateway.upstream.connection_pool import ConnectionPool, PoolLimits
from gateway.upstream.outlier_detection import Reclaimed
from gateway.upstream.response import Response
from gateway.upstream.retry import retry_reason
from tests.support.pooled import flow, pooled, send
from tests.support.scripted import WAIT, ScriptedBackend, Wire, chunk, head, whole

pytestmark = pytest.mark.anyio

STREAM = head(b"transfer-encoding: chunked") + chunk(b"1")
TIMEOUT = 0.4


async def agent(wire: Wire) -> None:
    """Streams without an end to who asks for a stream, never answers who asks to hang, and answers all others."""
    while True:
        asked = (await wire.request()).body
        if asked == b"stream":
            await wire.send(STREAM)
            await wire.hang()
        if asked == b"hang":
            await wire.hang()
        await wire.send(whole(b"ok"))


@asynccontextmanager
async def limited(connections: int, **more: Any) -> AsyncIterator[tuple[ScriptedBackend, ConnectionPool]]:
    limits = PoolLimits(connections=connections, queue_timeout=TIMEOUT, **more)
    async with pooled(agent, limits) as (backend, pool):
        yield backend, pool


async def stream(pool: ConnectionPool, tenant: str, **more: Any) -> Response:
    response = await send(pool, b"stream", tenant=tenant, streams=True, **more)
    taken: list[bytes] = []
    await flow(response, taken, 1)
    assert taken == [b"1"]
    return response


async def plain(pool: ConnectionPool, tenant: str) -> bytes:
    return await (await send(pool, b"plain", tenant=tenant)).read(10, WAIT)


def held(pool: ConnectionPool) -> dict[str, int]:
    return {name: flow.held for name, flow in pool.limiter.flows.items() if flow.held}


def open_ones(streams: list[Response]) -> list[bool]:
    return [each.fault is None for each in streams]


async def test_a_tenant_that_is_alone_may_have_all_connections_and_loses_none_to_itself() -> None:
    async with limited(3) as (_, pool):
        streams = [await stream(pool, "acme") for _ in range(3)]
        with pytest.raises(Overloaded) as refused:
            await plain(pool, "acme")
        assert not isinstance(refused.value, Reclaimed)
        assert open_ones(streams) == [True, True, True]


async def test_a_plain_call_of_another_tenant_gets_through_and_ends_the_newest_stream_alone() -> None:
    async with limited(4) as (_, pool):
        streams = [await stream(pool, "acme") for _ in range(4)]
        assert await plain(pool, "globex") == b"ok"
        assert open_ones(streams) == [True, True, True, False]
        with pytest.raises(Reclaimed, match="subscribe") as ended:
            await streams[3].read(10, WAIT)
        assert ended.value.reason == "overloaded"
        assert retry_reason(ended.value) is None  # the agent has begun: it is never sent again
        # A free place is taken without ending another connection.
        assert await plain(pool, "globex") == b"ok"
        assert open_ones(streams) == [True, True, True, False]
        assert pool.waiting == 0


async def test_each_tenant_gets_its_share_of_connections_and_no_more() -> None:
    async with limited(6) as (_, pool):
        acme = [await stream(pool, "acme") for _ in range(6)]
        globex = [await stream(pool, "globex") for _ in range(3)]
        assert held(pool) == {"acme": 3, "globex": 3}
        with pytest.raises(Overloaded):
            await stream(pool, "globex")
        initech = [await stream(pool, "initech") for _ in range(2)]
        assert held(pool) == {"acme": 2, "globex": 2, "initech": 2}
        assert open_ones(acme + globex + initech) == [True] * 2 + [False] * 4 + [True] * 2 + [False] + [True] * 2


async def test_shares_are_by_weight() -> None:
    async with limited(6) as (_, pool):
        for _ in range(6):
            await stream(pool, "acme", weight=1.0)
        for _ in range(4):
            await stream(pool, "globex", weight=2.0)
        with pytest.raises(Overloaded):
            await stream(pool, "globex", weight=2.0)
        assert held(pool) == {"acme": 2, "globex": 4}


async def test_calls_that_hang_keep_nobody_out_either_and_streams_go_first() -> None:
    async with limited(3) as (backend, pool):
        loop = asyncio.get_running_loop()
        first = await stream(pool, "acme")
        hanging = [loop.create_task(send(pool, b"hang", tenant="acme")) for _ in range(2)]
        await backend.until(lambda: len(backend.requests) == 3)
        one = await stream(pool, "globex")
        assert open_ones([first]) == [False]
        assert not any(task.done() for task in hanging)
        # More than half of three is more than a share.
        assert await plain(pool, "initech") == b"ok"
        assert one.fault is None
        with pytest.raises(Reclaimed, match="may have acted"):
            await hanging[1]
        hanging[0].cancel()
        await asyncio.gather(hanging[0], return_exceptions=True)


async def test_a_queue_that_one_tenant_fills_has_room_for_another() -> None:
    async with limited(2, queue=2) as (_, pool):
        loop = asyncio.get_running_loop()
        streams = [await stream(pool, "acme") for _ in range(2)]
        waiting = [loop.create_task(plain(pool, "acme")) for _ in range(2)]
        while pool.waiting < 2:  # noqa: ASYNC110 - they wait for a short time only
            await asyncio.sleep(0)
        assert await plain(pool, "globex") == b"ok"
        assert open_ones(streams) == [True, False]
        # The place that came free is its turn, now that nobody else wants it.
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert sorted(map(str, map(type, ends))) == sorted(map(str, (bytes, Overloaded)))


async def test_the_gateway_itself_ends_nobodys_stream() -> None:
    async with limited(2) as (_, pool):
        streams = [await stream(pool, "acme") for _ in range(2)]
        with pytest.raises(Overloaded):
            await send(pool, b"plain")
        assert open_ones(streams) == [True, True]


async def test_connections_never_exceed_the_limit() -> None:
    async with limited(3) as (_, pool):
        most = 0

        async def call(number: int) -> None:
            nonlocal most
            tenant = ("acme", "globex", "initech")[number % 3]
            response = await send(pool, b"plain", tenant=tenant, fresh=number % 5 == 0)
            most = max(most, len(pool.connections))
            assert await response.read(10, WAIT) == b"ok"

        await asyncio.gather(*(call(number) for number in range(60)))
        assert most == 3
        assert (pool.active, pool.waiting) == (0, 0)
        assert held(pool) == {}
