"""Health, as the clients of gRPC's health checking protocol see it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest  # type: ignore[import-untyped]  # as above
from grpc_health.v1.health_pb2_grpc import HealthStub  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_method import SERVICES
from tests.listener.grpc_front import Front, fronting
from tests.table import for_each

pytestmark = pytest.mark.anyio

SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3


@asynccontextmanager
async def healthy() -> AsyncIterator[tuple[Front, HealthStub]]:
    async with fronting() as front, front.channel() as channel:
        yield front, HealthStub(channel)


@for_each("service", ["", *SERVICES])
async def test_the_gateway_and_its_services_are_healthy_while_it_takes_calls(service: str) -> None:
    async with healthy() as (front, stub):
        asked = HealthCheckRequest(service=service)
        assert (await stub.Check(asked, timeout=10)).status == SERVING
        front.ready = False
        assert (await stub.Check(asked, timeout=10)).status == NOT_SERVING


async def test_a_service_that_is_none_is_not_found() -> None:
    async with healthy() as (_, stub):
        asked = HealthCheckRequest(service="a.b.C" * 50)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(asked, timeout=10)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        assert (await stub.Watch(asked, timeout=10).read()).status == SERVICE_UNKNOWN


async def test_a_watcher_gets_each_change_once() -> None:
    async with healthy() as (front, stub):
        watch = stub.Watch(HealthCheckRequest(), timeout=10)
        assert (await watch.read()).status == SERVING
        front.listener.update_health()
        front.ready = False
        front.listener.update_health()
        assert (await watch.read()).status == NOT_SERVING
        front.ready = True
        front.listener.update_health()
        assert (await watch.read()).status == SERVING
