"""Ownership of what an agent names over gRPC: in messages and in push configurations, as in JSON."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.operation import Operation
from tests.doubles.gateway import Running, bearer, keys, running
from tests.doubles.grpc_agent import Asked, grpc_agent
from tests.doubles.grpc_gateway import LISTENS, GrpcClient, dialled, request

pytestmark = pytest.mark.anyio

HOOK = "https://example.com/hook"


class Site:
    """A gateway in front of an agent that two tenants share.

    Attributes:
        says: What the agent answers to each operation.
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


MESSAGE = new.Message(message_id="m", role="ROLE_USER", parts=[new.Part(text="hi")])


@asynccontextmanager
async def shared() -> AsyncIterator[Site]:
    says: dict[Operation, Any] = {}

    async def answer(asked: Asked) -> None:
        found = says.get(BY_PATH[asked.path].operation)
        await (asked.fail("UNIMPLEMENTED") if found is None else asked.write(found.SerializeToString()))

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


every_client = pytest.mark.parametrize("client", ["over_grpc", "over_http"])


@every_client
@pytest.mark.parametrize("operation", [Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE])
async def test_a_message_that_names_anothers_task_never_leaves(client: str, operation: Operation) -> None:
    async with shared() as site:
        await site.begins("acme", "T")
        message = new.Message(message_id="x", role="ROLE_AGENT", task_id="T", parts=[new.Part(text="secret")])
        site.says[Operation.SEND_MESSAGE] = new.SendMessageResponse(message=message)
        site.says[Operation.SEND_STREAMING_MESSAGE] = new.StreamResponse(message=message)
        answered, said = await getattr(site, client)("globex", operation, message=MESSAGE)
        assert not answered
        assert "secret" not in said
        answered, said = await getattr(site, client)("acme", operation, message=MESSAGE)
        assert answered
        assert "secret" in said


@every_client
async def test_a_task_that_a_message_names_is_its_receivers(client: str) -> None:
    async with shared() as site:
        message = new.Message(message_id="x", role="ROLE_AGENT", task_id="T", parts=[new.Part(text="hi")])
        site.says[Operation.SEND_MESSAGE] = new.SendMessageResponse(message=message)
        site.says[Operation.GET_TASK] = new.Task(id="T", status={"state": 3})
        assert (await getattr(site, client)("acme", Operation.SEND_MESSAGE, message=MESSAGE))[0]
        assert (await getattr(site, client)("acme", Operation.GET_TASK, id="T"))[0]
        assert not (await getattr(site, client)("globex", Operation.GET_TASK, id="T"))[0]


def hook(task: str) -> Any:
    return new.TaskPushNotificationConfig(task_id=task, id="c", url=HOOK)


@every_client
@pytest.mark.parametrize("tasks", [("T",), ("U", "T"), ()], ids=["one", "listed", "alone"])
async def test_the_webhooks_of_anothers_task_never_leave(client: str, tasks: tuple[str, ...]) -> None:
    async with shared() as site:
        await site.begins("acme", "T")
        await site.begins("globex", "U")
        site.says[Operation.GET_PUSH_CONFIG] = hook("T")
        site.says[Operation.LIST_PUSH_CONFIGS] = new.ListTaskPushNotificationConfigsResponse(
            configs=[hook(task) for task in tasks]
        )
        ask = getattr(site, client)
        if tasks:
            answered, said = await ask("globex", Operation.LIST_PUSH_CONFIGS, task_id="U")
        else:
            answered, said = await ask("globex", Operation.GET_PUSH_CONFIG, task_id="U", id="c")
        assert not answered
        assert HOOK not in said
        assert (await ask("acme", Operation.GET_PUSH_CONFIG, task_id="T", id="c"))[0]
