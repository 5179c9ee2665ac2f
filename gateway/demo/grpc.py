"""The sample agents over gRPC (1.0 §10). It has no paths, so each is picked by the `tenant` that its card asks for."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]  # it ships no types
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]  # as above
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]  # as above
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as above

from gateway.a2a.fault import BY_REASON
from gateway.demo.stdio_agent import Agent, Refused, Tree
from gateway.upstream.grpc_library import aio, grpc

_SERVICE = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio ships no types
    """The methods of A2A's service; their objects are those of HTTP+JSON, which ProtoJSON makes messages of.

    Args:
        agents: By the tenant that picks each.
    """

    def __init__(self, agents: Mapping[str, Agent]) -> None:
        self._agents = agents
        self._methods = {f"/{_SERVICE.full_name}/{method.name}": self._method(method) for method in _SERVICE.methods}

    def service(self, details: Any) -> Any:  # noqa: ANN401 - as above
        """Return the method of a call, or None."""
        return self._methods.get(details.method)

    def _method(self, method: Any) -> Any:  # noqa: ANN401 - as above
        request_class, answer_class = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

        async def call(request: Any, context: Any) -> Any:  # noqa: ANN401 - as above
            try:
                agent, params = self._read(request)
                answer = await anext(agent.answers(method.name, params))
                return ParseDict(answer, answer_class(), ignore_unknown_fields=True)
            except Refused as refusal:
                await _fail(context, refusal)

        async def stream(request: Any, context: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401 - as above
            try:
                agent, params = self._read(request)
                async with aclosing(agent.answers(method.name, params)) as events:
                    async for event in events:
                        yield ParseDict(event, answer_class(), ignore_unknown_fields=True)
            except Refused as refusal:
                await _fail(context, refusal)

        kind = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        return kind(
            stream if method.server_streaming else call, request_class.FromString, answer_class.SerializeToString
        )

    def _read(self, request: Any) -> tuple[Agent, Tree]:  # noqa: ANN401 - as above
        agent = self._agents.get(request.tenant)
        if agent is None:
            raise Refused("INVALID_PARAMS", "the tenant is the name of an agent")
        return agent, MessageToDict(request)


async def _fail(context: Any, refusal: Refused) -> None:  # noqa: ANN401 - as above
    """End a call with an error and its reason, by which clients know which it is (1.0 §10.6)."""
    code = grpc.StatusCode[BY_REASON[refusal.reason].grpc_status]
    rpc_status = Status(code=code.value[0], message=refusal.message)
    rpc_status.details.add().Pack(ErrorInfo(reason=refusal.reason, domain="a2a-protocol.org"))
    await context.abort(code, refusal.message, (("grpc-status-details-bin", rpc_status.SerializeToString()),))


async def open_server(agents: Mapping[str, Agent], port: int) -> Any:  # noqa: ANN401 - as above
    """Serve agents on a loopback port; the caller stops the server."""
    server = aio.server(options=(("grpc.so_reuseport", 0),))
    server.add_generic_rpc_handlers((Service(agents),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server
