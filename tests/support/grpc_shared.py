"""A gateway in front of an agent behind gRPC that two tenants share, and clients of both over gRPC and HTTP."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.operation import Operation
from tests.support.gateway import Running, bearer, keys, running
from tests.support.grpc_agent import Answer, Asked, grpc_agent
from tests.support.grpc_gateway import LISTENS, GrpcClient, dialled, request

MESSAGE = new.Message(message_id="m", role="ROLE_USER", parts=[new.Part(text="hi")])
every_client = pytest.mark.parametrize("client", ["over_grpc", "over_http"])
"""The names of the two methods of a `Site`."""


class Site:
    """A gateway in front of an agent that two tenants share.

    Attributes:
        says: The agent's answer to each operation.
    """

    def __init__(self, gateway: Running, client: GrpcClient, says: dict[Operation, Any]) -> None:
        self.gateway = gateway
        self.client = client
        self.says = says

    async def over_grpc(self, who: str, operation: Operation, **members: Any) -> tuple[bool, str]:
        """Whether an answer came; and all that was said."""
        metadata = (bearer(who)[0].decode().lower(), bearer(who)[1].decode())
        if operation.streams:
            told = await self.client.stream(operation, request(operation, **members), metadata).end()
        else:
            told = await self.client.ask(operation, request(operation, **members), metadata)
        return bool(told.messages), told.text

    async def over_http(self, who: str, operation: Operation, **members: Any) -> tuple[bool, str]:
        if "message" in members:
            members["message"] = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        if "task_id" in members:
            members["taskId"] = members.pop("task_id")
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": operation.value, "params": members}).encode()
        answer = await self.gateway.post("/echo", body, [bearer(who), (b"A2A-Version", b"1.0")])
        return b'"error"' not in answer.body, answer.body.decode()

    async def begins(self, who: str, task: str) -> None:
        """Have the agent begin a task of a caller's."""
        self.says[Operation.SEND_MESSAGE] = new.SendMessageResponse(
            task=new.Task(id=task, context_id=f"of-{task}", status={"state": 2})
        )
        answered, said = await self.over_grpc(who, Operation.SEND_MESSAGE, message=MESSAGE)
        assert answered, said


async def _says_nothing(asked: Asked) -> None:
    await asked.fail("UNIMPLEMENTED")


@asynccontextmanager
async def shared(otherwise: Answer = _says_nothing) -> AsyncIterator[Site]:
    """`acme` and `globex` call the agent.

    Args:
        otherwise: Its script if the site names none.
    """
    says: dict[Operation, Any] = {}

    async def answer(asked: Asked) -> None:
        found = says.get(BY_PATH[asked.path].operation)
        await (otherwise(asked) if found is None else asked.write(found.SerializeToString()))

    async with grpc_agent(answer) as agent:
        text = f"""\
gateway: {{ {LISTENS} }}
{keys(acme="acme", globex="globex")}
tenants: {{ acme: [echo], globex: [echo] }}
agents:
  echo: {{ backend: {{ url: "{agent.url}", a2a_version: "1.0" }}, expose: [jsonrpc, grpc] }}
"""
        async with running(text) as gateway, dialled(gateway) as client:
            yield Site(gateway, client, says)
