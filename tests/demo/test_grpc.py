"""The sample agents over gRPC, in raw messages; `test_fleet` has the official client do the rest."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no stubs
import httpx
import pytest
from a2a.types.a2a_pb2 import GetTaskRequest, Message, Part, Role, SendMessageRequest
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]  # protobuf ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as above

from gateway.demo.fleet import serving
from gateway.demo.stage import free_port

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def channel_to_the_fleet() -> AsyncIterator[Any]:
    port = free_port(0)
    # Whoever answers over HTTP answers over gRPC, for the one is not started before the other.
    with serving(pace=0.01, grpc=port) as url:
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            card = (await http.get(f"{url}/clock/.well-known/agent-card.json")).json()
        assert {"url": f"127.0.0.1:{port}", "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "clock"} in (
            card["supportedInterfaces"]
        )
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel


def saying(text: str, tenant: str) -> SendMessageRequest:
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=text)])
    return SendMessageRequest(tenant=tenant, message=message)


async def refused(call: Any) -> tuple[str, ErrorInfo]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    [details] = [value for name, value in failed.value.trailing_metadata() if name == "grpc-status-details-bin"]
    told = Status.FromString(details)
    assert (told.code, told.message) == (failed.value.code().value[0], failed.value.details())
    info = ErrorInfo()
    assert told.details[0].Unpack(info)
    return failed.value.code().name, info


async def test_the_tenant_picks_the_agent() -> None:
    async with channel_to_the_fleet() as channel:
        stub = A2AServiceStub(channel)  # type: ignore[no-untyped-call]  # generated
        assert (await stub.SendMessage(saying("Hello", "echo"))).message.parts[0].text == "Hello"
        events = [event async for event in stub.SendStreamingMessage(saying("Go", "clock"))]
        assert events[0].HasField("task")
        # Another agent's task is none of this one's.
        code, info = await refused(stub.GetTask(GetTaskRequest(tenant="travel", id=events[0].task.id)))
        assert (code, info.reason, info.domain) == ("NOT_FOUND", "TASK_NOT_FOUND", "a2a-protocol.org")


async def test_who_names_no_agent_is_told_so() -> None:
    async with channel_to_the_fleet() as channel:
        stub = A2AServiceStub(channel)  # type: ignore[no-untyped-call]  # generated
        for tenant in ("", "nobody"):
            code, info = await refused(stub.SendMessage(saying("Hello", tenant)))
            assert (code, info.reason) == ("INVALID_ARGUMENT", "INVALID_PARAMS")
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await channel.unary_unary("/lf.a2a.v1.A2AService/Nothing")(b"")
        assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED
