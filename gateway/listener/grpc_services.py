"""The other services of the gRPC listener: health and reflection.

Health is grpc.health.v1. The servicer of the package holds a lock while it writes to a watcher, so one watcher that
reads nothing would block the updates of all others. Only its messages are used here.

Reflection is grpc.reflection.v1, and v1alpha with the same messages. It shows the published schema of A2A: services,
messages and their files. The scoped service of 0.3 has no published schema. It is shown as that of 0.3 with a `scope`
in each request and in front of the HTTP paths, as the gateway reads it.
"""

# First: it sets a variable of the environment before `grpc_reflection` loads grpcio.
from gateway.upstream.grpc_library import aio, grpc

# isort: split
import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.api import annotations_pb2, client_pb2, http_pb2  # type: ignore[import-untyped]  # they ship no types
from google.protobuf.descriptor import FileDescriptor  # type: ignore[import-untyped]  # protobuf has no types of its own
from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]  # as above
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]  # as above
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # as above
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]  # nor has grpcio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse  # type: ignore[import-untyped]  # as above
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]  # as above
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_method import SCOPED_0_3, SERVICE_0_3, SERVICES

Answer = Callable[[aio.ServicerContext], Coroutine[Any, Any, None]]
"""Answers one call."""

_PATIENCE = 10.0
"""Seconds for the message of a health check to arrive."""
_REFLECTION_PATHS = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
_SCOPED_FILE = "a2a_v0_3_scoped.proto"


class GrpcHealth:
    """Serves the health of the gateway, which is the same for every service.

    Args:
        ready: Returns whether new calls are accepted.
        services: The names of the services.

    Attributes:
        methods: The handlers by the path of the method.
    """

    def __init__(self, ready: Callable[[], bool], services: Iterable[str]) -> None:
        self._ready = ready
        self._services = frozenset(("", *services))
        self._changed = asyncio.Event()
        self.methods: Mapping[str, Answer] = {
            "/grpc.health.v1.Health/Check": self.check,
            "/grpc.health.v1.Health/Watch": self._watch,
        }

    def changed(self) -> None:
        """Send the new state to watchers, if it differs."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def check(self, context: aio.ServicerContext) -> None:
        """Answer one health check."""
        state = self._state(await _read_service(context))
        if state == HealthCheckResponse.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        await context.write(HealthCheckResponse(status=state).SerializeToString())

    async def _watch(self, context: aio.ServicerContext) -> None:
        service = await _read_service(context)
        last = None
        while True:
            changed, state = self._changed, self._state(service)
            if state != last:
                last = state
                await context.write(HealthCheckResponse(status=state).SerializeToString())
            await changed.wait()

    def _state(self, service: str) -> int:
        if service not in self._services:
            return int(HealthCheckResponse.SERVICE_UNKNOWN)
        return int(HealthCheckResponse.SERVING if self._ready() else HealthCheckResponse.NOT_SERVING)


async def _read_service(context: aio.ServicerContext) -> str:
    """Return the service of a health check; empty for the whole gateway."""
    try:
        async with asyncio.timeout(_PATIENCE):
            message = await context.read()
    except TimeoutError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message came too slowly")
        raise
    try:
        return str(HealthCheckRequest.FromString(b"" if message is aio.EOF else message).service)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message is not a health check request")
        raise


# ---- Reflection ----------------------------------------------------------------------------------------------------


class Reflection:
    """Serves the schema, by the servicer of the package.

    Args:
        scope_field: Number of `scope` in the requests of the scoped service.

    Attributes:
        methods: The handlers by the path of the method.
    """

    def __init__(self, scope_field: int) -> None:
        self._scope_field = scope_field
        self._servicer: reflection.aio.ReflectionServicer | None = None
        self.methods: Mapping[str, Answer] = dict.fromkeys(_REFLECTION_PATHS, self._answer)

    async def _answer(self, context: aio.ServicerContext) -> None:
        """Answer the requests of one client until it sends no more."""
        # Built for the first request: it takes a tenth of a second, and few clients ask.
        servicer: Any = self._servicer or await asyncio.to_thread(_servicer, self._scope_field)
        self._servicer = servicer
        async for response in servicer.ServerReflectionInfo(_requests(context), context):
            await context.write(response.SerializeToString())


async def _requests(context: aio.ServicerContext) -> AsyncIterator[ServerReflectionRequest]:
    while (message := await context.read()) is not aio.EOF:
        try:
            yield ServerReflectionRequest.FromString(message)
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the message is not a reflection request")


def _servicer(scope_field: int) -> reflection.aio.ReflectionServicer:
    services = (*SERVICES, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
    return reflection.aio.ReflectionServicer(services, pool=_schema(scope_field))


def _schema(scope_field: int) -> DescriptorPool:
    """Return the schema of the services alone, without other messages that this process has loaded."""
    pool = DescriptorPool()
    known: set[str] = set()

    def add(file: FileDescriptor) -> None:
        if file.name not in known:
            known.add(file.name)
            for dependency in file.dependencies:
                add(dependency)
            pool.AddSerializedFile(file.serialized_pb)

    for module in (a2a_pb2, a2a_v0_3_pb2, health_pb2):
        add(module.DESCRIPTOR)
    pool.Add(_scoped(a2a_v0_3_pb2.DESCRIPTOR, scope_field))
    return pool


def _scoped(file: FileDescriptor, scope_field: int) -> FileDescriptorProto:
    """Return the file of the scoped service: the requests of 0.3 with a `scope`, under names of their own."""
    original = FileDescriptorProto.FromString(file.serialized_pb)
    package, _, name = SCOPED_0_3.rpartition(".")
    scoped = FileDescriptorProto(name=_SCOPED_FILE, package=package, syntax="proto3")
    scoped.dependency.extend([original.name, *original.dependency])
    [service] = [each for each in original.service if f"{package}.{each.name}" == SERVICE_0_3]
    scoped.service.add().CopyFrom(service)
    scoped.service[0].name = name
    requests = {method.input_type for method in service.method}
    for message in original.message_type:
        if f".{package}.{message.name}" in requests:
            request = scoped.message_type.add()
            request.CopyFrom(message)
            request.name = f"Scoped{message.name}"
            request.field.add(
                name="scope",
                json_name="scope",
                number=scope_field,
                type=FieldDescriptorProto.TYPE_STRING,
                label=FieldDescriptorProto.LABEL_OPTIONAL,
            )
    for method in scoped.service[0].method:
        http = method.options.Extensions[annotations_pb2.http]
        for rule in (http, *http.additional_bindings):
            _scope_path(rule)
        signatures = method.options.Extensions[client_pb2.method_signature]
        signatures[:] = [",".join(filter(None, ("scope", each))) for each in signatures]
        method.input_type = f".{package}.Scoped{method.input_type.rpartition('.')[2]}"
    return scoped


def _scope_path(rule: http_pb2.HttpRule) -> None:
    verb = rule.WhichOneof("pattern")
    setattr(rule, verb, "/{scope=*}" + getattr(rule, verb))
