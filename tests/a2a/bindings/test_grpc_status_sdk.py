"""Statuses as the clients of a2a-sdk hear them: which exception they raise, with which words."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]  # it ships no types
import pytest
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.client.transports.grpc import GrpcTransport
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.types import a2a_pb2
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError

from gateway.a2a.agent_error import AgentError
from gateway.a2a.bindings.grpc_status import Status, of_error
from gateway.a2a.dialect import Version
from gateway.a2a.fault import KINDS, ErrorKind
from tests.a2a.bindings.test_grpc_status import ALL_KINDS, V0_3, V1_0, VERSIONS, error_of
from tests.table import for_each

pytestmark = pytest.mark.anyio

CODES = {code.value[0]: code for code in grpc.StatusCode}
BY_NAME = {kind.__name__: kind for kind in JSON_RPC_ERROR_CODE_MAP}


class Failing(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio ships no types
    """A service whose answer to every call is this status and nothing else."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def service(self, _: Any) -> Any:
        async def fail(_request: bytes, context: Any) -> None:
            told = self._status
            behind = (("grpc-status-details-bin", told.details),) if told.details else ()
            await context.abort(CODES[told.code], told.message, behind)

        return grpc.unary_unary_rpc_method_handler(fail)


@asynccontextmanager
async def failing(status: Status) -> AsyncIterator[Any]:
    """A channel to such a server."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Failing(status),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


async def heard(status: Status, version: Version) -> Exception:
    """What the SDK's client of this version raises."""
    kind = GrpcTransport if version is V1_0 else CompatGrpcTransport
    async with failing(status) as channel:
        transport = kind(channel, a2a_pb2.AgentCard())
        with pytest.raises((A2AError, A2AClientError)) as caught:
            await transport.get_task(a2a_pb2.GetTaskRequest(id="t"), context=ClientCallContext())
    return caught.value


async def raw(status: Status) -> tuple[int, str, bytes]:
    """Code, message and details as any client of gRPC hears them, that of a2a-sdk 0.3 among them."""
    async with failing(status) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/a2a.v1.A2AService/GetTask")(b"")
    found = caught.value
    told = dict(found.trailing_metadata() or ())
    return found.code().value[0], found.details() or "", told.get("grpc-status-details-bin", b"")


# What only HTTP or go has a word for, and JSON-RPC's of which the SDK does not know the reason.
NAMELESS = {kind.name for kind in KINDS if kind.name not in BY_NAME}
WITHOUT_REASON = "JSONParseError"


@for_each("kind", ALL_KINDS)
async def test_an_agents_error_is_the_exception_of_that_name(kind: ErrorKind) -> None:
    if kind.challenges:
        return
    for version in VERSIONS:
        found = await heard(of_error(error_of(kind.code), version), version)
        if kind.name in NAMELESS or (kind.name == WITHOUT_REASON and version is V1_0):
            assert type(found) is A2AClientError
            assert f"gRPC Error {kind.grpc_status}: " in str(found)
            assert str(found).endswith("so")
        else:
            assert type(found) is BY_NAME[kind.name]
            assert str(found) == "so"


async def test_beside_other_reasons_the_exception_is_that_of_a2as() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": "a2a-protocol.org"}
    details = [{**info, "reason": "TASK_NOT_FOUND"}, {**info, "reason": "NO_SUCH"}, {**info, "domain": "example.com"}]
    found = await heard(of_error(error_of(-32603, data=details), V1_0), V1_0)
    assert type(found) is BY_NAME["TaskNotFoundError"]


async def test_in_0_3_the_words_begin_with_the_name() -> None:
    code, message, _ = await raw(of_error(AgentError(-32001, "TASK_NOT_FOUND", "no such task"), V0_3))
    assert (grpc.StatusCode.NOT_FOUND.value[0], "TaskNotFoundError: no such task") == (code, message)


async def test_all_that_is_written_fits_what_clients_take() -> None:
    details = [{"@type": "t", "x": letter * 1000} for letter in "abcdefghij"]
    status = of_error(error_of(-32001, "%" * 10_000, data=details), V1_0)
    assert await raw(status) == (status.code, status.message, status.details)
