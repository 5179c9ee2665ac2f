"""Reflection: what tools learn of A2A's schema, and that it is enough to call by."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.api import annotations_pb2, client_pb2  # type: ignore[import-untyped]  # they ship no types
from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]  # protobuf has no types
    FileDescriptorProto,
    MethodOptions,
)
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]  # as above
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]  # as above
from grpc_reflection.v1alpha.reflection_pb2 import (  # type: ignore[import-untyped]  # nor has grpcio
    ServerReflectionRequest,
)
from grpc_reflection.v1alpha.reflection_pb2_grpc import (  # type: ignore[import-untyped]  # as above
    ServerReflectionStub,
)

from gateway.a2a.bindings.grpc_method import BY_PATH, SCOPED_0_3, SERVICES
from tests.listener.grpc_front import fronting
from tests.table import for_each

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def reflecting(**bounds: Any) -> AsyncIterator[ServerReflectionStub]:
    async with fronting(**bounds) as front, front.channel() as channel:
        yield ServerReflectionStub(channel)


async def told(stub: ServerReflectionStub, **asked: Any) -> Any:
    call = stub.ServerReflectionInfo(iter([ServerReflectionRequest(**asked)]), timeout=10)
    [answer] = [each async for each in call]
    return answer


async def schema(stub: ServerReflectionStub, symbol: str) -> DescriptorPool:
    """The schema of a symbol as a tool would build it."""
    answer = await told(stub, file_containing_symbol=symbol)
    pool = DescriptorPool()
    files = [FileDescriptorProto.FromString(each) for each in answer.file_descriptor_response.file_descriptor_proto]
    known = {file.name: file for file in files}

    def add(name: str) -> None:
        file = known.pop(name, None)
        if file is not None:
            for dependency in file.dependency:
                add(dependency)
            pool.Add(file)

    for file in files:
        add(file.name)
    return pool


async def test_the_services_are_listed() -> None:
    async with reflecting() as stub:
        answer = await told(stub, list_services="")
        names = {service.name for service in answer.list_services_response.service}
        assert names == {*SERVICES, "grpc.health.v1.Health"}


@for_each("service", SERVICES)
async def test_every_method_is_described_with_all_that_it_needs(service: str) -> None:
    async with reflecting() as stub:
        described = (await schema(stub, service)).FindServiceByName(service)
        named = {f"/{service}/{method.name}": method for method in described.methods}
        assert {path for path in BY_PATH if path.startswith(f"/{service}/")} == named.keys()
        for path, method in named.items():
            assert method.server_streaming is BY_PATH[path].operation.streams


async def test_requests_of_the_scoped_service_have_a_scope_beside_the_rest() -> None:
    async with reflecting(scope_field=77) as stub:
        pool = await schema(stub, SCOPED_0_3)
        method = pool.FindServiceByName(SCOPED_0_3).FindMethodByName("GetTask")
        message = GetMessageClass(method.input_type)(name="tasks/1", scope="acme")
        plain = GetMessageClass(pool.FindMessageTypeByName("a2a.v1.GetTaskRequest"))
        read = plain.FromString(message.SerializeToString())
        assert read.name == "tasks/1"
        assert message.SerializeToString().endswith(bytes((77 << 3 & 0x7F | 2 | 0x80, 77 >> 4)) + b"\x04acme")
        assert method.output_type.full_name == "a2a.v1.Task"


async def test_every_method_of_each_service_has_an_http_path() -> None:
    async with reflecting() as stub:
        for service in SERVICES:
            for method in (await schema(stub, service)).FindServiceByName(service).methods:
                options = MethodOptions.FromString(method.GetOptions().SerializeToString())
                http = options.Extensions[annotations_pb2.http]
                path = getattr(http, http.WhichOneof("pattern"))
                assert path.startswith("/{scope=*}/v1/") is (service == SCOPED_0_3), method.full_name
                if service == SCOPED_0_3:
                    assert all(each.startswith("scope") for each in options.Extensions[client_pb2.method_signature])


@for_each(
    "asked",
    [
        {"file_containing_symbol": "a2a.v1.Nothing"},
        {"file_by_filename": "google/protobuf/api.proto"},
        {"file_containing_symbol": "grpc.reflection.v1alpha.ServerReflection"},
        {"all_extension_numbers_of_type": "a.B"},
    ],
)
async def test_reflection_shows_only_a2a(asked: dict[str, str]) -> None:
    async with reflecting() as stub:
        assert (await told(stub, **asked)).error_response.error_code == 5
