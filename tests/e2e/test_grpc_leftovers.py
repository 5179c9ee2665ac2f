"""Streams over gRPC come and go, however they end: no task and no object of the gateway is left of them."""

import asyncio
import gc
import io
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from a2a.types import a2a_pb2, a2a_pb2_grpc
from grpc import aio  # type: ignore[import-untyped]  # it ships no types

from gateway import app
from gateway.app import Gateway
from gateway.commands.key import new_key
from gateway.config.check import examine
from gateway.tasks.state_url import StateUrl
from tests.e2e.process import WAIT, write
from tests.support.assembly import until
from tests.support.names import public_names

pytestmark = pytest.mark.anyio

OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
"""Each channel is a connection of its own."""
KEYS = {name: new_key(name, name) for name in ("acme", "globex")}
WORKING, COMPLETED = a2a_pb2.TASK_STATE_WORKING, a2a_pb2.TASK_STATE_COMPLETED


@dataclass
class Agent(a2a_pb2_grpc.A2AServiceServicer):
    """The agent of one tenant, whose streams are silent from their first event on, until `release` is set."""

    tenant: str
    url: str = ""
    open: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def SendMessage(self, request: a2a_pb2.SendMessageRequest, _: Any) -> a2a_pb2.SendMessageResponse:  # noqa: N802
        message = a2a_pb2.Message(message_id=f"of {self.tenant}", role=a2a_pb2.ROLE_AGENT)
        return a2a_pb2.SendMessageResponse(message=message)

    async def SendStreamingMessage(  # noqa: N802
        self, request: a2a_pb2.SendMessageRequest, _: Any
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        released = self.release
        self.open += 1
        try:
            yield self._update(request.message.message_id, WORKING)
            await released.wait()
            yield self._update(request.message.message_id, COMPLETED)
        finally:
            self.open -= 1

    def _update(self, task: str, state: a2a_pb2.TaskState) -> a2a_pb2.StreamResponse:
        status = a2a_pb2.TaskStatus(state=state)
        update = a2a_pb2.TaskStatusUpdateEvent(task_id=task, context_id=self.tenant, status=status)
        return a2a_pb2.StreamResponse(status_update=update)


@asynccontextmanager
async def agents() -> AsyncIterator[dict[str, Agent]]:
    """One for each tenant."""
    found: dict[str, Agent] = {}
    async with AsyncExitStack() as stack:
        for name in KEYS:
            agent = Agent(name)
            server = aio.server(options=(("grpc.so_reuseport", 0),))
            a2a_pb2_grpc.add_A2AServiceServicer_to_server(agent, server)  # type: ignore[no-untyped-call]  # generated
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            stack.push_async_callback(server.stop, 0)
            agent.url = f"grpc://127.0.0.1:{port}"
            found[name] = agent
        yield found


@asynccontextmanager
async def running(found: Mapping[str, Agent], folder: Path) -> AsyncIterator[Gateway]:
    """A gateway in this loop; each tenant has an agent, which only the `tenant` field picks."""
    agents = {
        f"echo-{name}": {"backend": {"url": agent.url, "a2a_version": "1.0"}, "match": {"tenant": name}}
        for name, agent in found.items()
    }
    configuration = {
        "gateway": {"listen_grpc": "127.0.0.1:0"},
        "auth": {"api_keys": {name: {"sha256": key.sha256, "tenant": name} for name, key in KEYS.items()}},
        "tenants": {name: [f"echo-{name}"] for name in KEYS},
        "defaults": {"isolation": "none"},
        "agents": agents,
    }
    examined = examine(write(configuration, folder), {})
    assert not examined.errors, examined.errors
    gateway = Gateway(examined, access_stream=io.BytesIO(), state=StateUrl("memory"), resolver=public_names())
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop(asyncio.Event())


async def opened(channel: aio.Channel, tenant: str, name: str) -> Any:
    """A stream whose first event has come, after a call beside it."""
    stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]  # generated
    message = a2a_pb2.Message(message_id=name, role=a2a_pb2.ROLE_USER)
    request = a2a_pb2.SendMessageRequest(tenant=tenant, message=message)
    metadata = (("x-api-key", KEYS[tenant].text),)
    async with asyncio.timeout(WAIT):
        stream = stub.SendStreamingMessage(request, metadata=metadata)
        update = (await stream.read()).status_update
        assert (update.context_id, update.task_id, update.status.state) == (tenant, name, WORKING)
        assert (await stub.SendMessage(request, metadata=metadata)).message.message_id == f"of {tenant}"
    return stream


def tasks() -> set[asyncio.Task[Any]]:
    """Those that run code of the gateway."""
    folder = str(Path(app.__file__).parent)
    return {task for task in asyncio.all_tasks() if folder in str(getattr(task.get_coro(), "cr_code", None))}


EXCHANGE = "gateway.proxy.request.RequestContext"
"""There is one for each call that is not over."""


SERIES = "gateway.telemetry.counters.Buckets"
"""A series of a histogram: it stays once it was observed. `test_metrics_are_bounded` counts them."""


def objects() -> Counter[str]:
    """How many objects of each class of the gateway there are, without series of metrics."""
    gc.collect()
    names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    return Counter(name for name in names if name.startswith("gateway.") and name != SERIES)


async def test_however_streams_end_no_task_and_no_object_is_left(tmp_path: Path) -> None:
    async with agents() as found, running(found, tmp_path) as gateway:

        async def come_and_go(count: int) -> Counter[str]:
            """What was there at the height."""
            async with aio.insecure_channel(gateway.grpc_address, options=OPTIONS) as channel:

                async def streams() -> list[Any]:
                    for agent in found.values():
                        agent.release = asyncio.Event()
                    who = [(tenant, f"{tenant}-{number}") for number in range(count // 2) for tenant in KEYS]
                    return await asyncio.gather(*(opened(channel, *each) for each in who))

                left, ended = (await streams(), await streams())
                for call in left:
                    call.cancel()
                for agent in found.values():
                    agent.release.set()
                for call in ended:
                    assert (await call.read()).status_update.status.state == COMPLETED
                    assert await call.read() is aio.EOF
                # These are cut with their connection.
                cut = await streams()
                height = objects()
                assert not any(call.done() for call in cut)
            await until(lambda: not any(agent.open for agent in found.values()))
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
