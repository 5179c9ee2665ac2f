"""A thousand idle streams over gRPC and two hundred calls at a time beside them: nothing is lost, nothing is left."""

import asyncio
import gc
import io
import itertools
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from a2a.types import a2a_pb2, a2a_pb2_grpc
from grpc import aio  # type: ignore[import-untyped]  # it ships no types
from prometheus_client.parser import text_string_to_metric_families

from gateway import app
from gateway.app import Gateway
from gateway.commands.key import new_key
from gateway.config.check import examine
from gateway.tasks.state_url import StateUrl
from tests.e2e.process import WAIT, GatewayProcess, gateway_process, write
from tests.support.assembly import until
from tests.support.names import public_names

pytestmark = pytest.mark.anyio

MARGIN = 8 * 1024 * 1024
"""Bytes by which the process may stay above its base: what it held when a crowd as large had come and gone before.

A process that was never crowded is no base: the allocators of Python and of the C library keep most of what a crowd
has used, for the next one.
"""
PER_CHANNEL = 100
"""Streams that share a connection."""
CALL_CHANNELS = 8
OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
"""Each channel is a connection of its own."""

KEYS = {name: new_key(name, name) for name in ("acme", "globex")}


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done.

    Attributes:
        streams: Open all the while, and idle.
        calls: At a time.
        before: Seconds for which the first crowd calls.
        seconds: Seconds for which the second one does, which counts.
        within: Seconds after which nothing may be left.
    """

    streams: int
    calls: int
    before: float
    seconds: float
    within: float


LONG = Size(1_000, 200, 5.0, 60.0, 2.0)


# ---- Agents --------------------------------------------------------------------------------------------------------


@dataclass
class Agent(a2a_pb2_grpc.A2AServiceServicer):
    """The agent of one tenant, on a2a-sdk's own service; what it says has the tenant's name in it.

    A stream is silent from its first event on, until `release` is set.

    Attributes:
        seen: Calls and streams that were asked for.
    """

    tenant: str
    url: str = ""
    open: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)
    seen: Counter[str] = field(default_factory=Counter)

    async def SendMessage(self, request: a2a_pb2.SendMessageRequest, _: Any) -> a2a_pb2.SendMessageResponse:  # noqa: N802
        self.seen["calls"] += 1
        message = a2a_pb2.Message(
            message_id="answer",
            role=a2a_pb2.ROLE_AGENT,
            parts=[a2a_pb2.Part(text=f"{self.tenant} heard {request.message.parts[0].text}")],
        )
        return a2a_pb2.SendMessageResponse(message=message)

    async def SendStreamingMessage(  # noqa: N802
        self, request: a2a_pb2.SendMessageRequest, _: Any
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        self.seen["streams"] += 1
        text = request.message.parts[0].text
        released = self.release
        self.open += 1
        try:
            yield self._update(text, a2a_pb2.TASK_STATE_WORKING)
            await released.wait()
            yield self._update(text, a2a_pb2.TASK_STATE_COMPLETED)
        finally:
            self.open -= 1

    def _update(self, text: str, state: a2a_pb2.TaskState) -> a2a_pb2.StreamResponse:
        update = a2a_pb2.TaskStatusUpdateEvent(
            task_id=text, context_id=self.tenant, status=a2a_pb2.TaskStatus(state=state)
        )
        return a2a_pb2.StreamResponse(status_update=update)


@asynccontextmanager
async def agents() -> AsyncIterator[dict[str, Agent]]:
    """One for each tenant."""
    found: dict[str, Agent] = {}
    async with AsyncExitStack() as until:
        for name in KEYS:
            agent = Agent(name)
            server = aio.server(options=(("grpc.so_reuseport", 0),))
            a2a_pb2_grpc.add_A2AServiceServicer_to_server(agent, server)  # type: ignore[no-untyped-call]  # generated
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            until.push_async_callback(server.stop, 0)
            agent.url = f"grpc://127.0.0.1:{port}"
            found[name] = agent
        yield found


def site(found: Mapping[str, Agent]) -> dict[str, object]:
    """Each tenant has an agent, which only the `tenant` field picks."""
    return {
        "gateway": {"listen_grpc": "127.0.0.1:0"},
        "auth": {"api_keys": {name: {"sha256": key.sha256, "tenant": name} for name, key in KEYS.items()}},
        "tenants": {name: [f"echo-{name}"] for name in KEYS},
        "defaults": {"isolation": "none"},
        "agents": {
            f"echo-{name}": {"backend": {"url": agent.url, "a2a_version": "1.0"}, "match": {"tenant": name}}
            for name, agent in found.items()
        },
    }


# ---- Clients -------------------------------------------------------------------------------------------------------


class Crowd:
    """All clients, of both tenants in turns; their connections are closed at the end of the block.

    Attributes:
        streams: Those that are open, each with its tenant and its text.
        done: Calls and streams that went as they should.
    """

    def __init__(self, address: str, found: Mapping[str, Agent]) -> None:
        self.streams: list[tuple[Any, str, str]] = []
        self.done: Counter[str] = Counter()
        self._address = address
        self._agents = found
        self._until = AsyncExitStack()
        self._number = itertools.count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._until.aclose()

    async def opens(self, streams: int) -> None:
        """Streams, which are idle from their first event on."""
        for agent in self._agents.values():
            agent.release = asyncio.Event()
        channels = [await self._until.enter_async_context(self._channel()) for _ in range(-(-streams // PER_CHANNEL))]
        opening = (
            self._opened(channels[number // PER_CHANNEL], tenant)
            for number, tenant in zip(range(streams), itertools.cycle(KEYS), strict=False)
        )
        self.streams += await asyncio.gather(*opening)

    async def calls(self, together: int, seconds: float) -> None:
        """Calls, one after the other on each of some lines."""
        channels = [await self._until.enter_async_context(self._channel()) for _ in range(CALL_CHANNELS)]
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as lines:
            for number, tenant in zip(range(together), itertools.cycle(KEYS), strict=False):
                lines.create_task(self._line(channels[number % CALL_CHANNELS], tenant, end))

    async def ends(self) -> None:
        """The agents end the streams, each with its last event."""
        assert not any(call.done() for call, _, _ in self.streams), "a stream did not last"
        for agent in self._agents.values():
            agent.release.set()
        await asyncio.gather(*(self._ended(*stream) for stream in self.streams))
        self.streams.clear()

    def _channel(self) -> aio.Channel:
        return aio.insecure_channel(self._address, options=OPTIONS)

    def _asked(self, tenant: str) -> tuple[str, a2a_pb2.SendMessageRequest, tuple[tuple[str, str], ...]]:
        text = f"{tenant}-{next(self._number)}"
        part = a2a_pb2.Part(text=text)
        message = a2a_pb2.Message(message_id=text, role=a2a_pb2.ROLE_USER, parts=[part])
        return text, a2a_pb2.SendMessageRequest(tenant=tenant, message=message), (("x-api-key", KEYS[tenant].text),)

    async def _line(self, channel: aio.Channel, tenant: str, end: float) -> None:
        stub = stub_of(channel)
        while time.monotonic() < end:
            text, request, metadata = self._asked(tenant)
            async with asyncio.timeout(WAIT):
                answer = await stub.SendMessage(request, metadata=metadata)
            assert answer.message.parts[0].text == f"{tenant} heard {text}"
            self.done["calls"] += 1

    async def _opened(self, channel: aio.Channel, tenant: str) -> tuple[Any, str, str]:
        text, request, metadata = self._asked(tenant)
        call = stub_of(channel).SendStreamingMessage(request, metadata=metadata)
        await self._told(call, tenant, text, a2a_pb2.TASK_STATE_WORKING)
        return call, tenant, text

    async def _ended(self, call: Any, tenant: str, text: str) -> None:
        await self._told(call, tenant, text, a2a_pb2.TASK_STATE_COMPLETED)
        assert await call.read() is aio.EOF
        self.done["streams"] += 1

    async def _told(self, call: Any, tenant: str, text: str, state: a2a_pb2.TaskState) -> None:
        async with asyncio.timeout(WAIT):
            update = (await call.read()).status_update
        assert (update.context_id, update.task_id, update.status.state) == (tenant, text, state)


def stub_of(channel: aio.Channel) -> Any:
    """The official client of 1.0."""
    return a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call]  # generated


# ---- The gateway ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Standing:
    """What a gateway process holds.

    Attributes:
        resident: Bytes of memory.
        descriptors: Files and sockets.
        open: Streams, calls and busy connections to agents.
        counted: Requests so far, by what became of them.
    """

    resident: int
    descriptors: int
    threads: int
    open: int
    counted: Counter[str]


async def standing(process: GatewayProcess) -> Standing:
    """What the process holds now, but for the question itself."""
    async with httpx.AsyncClient(trust_env=False, timeout=WAIT) as client:
        text = (await client.get(process.admin + "/metrics")).text
        resident, descriptors, threads = held_by(Path(f"/proc/{process.pid}"))
    held: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.labels.get("state") != "idle" and math.isfinite(sample.value):
                held[sample.name.removeprefix("a2a_gateway_")] += int(sample.value)
            if sample.name == "a2a_gateway_requests_total" and sample.value:
                counted[sample.labels["outcome"]] += int(sample.value)
    busy = held["streams_open"] + held["requests_in_flight"] + held["backend_connections"]
    return Standing(resident, descriptors, threads, busy, counted)


def held_by(process: Path) -> tuple[int, int, int]:
    """Bytes of memory, descriptors and threads of a process, by its place in /proc."""
    lines = (line.split() for line in (process / "status").read_text().splitlines())
    status = {line[0]: line[1] for line in lines if len(line) > 1}
    return int(status["VmRSS:"]) * 1024, len(list((process / "fd").iterdir())), int(status["Threads:"])


async def settled(process: GatewayProcess, base: Standing, within: float) -> tuple[Standing, float]:
    """What the process holds once it is as before, and after how many seconds; or what is left when they are over."""
    began = time.monotonic()
    while True:
        found, passed = await standing(process), time.monotonic() - began
        is_as_before = (
            not found.open and found.descriptors <= base.descriptors and found.resident <= base.resident + MARGIN
        )
        if is_as_before or passed > within:
            return found, passed
        await asyncio.sleep(0.05)


async def quiet(process: GatewayProcess) -> Standing:
    """What the process holds once nothing is open."""
    async with asyncio.timeout(WAIT):
        while (found := await standing(process)).open:  # noqa: ASYNC110 - the process tells nobody
            await asyncio.sleep(0.05)
    return found


async def soak(size: Size, folder: Path) -> None:
    async with agents() as found:
        with gateway_process(site(found), folder, forked=False) as process:
            told = {"at the start": await standing(process)}
            # Also opens the connections to the agents, which stay.
            async with Crowd(process.grpc, found) as first:
                await first.opens(size.streams)
                await first.calls(size.calls, size.before)
                await first.ends()
            told["before"] = base = await quiet(process)
            async with Crowd(process.grpc, found) as crowd:
                await crowd.opens(size.streams)
                await crowd.calls(size.calls, size.seconds)
                told["beside the streams"] = height = await standing(process)
                await crowd.ends()
            left, passed = await settled(process, base, size.within)
            told[f"{passed:.2f} s after the end"] = left
        show(crowd.done, told)
        assert left.open == 0
        assert left.descriptors <= base.descriptors
        assert left.resident <= base.resident + MARGIN
        assert height.open >= size.streams
        assert crowd.done["streams"] == size.streams
        assert crowd.done["calls"] >= size.calls
        done = first.done + crowd.done
        assert sum((agent.seen for agent in found.values()), Counter[str]()) == done
        assert left.counted == {"ok": done.total()}


def show(done: Counter[str], told: Mapping[str, Standing]) -> None:
    """Print the figures, for who runs it by hand."""
    print(f"\n{done['calls']:,} calls beside {done['streams']:,} idle streams")  # noqa: T201 - see above
    for moment, found in told.items():
        held = f"{found.resident / 1e6:.1f} MB, {found.descriptors} files, {found.threads} threads"
        print(f"  {moment}: {held}")  # noqa: T201 - see above


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_nothing_is_lost_and_nothing_left_of_a_thousand_idle_streams(tmp_path: Path) -> None:
    await soak(LONG, tmp_path)


# ---- In one process ------------------------------------------------------------------------------------------------


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


@asynccontextmanager
async def running(configuration: Mapping[str, object], folder: Path) -> AsyncIterator[Gateway]:
    """A gateway in this loop."""
    examined = examine(write(configuration, folder), {})
    assert not examined.errors, examined.errors
    gateway = Gateway(examined, access_stream=io.BytesIO(), state=StateUrl("memory"), resolver=public_names())
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop(asyncio.Event())


async def test_however_streams_end_no_task_and_no_object_is_left(tmp_path: Path) -> None:
    async with agents() as found, running(site(found), tmp_path) as gateway:

        async def come_and_go(streams: int) -> Counter[str]:
            """What was there at the height."""
            async with Crowd(gateway.grpc_address, found) as crowd:
                await crowd.opens(streams)
                await crowd.calls(4, 0.2)
                for call, _, _ in crowd.streams[::2]:
                    call.cancel()
                del crowd.streams[::2]
                await crowd.ends()
                # These are cut with their connection.
                await crowd.opens(streams)
                height = objects()
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
