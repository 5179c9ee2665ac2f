"""What clients of gRPC find: A2A's services by the line, health and reflection, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest  # type: ignore[import-untyped]  # as above
from grpc_health.v1.health_pb2_grpc import HealthStub  # type: ignore[import-untyped]  # as above
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.call import Head
from gateway.a2a.framing.grpc import frame
from gateway.listener import grpc as listener
from gateway.listener.grpc import GrpcListener
from gateway.listener.grpc_wire import GrpcWire
from gateway.wire import Wire
from tests.listener.grpc_front import REQUEST, SEND, GrpcFront, grpc_fronting
from tests.loops import both_loops

pytestmark = pytest.mark.anyio

REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
LISTS = ServerReflectionRequest(list_services="").SerializeToString()


anyio_backend = both_loops


class StandIn:
    """Where the line would be."""

    def __init__(self) -> None:
        self.ready = True
        self.heads: list[Head] = []
        self.unread: list[tuple[str, int, str]] = []

    async def serve(self, head: Head, wire: Wire) -> None:
        self.heads.append(head)
        await wire.answer(200, [], frame(await wire.read(1000)))

    def unreadable(self, peer: str, request_id: str, status: int, words: str) -> None:
        self.unread.append((peer, status, words))


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[GrpcFront, StandIn, GrpcListener]]:
    line: Any = StandIn()
    found = GrpcListener(line, lambda: bool(line.ready), scope_field=100)

    async def serve(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        await found(head, wire)

    async with grpc_fronting(serve) as front:
        yield front, line, found


async def test_methods_of_a2a_are_answered_by_the_line() -> None:
    async with listening() as (front, line, _), front.channel() as channel:
        for path in BY_PATH:
            assert await channel.unary_unary(path)(path.encode(), timeout=10) == path.encode()
        assert [head.grpc.path for head in line.heads if head.grpc] == list(BY_PATH)
        assert line.unread == []


@pytest.mark.parametrize(
    "path",
    [
        "/a2a.v1.A2AService/Nothing",
        "/a2a.v1.A2AService",
        "/lf.a2a.v1.a2aservice/SendMessage",
        SEND + "?a=b",
        SEND + "/",
    ],
)
async def test_what_is_no_method_is_told_so_and_logged(path: str) -> None:
    async with listening() as (front, line, _), front.channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(path)(b"", timeout=10)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert caught.value.details() == "Method not found!"
        assert len(dict(caught.value.initial_metadata() or caught.value.trailing_metadata())["x-request-id"]) == 16
        assert line.unread == [("127.0.0.1", 404, f"there is no method {path}")]
        assert line.heads == []


async def test_the_path_of_what_is_no_method_is_logged_in_part() -> None:
    async with listening() as (front, line, _):
        client = await front.client()
        stream = client.ask([pair if pair[0] != b":path" else (b":path", b"/" + b"x" * 5000) for pair in REQUEST])
        assert (await client.answer(stream))[1] == b"12"
        assert len(line.unread[0][2]) < 300


async def test_a_real_client_that_compresses_is_told_that_it_must_not() -> None:
    async with listening() as (front, line, _), front.channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary(SEND)(b"x" * 1000, timeout=10, compression=grpc.Compression.Gzip)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert line.heads == []


async def test_health_and_reflection_are_no_calls_of_the_line() -> None:
    async with listening() as (front, line, _), front.channel() as channel:
        assert (await HealthStub(channel).Check(HealthCheckRequest(), timeout=10)).status == 1
        for path in (REFLECTION, REFLECTION.replace("v1", "v1alpha")):
            [told] = [each async for each in channel.stream_stream(path)(iter([LISTS]), timeout=10)]
            assert b"lf.a2a.v1.A2AService" in told
        assert (line.heads, line.unread) == ([], [])


async def test_whoever_watches_is_told_of_a_change() -> None:
    async with listening() as (front, line, found), front.channel() as channel:
        watch = HealthStub(channel).Watch(HealthCheckRequest(), timeout=10)
        assert (await watch.read()).status == 1
        line.ready = False
        found.changed()
        assert (await watch.read()).status == 2


@pytest.mark.parametrize("path", ["/grpc.health.v1.Health/Check", REFLECTION])
async def test_a_question_that_cannot_be_read_is_refused(path: str) -> None:
    async with listening() as (front, _, _), front.channel() as channel:
        call = channel.stream_stream(path)(iter([b"\xff\xff"]), timeout=10)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [each async for each in call]
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_strangers_may_keep_few_calls_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_MOST_ASIDE", 2)
    async with listening() as (front, _, found), front.channel() as channel:
        stub = HealthStub(channel)
        watching = [stub.Watch(HealthCheckRequest(), timeout=10) for _ in range(2)]
        for each in watching:
            await each.read()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Watch(HealthCheckRequest(), timeout=10).read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        # Or a stranger could have the gateway taken for dead.
        assert (await stub.Check(HealthCheckRequest(), timeout=10)).status == 1
        watching[0].cancel()
        await front.until(lambda: found._open == 1)
        assert (await stub.Watch(HealthCheckRequest(), timeout=10).read()).status == 1


async def test_a_client_that_leaves_within_its_questions_leaves_nothing() -> None:
    async with listening() as (front, _, found):
        client = await front.client()
        headers = [pair if pair[0] != b":path" else (b":path", REFLECTION.encode()) for pair in REQUEST]
        client.ask(headers, frame(LISTS), end=False)
        await client.until(lambda: bool(client.body))
        await asyncio.sleep(0)
        client.leave()
        await front.until(lambda: found._open == 0)
        assert front.faults == []
