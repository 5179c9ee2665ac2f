"""An OTLP collector on loopback, over gRPC or HTTP/protobuf, that keeps the spans that it gets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gateway.upstream.grpc_library import aio
from tests.support.scripted import WAIT, ScriptedBackend, Wire, whole

OK = ExportTraceServiceResponse().SerializeToString()


@dataclass
class Collector:
    """A collector of traces at `url`.

    Attributes:
        headers: Of each export, names in lower case.
        services: The resource of each export.
        answer: The answer to each export over HTTP.
    """

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    services: list[dict[str, Any]] = field(default_factory=list)
    answer: bytes = whole(OK)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, request: ExportTraceServiceRequest, headers: dict[str, str]) -> None:
        self.headers.append(headers)
        for part in request.resource_spans:
            self.services.append(values(part.resource.attributes))
            for scope in part.scope_spans:
                self.spans += scope.spans
        self.news.set()

    def has_more_than(self, exports: int) -> bool:
        return len(self.headers) > exports

    def of(self, trace: str) -> list[Span]:
        """The spans of a trace, in the order in which they began."""
        found = [span for span in self.spans if span.trace_id.hex() == trace]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT):
            while not true():
                self.news.clear()
                await self.news.wait()

    async def trace(self, trace: str, number: int) -> list[Span]:
        """The spans of a trace, once there are so many of them."""
        await self.until(lambda: len(self.of(trace)) >= number)
        found = self.of(trace)
        assert len(found) == number, found
        return found


def values(attributes: Any) -> dict[str, Any]:
    """Attributes as Python has them."""
    pairs: list[KeyValue] = list(attributes)
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)


@asynccontextmanager
async def over_grpc() -> AsyncIterator[Collector]:
    """A collector at the port of a server of grpc.aio."""
    collector = Collector()

    class Service(TraceServiceServicer):
        async def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:  # noqa: N802 - of the service
            collector.take(request, dict(context.invocation_metadata()))
            return ExportTraceServiceResponse()

    server = aio.server(options=(("grpc.so_reuseport", 0),))
    add_TraceServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call]  # generated
    collector.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield collector
    finally:
        await server.stop(0)


@asynccontextmanager
async def over_http() -> AsyncIterator[Collector]:
    """A collector that answers `POST /v1/traces`."""
    collector = Collector()

    async def script(wire: Wire) -> None:
        while True:
            asked = await wire.request()
            assert (asked.method, asked.target) == (b"POST", b"/v1/traces")
            headers = {name.decode().lower(): value.decode() for name, value in asked.headers}
            assert headers["content-type"] == "application/x-protobuf"
            await wire.send(collector.answer)
            collector.take(ExportTraceServiceRequest.FromString(asked.body), headers)

    async with ScriptedBackend(script) as server:
        collector.url = server.url
        yield collector
