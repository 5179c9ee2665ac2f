"""Health, as the clients of gRPC's health checking protocol see it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest  # type: ignore[import-untyped]  # as above
from grpc_health.v1.health_pb2_grpc import HealthStub  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_method import SERVICES
from gateway.a2a.call import Head
from gateway.listener.grpc_health import CHECK, WATCH, Health
from gateway.listener.grpc_wire import GrpcWire
from tests.listener.grpc_front import GrpcFront, grpc_fronting

pytestmark = pytest.mark.anyio

SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3


class Gateway:
    ready = True


@asynccontextmanager
async def healthy() -> AsyncIterator[tuple[GrpcFront, HealthStub, Gateway, Health]]:
    gateway = Gateway()
    health = Health(lambda: gateway.ready, SERVICES)

    async def serve(front: GrpcFront, head: Head, wire: GrpcWire) -> None:
        await {CHECK: health.check, WATCH: health.watch}[head.path](wire)

    async with grpc_fronting(serve) as front, front.channel() as channel:
        yield front, HealthStub(channel), gateway, health


@pytest.mark.parametrize("service", ["", *SERVICES])
async def test_the_gateway_and_its_services_are_healthy_while_it_takes_calls(service: str) -> None:
    async with healthy() as (_, stub, gateway, _):
        asked = HealthCheckRequest(service=service)
        assert (await stub.Check(asked, timeout=10)).status == SERVING
        gateway.ready = False
        assert (await stub.Check(asked, timeout=10)).status == NOT_SERVING


async def test_a_service_that_is_none_is_not_found() -> None:
    async with healthy() as (_, stub, _, _):
        asked = HealthCheckRequest(service="a.b.C" * 50)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(asked, timeout=10)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert (await stub.Watch(asked, timeout=10).read()).status == SERVICE_UNKNOWN


async def test_whoever_watches_is_told_once_of_each_change() -> None:
    async with healthy() as (front, stub, gateway, health):
        watch = stub.Watch(HealthCheckRequest(), timeout=10)
        assert (await watch.read()).status == SERVING
        health.changed()
        gateway.ready = False
        health.changed()
        assert (await watch.read()).status == NOT_SERVING
        gateway.ready = True
        health.changed()
        assert (await watch.read()).status == SERVING
        watch.cancel()
        await front.until(lambda: not health._watching)
