"""Streams over gRPC come and go, however they end: no task and no object of the gateway is left of them."""

import asyncio
import gc
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway import app
from gateway.a2a.operation import Operation
from tests.support.assembly import until
from tests.support.grpc_agent import Asked
from tests.support.grpc_events import status
from tests.support.grpc_gateway import dialled, grpc_fronted

pytestmark = pytest.mark.anyio

FIRST, LAST = status(), status("TASK_STATE_COMPLETED")
EXCHANGE = "gateway.proxy.request.RequestContext"
"""There is one for each call that is not over."""
SERIES = "gateway.telemetry.counters.Buckets"
"""A series of a histogram: it stays once it was observed. `test_metrics_are_bounded` counts them."""


class Agent:
    """Its streams are silent behind their first event, until `release` is set."""

    def __init__(self) -> None:
        self.open = 0
        self.release = asyncio.Event()

    async def __call__(self, asked: Asked) -> None:
        released = self.release
        self.open += 1
        try:
            await asked.write(FIRST)
            await released.wait()
            await asked.write(LAST)
        finally:
            self.open -= 1


def tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks that run the gateway's code, without the wait for the next call, which the agent also has."""
    folder = str(Path(app.__file__).parent)
    running = {task: getattr(task.get_coro(), "cr_code", None) for task in asyncio.all_tasks()}
    return {task for task, code in running.items() if folder in str(code) and "_request_call" not in str(code)}


def objects() -> Counter[str]:
    """Return the number of objects of each class of the gateway, without series of metrics."""
    gc.collect()
    names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    return Counter(name for name in names if name.startswith("gateway.") and name != SERIES)


async def test_however_streams_end_no_task_and_no_object_is_left() -> None:
    agent = Agent()
    async with grpc_fronted(agent, backend='a2a_version: "1.0"', before="defaults: { isolation: none }") as site:

        async def come_and_go(count: int) -> Counter[str]:
            """Return the objects that existed while all clients were connected."""
            async with dialled(site.gateway) as client:

                async def begun() -> list[Any]:
                    agent.release = asyncio.Event()
                    streams = [client.stream(Operation.SEND_STREAMING_MESSAGE) for _ in range(count)]
                    assert [await stream.next() for stream in streams] == [FIRST] * count
                    return streams

                for stream in await begun():
                    stream.cancel()
                ended = await begun()
                agent.release.set()
                assert [(await stream.end()).messages for stream in ended] == [(FIRST, LAST)] * count
                # These are cut with their connection.
                await begun()
                height = objects()
            await until(lambda: not agent.open)
            site.play(agent)
            return height

        await come_and_go(10)
        await until(lambda: not objects()[EXCHANGE])
        tasks_before, objects_before = tasks(), objects()
        height = await come_and_go(50)
        assert height[EXCHANGE] >= 50
        with suppress(TimeoutError):
            await until(lambda: tasks() <= tasks_before and not objects() - objects_before)
        assert tasks() <= tasks_before
        assert objects() - objects_before == {}
