"""Contexts of clients over gRPC: what an agent says when it ends a call has no mark in it either."""

from typing import Any

import pytest
from a2a.types import a2a_pb2 as new
from google.protobuf.any_pb2 import Any as Packed  # type: ignore[import-untyped]  # protobuf ships no types
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]  # it ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # as above

from gateway.a2a.fault import A2A_DOMAIN
from gateway.a2a.operation import Operation
from tests.support.gateway import bearer, keys
from tests.support.grpc_agent import Asked, grpc_over
from tests.support.grpc_gateway import grpc_fronted, request
from tests.support.mark import shows_mark
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
__all__ = ("grpc_over",)

BEFORE = f"{keys(acme='acme', globex='globex')}\ntenants: {{ acme: [echo], globex: [echo] }}"
SEND = Operation.SEND_MESSAGE
STREAM = Operation.SEND_STREAMING_MESSAGE
MESSAGE: dict[str, Any] = {"message_id": "m", "role": new.ROLE_USER, "parts": [new.Part(text="hi")]}


def ending(context: str) -> tuple[str, bytes]:
    """Return the status of an agent that refuses a context."""
    info = Packed()
    info.Pack(ErrorInfo(reason="INVALID_PARAMS", domain=A2A_DOMAIN, metadata={"contextId": context}))
    unheard_of = Packed(type_url="type.example.com/agent.Unheard", value=b"\x00" + context.encode())
    words = f"there is no context {context}"
    return words, Status(code=3, message=words, details=[info, unheard_of]).SerializeToString()


async def refuse(asked: Asked) -> None:
    found: Any = new.SendMessageRequest.FromString(asked.message).message.context_id if "Send" in asked.path else ""
    context = found or new.ListTasksRequest.FromString(asked.message).context_id
    assert context.startswith("gw-")
    if "Streaming" in asked.path:
        task = new.Task(id="t", context_id=context, status=new.TaskStatus(state=new.TASK_STATE_WORKING))
        await asked.write(bytes(new.StreamResponse(task=task).SerializeToString()))
    await asked.fail("INVALID_ARGUMENT", *ending(context))


@for_each("operation", [SEND, STREAM])
async def test_errors_in_the_agents_dialect_name_the_clients_context(operation: Operation) -> None:
    async with grpc_fronted(refuse, before=BEFORE) as site:
        said = request(operation, message=new.Message(**MESSAGE, context_id="chat-1"))
        told = await site.client.ask(SEND, said, key()) if operation is SEND else await streamed(site, said)
        assert (told.code, told.words) == ("INVALID_ARGUMENT", "there is no context chat-1")
        (info,) = told.status.details
        found = ErrorInfo.FromString(info.value)
        assert (found.reason, found.metadata["contextId"]) == ("INVALID_PARAMS", "chat-1")
        assert not shows_mark(told.text)


@for_each("method", ["SendMessage", "SendStreamingMessage", "ListTasks"])
async def test_translated_errors_name_the_clients_context(method: str) -> None:
    async with grpc_fronted(refuse, before=BEFORE, backend='protocol: grpc, a2a_version: "1.0"') as site:
        message = b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}],"contextId":"chat-1"}}'
        params = b'{"contextId":"chat-1"}' if method == "ListTasks" else message
        body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), params)
        answer = await site.gateway.post("/echo", body, [bearer("acme"), (b"A2A-Version", b"1.0")])
        assert b"there is no context chat-1" in answer.body
        assert not shows_mark(answer.body)


def key() -> tuple[str, str]:
    name, value = bearer("acme")
    return name.decode().lower(), value.decode()


async def streamed(site: Any, said: bytes) -> Any:
    return await site.client.stream(STREAM, said, key()).end()
